"""From the engine's threads to a caller's event loop, and back."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

from cordwood.errors import Timeout
from cordwood.log.calls.completion import call, wake
from cordwood.log.native.env.workers import Done
from cordwood.log.native.stream.append import Append


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


async def call_until_done(executor: Executor, timeout: float, what: str, begin: Callable[[Done], None]) -> None:
    """As `call`, for a function that is given a `done`: returns when that was called."""
    loop = asyncio.get_running_loop()
    finished = asyncio.Event()
    deadline = loop.time() + timeout
    await call(executor, timeout, what, lambda: begin(lambda: wake(loop, finished)))
    try:
        async with asyncio.timeout_at(deadline):
            await finished.wait()
    except TimeoutError as error:
        raise Timeout(
            f"{what} took more than {timeout} s: it is begun, and goes on when the disk has answered"
        ) from error
