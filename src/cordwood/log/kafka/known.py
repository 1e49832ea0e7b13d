"""Reading offsets that the caller knows. Blocking."""

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from cordwood.errors import Timeout
from cordwood.records import StoredBatch, StoredRecord, record_bytes

from .cluster import SharedCluster
from .cursor import Cursor
from .settings import ClientKind

_GAP_MAX = 500
"""A client reads over so many offsets in the time of a jump, where records are small."""
_WAIT_SECONDS = 1.0


def read_known(
    cluster: SharedCluster,
    topic: str,
    partition: int,
    offsets: Sequence[int],
    timeout: float,
    *,
    bytes_max: int | None,
    uncommitted: bool,
) -> list[StoredRecord]:
    """The records at these increasing offsets; without those that have none, and those beyond the end.

    It ends after the batch that reaches `bytes_max`.

    It asks for no bounds, unless the client says that the log does not have an offset.
    """
    if not offsets:
        return []
    records: list[StoredRecord] = []
    size = 0
    kind = ClientKind(several=True, uncommitted=uncommitted)
    settings = replace(cluster.settings, timeout=timeout)
    deadline = time.monotonic() + timeout
    cursor = Cursor(cluster.consumers, cluster.offsets, settings, topic, partition, offsets[0], kind, known=False)
    with closing(cursor):
        for run in _runs(offsets):
            if run[0] > cursor.offset:
                cursor.seek(run[0])
            while cursor.offset <= run[-1]:
                batch = cursor.read(run[-1] + 1, _WAIT_SECONDS)
                if batch is not None:
                    chosen = list(_chosen(batch, run))
                    records += chosen
                    size += sum(map(record_bytes, chosen))
                    if bytes_max is not None and size >= bytes_max:
                        return records
                elif cursor.at_end or cursor.waiting:
                    return records
                if time.monotonic() > deadline:
                    raise Timeout(f"{topic}/{partition}: fetch took more than {timeout} s: try again")
    return records


def _runs(offsets: Sequence[int]) -> Iterator[Sequence[int]]:
    """Offsets that are close to each other are read together."""
    first = 0
    for at in range(1, len(offsets)):
        if offsets[at] - offsets[at - 1] > _GAP_MAX:
            yield offsets[first:at]
            first = at
    yield offsets[first:]


def _chosen(batch: StoredBatch, offsets: Sequence[int]) -> Iterator[StoredRecord]:
    """The records of a batch at these offsets."""
    there = batch.offsets
    for offset in offsets[bisect_left(offsets, there[0]) : bisect_left(offsets, there[-1] + 1)]:
        at = bisect_left(there, offset)
        if there[at] == offset:
            yield batch[at]
