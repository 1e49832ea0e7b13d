"""From an engine's threads to a caller's event loop, and back: what every engine needs of it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from cordwood.errors import CordwoodError, Timeout, Unavailable, reason_of

T = TypeVar("T")


async def call(executor: Executor, timeout: float, what: str, function: Callable[[], T]) -> T:
    """Run a blocking function of the engine; `Timeout` if that takes too long, and it goes on by itself."""
    try:
        future = asyncio.get_running_loop().run_in_executor(executor, function)
    except RuntimeError as error:
        # Python's pools take nothing once the main thread has ended, while other threads go on.
        raise Unavailable(
            f"{what} was not begun: {error}; is the program ending?", outcome="not_written", reason="closed"
        ) from error
    try:
        async with asyncio.timeout(timeout):
            return await asyncio.shield(future)
    except TimeoutError as error:
        if isinstance(error, CordwoodError):
            raise
        future.add_done_callback(retrieve)
        raise Timeout(f"{what} took more than {timeout} s: try again, or give it more time") from error
    except asyncio.CancelledError:
        future.add_done_callback(retrieve)
        raise
    except OSError as error:
        raise Unavailable(f"{what} failed: {error}", reason=reason_of(error)) from error


def wake(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    """Set an event of a loop from any thread; if the loop is closed nobody waits for it."""
    try:
        loop.call_soon_threadsafe(event.set)
    except RuntimeError:
        return


class Wanted:
    """Something that a reader waits for in its loop, and that comes from a thread or from another loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def wake(self) -> None:
        wake(self._loop, self._event)

    async def wait(self) -> None:
        await self._event.wait()


def retrieve(future: "asyncio.Future[T]") -> None:
    """Take the result of a call that nobody waits for any more, so that asyncio does not complain about it."""
    if not future.cancelled():
        future.exception()
