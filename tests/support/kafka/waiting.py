"""Waiting in tests: for the values of a log, and for a condition."""

import asyncio
from collections.abc import Callable

from cordwood import Log


async def values_of(log: Log, start: int | None = None, stop: int | None = None) -> list[bytes | None]:
    return [value async for batch in log.read(start, stop) for value in batch.values]


async def until(condition: Callable[[], object], seconds: float = 30) -> None:
    """Return when the condition holds; fail if it does not in time."""
    for _ in range(round(seconds / 0.01)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"it does not hold after {seconds} s")
