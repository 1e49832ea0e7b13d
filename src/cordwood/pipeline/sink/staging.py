"""The work of a task: it writes its rows, by log, into one staged file."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from cordwood.errors import Unavailable
from cordwood.log.native.coordinator import TopicRow
from cordwood.log.native.env.clock import Clock
from cordwood.log.native.env.disk import Disk
from cordwood.log.native.folder.published import Owner
from cordwood.log.native.folder.staged import StagedFile, StagedName, StagedWriter, is_aborted

from .batches import batch_of, joined
from .columns import rows_of
from .routing import Part, Router

# Rows of a log wait until they make a frame of the first size; all logs of a task hold no more than the second.
_FRAME_BYTES = 1024 * 1024
_WAITING_BYTES_MAX = 32 * 1024 * 1024


def stage(
    disk: Disk,
    clock: Clock,
    name: StagedName,
    router: Router[TopicRow],
    columns: tuple[str, ...],
    batches: Iterable[pa.RecordBatch],
) -> StagedFile | None:
    """Stage the rows of a task; None if there are none. A failure leaves no file."""
    writer = StagedWriter(disk, clock, name)
    try:
        for part in _gather(_parts(router, columns, batches)):
            owner = Owner(part.topic.id, part.partition)
            writer.add(owner, part.log, batch_of(part.rows, clock.time_ms()))
        staged = writer.finish()
        if staged is not None and is_aborted(disk, name.attempt):
            raise Unavailable(
                "the write was aborted while this task was running", outcome="not_written", reason="failed"
            )
        return staged
    except BaseException:
        writer.discard()
        raise


def _parts(
    router: Router[TopicRow], columns: tuple[str, ...], batches: Iterable[pa.RecordBatch]
) -> Iterator[Part[TopicRow]]:
    for batch in batches:
        if batch.num_rows:
            yield from router.parts(rows_of(batch, columns))


def _gather(parts: Iterable[Part[TopicRow]]) -> Iterator[Part[TopicRow]]:
    """The same rows, those of each log in their order, in fewer and larger parts."""
    waiting: dict[str, list[Part[TopicRow]]] = {}
    sizes: dict[str, int] = {}
    total = 0
    for part in parts:
        size = part.rows.nbytes
        total += size
        waiting.setdefault(part.log, []).append(part)
        sizes[part.log] = sizes.get(part.log, 0) + size
        if sizes[part.log] >= _FRAME_BYTES:
            total -= sizes.pop(part.log)
            yield _merged(waiting.pop(part.log))
        elif total >= _WAITING_BYTES_MAX:
            yield from map(_merged, waiting.values())
            waiting, sizes, total = {}, {}, 0
    yield from map(_merged, waiting.values())


def _merged(parts: list[Part[TopicRow]]) -> Part[TopicRow]:
    return parts[0]._replace(rows=joined([part.rows for part in parts]))
