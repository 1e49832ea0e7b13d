"""One pending append to a stream, and the frames that appends share."""

from collections.abc import Callable, Iterator
from operator import attrgetter

from cordwood.log.calls.completion import PendingCall, Waiter
from cordwood.records import FRAME_BYTES_MAX, FRAME_SLACK_BYTES, Batch

LARGE_BYTES = 256 * 1024
"""From this weight on an append gets a frame of its own: to join large batches would only copy them."""

batch_of = attrgetter("batch")
count_of = attrgetter("count")
expected_of = attrgetter("expected")
_weight_of = attrgetter("weight")


class Append(PendingCall):
    """A batch of `count` records, its caller, and, once it is decided, `result` (the offsets) or `error`."""

    __slots__ = ("batch", "count", "deadline", "expected", "weight")

    result: range | None

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
        self.result = None
        self.error = None


def frames(appends: list[Append]) -> Iterator[tuple[list[Append], int]]:
    """Appends that share a frame, and its greatest possible size: few frames, but large appends alone."""
    weights = list(map(_weight_of, appends))
    if weights and FRAME_SLACK_BYTES + sum(weights) <= FRAME_BYTES_MAX and max(weights) < LARGE_BYTES:
        yield appends, FRAME_SLACK_BYTES + sum(weights)  # mostly many small ones
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
