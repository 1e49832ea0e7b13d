"""Running functions of the application on a thread, for the loop."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def on_a_thread(threads: Executor, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call the function on one of these threads, with the context variables of the current task."""
    call = partial(call_guarded, function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(threads, contextvars.copy_context().run, call)


def call_guarded(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call the function; an exception that a loop cannot carry becomes a RuntimeError.

    SystemExit and its like would end the loop, which all connections share. A future refuses StopIteration, and the
    task that awaits it would wait for ever.

    >>> call_guarded(next, iter(()))
    Traceback (most recent call last):
    RuntimeError: next raised StopIteration()
    """
    try:
        return function(*args, **kwargs)
    except BaseException as error:
        if isinstance(error, Exception) and not isinstance(error, StopIteration):
            raise
        raise RuntimeError(f"{getattr(function, '__name__', function)} raised {error!r}") from error
