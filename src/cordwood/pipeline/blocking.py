"""Running a coroutine for a caller that has none, or one whose own event loop is busy with this call."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of the coroutine, run in a thread of its own: a notebook's thread has a loop that runs already."""
    with ThreadPoolExecutor(1, "cordwood-pipeline") as thread:
        return thread.submit(asyncio.run, coroutine).result()
