"""Appending without an event loop, for one thread that writes a lot, such as a Spark task."""

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, wait
from typing import NamedTuple

from cordwood.errors import CordwoodError, Timeout
from cordwood.log.calls.completion import complete
from cordwood.records import Batch

from .checks import target_of
from .cluster import SharedCluster
from .delivery import Append
from .producer import Sender

UNDER_WAY_BYTES_MAX = 16 * 1024 * 1024
"""Limit of the bytes under way; above it `append` waits. A larger batch is sent alone."""


class Part(NamedTuple):
    """Records for one log."""

    topic: str
    partition: int
    batch: Batch


class Appender:
    """Appends to any logs of a cluster, to each log in the order of the calls; for one thread.

    An append returns when its records are under way; a later call, at the latest `finish`, raises its failure.

    ```python
    appender = Appender(cluster, 30)
    appender.append([Part("events", 0, Batch.of([b"a"])), Part("events", 1, Batch.of([b"b"]))])
    appender.finish()
    ```
    """

    def __init__(self, cluster: SharedCluster, timeout: float) -> None:
        self._cluster = cluster
        self._timeout = timeout
        self._under_way: deque[tuple[Append, Future[Sequence[int]]]] = deque()
        self._under_way_bytes = 0

    def append(self, parts: Sequence[Part]) -> None:
        """Send the parts, each within the time-out; all are checked before the first is sent."""
        try:
            targets = [target_of(self._cluster, part.topic, part.partition, part.batch) for part in parts]
        except CordwoodError as error:
            error.outcome = "not_written"
            raise
        for part, target in zip(parts, targets, strict=True):
            self._send(part, target.sender)

    def finish(self) -> None:
        """Return when every append is acked."""
        while self._under_way:
            self._await_oldest()

    def _send(self, part: Part, sender: Sender) -> None:
        while self._under_way and self._under_way_bytes + part.batch.weight > UNDER_WAY_BYTES_MAX:
            self._await_oldest()
        deadline = time.monotonic() + self._timeout
        # A reader of this process that looks up the log's end as of its call must not see this append.
        _, pending = wait(self._cluster.looks_at_end((part.topic, part.partition)), self._timeout)
        if pending:
            raise Timeout(
                f"{part.topic}/{part.partition}: reads that began before this append did not find the log's end in its"
                " time",
                outcome="not_written",
            )
        acked: Future[Sequence[int]] = Future()
        append = Append(part.topic, part.partition, part.batch, acked, complete, deadline)
        while not sender.submit(append):
            _wait_for_room(sender, append)
        self._under_way.append((append, acked))
        self._under_way_bytes += append.weight

    def _await_oldest(self) -> None:
        append, acked = self._under_way.popleft()
        self._under_way_bytes -= append.weight
        acked.result()  # the sender ends every append by its deadline


def _wait_for_room(sender: Sender, append: Append) -> None:
    room = threading.Event()
    sender.when_room(room.set)
    if not room.wait(max(0.0, append.deadline - time.monotonic())):
        raise Timeout(f"{append.name}: the queue of appends stayed full until the time ran out", outcome="not_written")
