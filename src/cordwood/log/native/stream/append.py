"""One append on its way, and how its caller is told."""

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import Protocol

from cordwood.errors import CordwoodError
from cordwood.records import FRAME_BYTES_MAX, FRAME_SLACK_BYTES, Batch


class Waiter(Protocol):
    """What the caller waits on; an asyncio.Future, or anything that can tell that nobody waits any more."""

    def cancelled(self) -> bool: ...


class Append:
    """A batch, its caller, and, once it is decided, `result` (the offsets) or `error`."""

    __slots__ = ("batch", "deadline", "error", "expected", "notify", "result", "waiter", "weight")

    def __init__(
        self,
        batch: Batch,
        waiter: Waiter,
        notify: "Callable[[list[Append]], None]",
        deadline: float,
        expected: int | None = None,
    ) -> None:
        self.batch = batch
        self.weight = batch.weight
        self.waiter = waiter
        self.notify = notify
        self.deadline = deadline
        self.expected = expected
        self.result: range | None = None
        self.error: CordwoodError | None = None


def deliver(appends: Iterable[Append]) -> None:
    """Tell the callers: one call for each `notify`, that is one wake-up a group for an event loop."""
    groups: dict[Callable[[list[Append]], None], list[Append]] = {}
    for append in appends:
        groups.setdefault(append.notify, []).append(append)
    for notify, group in groups.items():
        notify(group)


def fail(appends: Iterable[Append], error: CordwoodError) -> None:
    failed = list(appends)
    for append in failed:
        # Each caller raises its own: a shared exception would collect everybody's tracebacks.
        append.error = copy(error)
        append.error.__cause__ = error.__cause__
    deliver(failed)


def frames(appends: Iterable[Append]) -> Iterator[tuple[list[Append], int]]:
    """Appends that share a frame, and the most bytes that it can take: as few frames as the limit allows."""
    frame: list[Append] = []
    size = FRAME_SLACK_BYTES
    for append in appends:
        if frame and size + append.weight > FRAME_BYTES_MAX:
            yield frame, size
            frame, size = [], FRAME_SLACK_BYTES
        frame.append(append)
        size += append.weight
    if frame:
        yield frame, size
