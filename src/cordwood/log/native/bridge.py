"""From the engine's threads to a caller's event loop, and back."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from cordwood.errors import CordwoodError, Timeout, Unavailable

from .stream.append import Append
from .stream.succession import Done

T = TypeVar("T")


class LoopNotifier:
    """Completes the appends of one event loop: one wake-up for a whole group."""

    __slots__ = ("loop",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    def __call__(self, appends: list[Append]) -> None:
        try:
            self.loop.call_soon_threadsafe(_complete, appends)
        except RuntimeError:
            # The loop is closed: nobody waits any more, and what was written stands.
            return


def _complete(appends: list[Append]) -> None:
    for append in appends:
        future: asyncio.Future[range | None] = append.waiter  # type: ignore[assignment]  # this module's appends have one
        if future.done():
            continue
        if append.error is None:
            future.set_result(append.result)
        else:
            future.set_exception(append.error)


async def call(executor: Executor, timeout: float, what: str, function: Callable[[], T]) -> T:
    """Run a blocking function of the engine; `Timeout` if that takes too long, and it goes on by itself."""
    future = asyncio.get_running_loop().run_in_executor(executor, function)
    try:
        async with asyncio.timeout(timeout):
            return await asyncio.shield(future)
    except TimeoutError as error:
        if isinstance(error, CordwoodError):
            raise
        future.add_done_callback(_retrieve)
        raise Timeout(f"{what} took more than {timeout} s") from error
    except asyncio.CancelledError:
        future.add_done_callback(_retrieve)
        raise
    except OSError as error:
        raise Unavailable(f"{what} failed: {error}") from error


async def call_until_done(executor: Executor, timeout: float, what: str, begin: Callable[[Done], None]) -> None:
    """As `call`, for a function that is given a `done`: returns when that was called."""
    loop = asyncio.get_running_loop()
    finished = asyncio.Event()
    await call(executor, timeout, what, lambda: begin(lambda: wake(loop, finished)))
    try:
        async with asyncio.timeout(timeout):
            await finished.wait()
    except TimeoutError as error:
        raise Timeout(f"{what} took more than {timeout} s") from error


def wake(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    """Set an event of a loop from any thread; if the loop is closed nobody waits for it."""
    try:
        loop.call_soon_threadsafe(event.set)
    except RuntimeError:
        return


def _retrieve(future: "asyncio.Future[T]") -> None:
    """Take the result of a call that nobody waits for any more, so that asyncio does not complain about it."""
    if not future.cancelled():
        future.exception()
