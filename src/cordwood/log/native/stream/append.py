"""One append on its way, and how its caller is told."""

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from operator import attrgetter
from typing import Protocol

from cordwood.errors import CordwoodError
from cordwood.records import FRAME_BYTES_MAX, FRAME_SLACK_BYTES, Batch

LARGE_BYTES = 256 * 1024
"""From this weight on an append gets a frame of its own: putting large batches together would copy them for nothing."""

batch_of = attrgetter("batch")
count_of = attrgetter("count")
expected_of = attrgetter("expected")
_notify_of = attrgetter("notify")
_weight_of = attrgetter("weight")


class Waiter(Protocol):
    """What the caller waits on; an asyncio.Future, or anything that can tell that nobody waits any more."""

    def cancelled(self) -> bool: ...


class Append:
    """A batch of `count` records, its caller, and, once it is decided, `result` (the offsets) or `error`."""

    __slots__ = ("batch", "count", "deadline", "error", "expected", "notify", "result", "waiter", "weight")

    def __init__(
        self,
        batch: Batch,
        count: int,
        waiter: Waiter,
        notify: "Callable[[list[Append]], None]",
        deadline: float,
        expected: int | None = None,
    ) -> None:
        self.batch = batch
        self.count = count
        self.weight = batch.weight
        self.waiter = waiter
        self.notify = notify
        self.deadline = deadline
        self.expected = expected
        self.result: range | None = None
        self.error: CordwoodError | None = None


def deliver(appends: list[Append]) -> None:
    """Tell the callers: one call for each `notify`, that is one wake-up a group for an event loop."""
    callers = set(map(_notify_of, appends))
    if len(callers) == 1:
        callers.pop()(appends)
        return
    for notify in callers:
        notify([append for append in appends if append.notify == notify])


def fail(appends: Iterable[Append], error: CordwoodError) -> None:
    failed = list(appends)
    for append in failed:
        # Each caller raises its own: a shared exception would collect everybody's tracebacks.
        append.error = copy(error)
        append.error.__cause__ = error.__cause__
    deliver(failed)


def frames(appends: list[Append]) -> Iterator[tuple[list[Append], int]]:
    """Appends that share a frame, and the most bytes that it can take: few frames, but large appends alone."""
    weights = list(map(_weight_of, appends))
    if weights and FRAME_SLACK_BYTES + sum(weights) <= FRAME_BYTES_MAX and max(weights) < LARGE_BYTES:
        yield appends, FRAME_SLACK_BYTES + sum(weights)  # many small ones, mostly
        return
    frame: list[Append] = []
    size = FRAME_SLACK_BYTES
    for append in appends:
        weight = append.weight
        if frame and (weight >= LARGE_BYTES or size + weight > FRAME_BYTES_MAX):
            yield frame, size
            frame, size = [], FRAME_SLACK_BYTES
        frame.append(append)
        size += weight
    if frame:
        yield frame, size
