"""From an engine's threads back to the callers: one wake-up of an event loop for a group of them."""

import asyncio
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Protocol, TypeVar

from cordwood.errors import CordwoodError, Timeout

from .deadline import deadline
from .outcome import copy_for_caller

_notify_of = attrgetter("notify")


class Waiter(Protocol):
    """A future, or another object that knows whether its caller has given up."""

    def cancelled(self) -> bool: ...


class PendingCall:
    """A call under way: its caller and, once it is decided, `result` or `error`."""

    __slots__ = ("error", "notify", "result", "waiter")

    waiter: Waiter
    notify: "Callable[[list[Any]], None]"
    """Completes a group of calls, on any thread. Calls with an equal `notify` are completed together."""
    result: Sequence[int] | None
    error: CordwoodError | None


C = TypeVar("C", bound=PendingCall)


def deliver(calls: list[C]) -> None:
    """Complete the calls: one call of each `notify`."""
    callers = set(map(_notify_of, calls))
    if len(callers) == 1:
        callers.pop()(calls)
        return
    for notify in callers:
        notify([call for call in calls if call.notify == notify])


def fail(calls: Iterable[C], error: CordwoodError) -> None:
    """Complete the calls with a copy of the error each."""
    failed = list(calls)
    for call in failed:
        call.error = copy_for_caller(error)
    deliver(failed)


def complete(calls: Sequence[PendingCall]) -> None:
    """Set the futures of the callers; the future of a caller that has given up is done already."""
    for call in calls:
        future: asyncio.Future[Any] = call.waiter  # type: ignore[assignment]  # calls that notify by this have a future
        if future.done():
            continue
        if call.error is None:
            future.set_result(call.result)
        else:
            future.set_exception(call.error)


class LoopNotifier:
    """Completes the calls of one event loop: one wake-up for a whole group."""

    __slots__ = ("__weakref__", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)

    def __call__(self, calls: list[C]) -> None:
        loop = self._loop()
        try:
            if loop is not None:
                loop.call_soon_threadsafe(complete, calls)
        except RuntimeError:
            # The loop is closed: no caller waits any more. Written records stay.
            return


def notifier_of(loop: asyncio.AbstractEventLoop) -> LoopNotifier:
    """The one notifier of the running loop, so that calls of different logs are completed together."""
    notifier = _notifiers.get(loop)
    if notifier is None:
        notifier = _notifiers[loop] = LoopNotifier(loop)
    return notifier


# Without a lock: only a loop's own thread asks for its notifier.
_notifiers: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopNotifier]" = weakref.WeakKeyDictionary()


def wake(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    """Set an event of a loop from any thread; no task waits for it if the loop is closed."""
    try:
        loop.call_soon_threadsafe(event.set)
    except RuntimeError:
        return


class Wanted:
    """An event that a task waits for in its loop, and that a thread or another loop sets."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def wake(self) -> None:
        wake(self._loop, self._event)

    async def wait(self) -> None:
        await self._event.wait()


async def wait_for_room(name: str, when_room: Callable[[Callable[[], None]], None], until: float) -> None:
    """Backpressure: wait until the queue of appends is shorter, up to `until` on the monotonic clock."""
    room = Wanted()
    when_room(room.wake)
    late = f"{name}: the queue of appends stayed full until the time ran out"
    async with deadline(until - time.monotonic(), lambda: Timeout(late)):
        await room.wait()
