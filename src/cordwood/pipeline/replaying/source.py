"""The data source of a replay: one process plans it, at the first action, and tasks read it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from cordwood.errors import NotFound, Trimmed
from cordwood.pipeline.source.logs import Logs, Task, open_logs
from cordwood.wal.formats.decoder import RecordDecoder
from cordwood.wal.formats.interface import OpenRegion
from cordwood.wal.state.fence import Fence

from .options import ReplayOptions
from .ranges import bucket_starts, ranges
from .region import look
from .rows import bad_rows, entries, entry_schema, merged, whole_writes, write_schema
from .task import RangeState


@dataclass(frozen=True)
class Range:
    """The part of the data log that a task reads, and what decides which of its writes count."""

    task: Task
    fence: Fence
    deleted: dict[int, int]
    decoder: RecordDecoder
    bucket_starts: list[tuple[int, int]]


class RegionSource(DataSource):
    """`pipeline.replay` uses it, with options that it has checked."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "cordwood-region"

    def schema(self) -> StructType:
        """The columns of entries, or of whole writes that are to be shuffled."""
        return _schema(ReplayOptions.of(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """The object that plans the replay, and that its tasks run."""
        return RegionReader(ReplayOptions.of(self.options))


def _schema(options: ReplayOptions) -> StructType:
    wanted = options.wanted
    return (write_schema if wanted.buckets else entry_schema)(wanted.permissive)


class RegionReader(DataSourceReader):
    """One replay. `partitions` runs once, when Spark plans; `read` in a worker, on a copy of this object."""

    def __init__(self, options: ReplayOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """One partition for each range; the end of the region and its marks are fixed here."""
        found, wanted = look(self._options), self._options.wanted
        data = found.data
        with open_logs(self._options.url) as logs:
            topic = next(iter(logs.topics(frozenset([data.log.topic]).__contains__)), None)
        if topic is None:
            raise NotFound(f"topic {data.log.topic!r} was deleted while it was looked at")
        starts = bucket_starts(data.state, wanted.tables, wanted.buckets) if wanted.buckets else []
        deleted, decoder = dict(data.state.deleted), data.decoder
        return [
            InputPartition(
                Range(
                    Task(topic.name, topic.id, data.log.partition, start, stop, stop - start),
                    data.state.fence.at(start),
                    deleted,
                    decoder,
                    starts,
                )
            )
            for start, stop in ranges(data.state)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range, as Arrow batches."""
        if partition.value is None:
            # Spark passes None for a read without any task.
            return iter(())
        return merged(self._batches(partition.value))

    def _batches(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        with open_logs(self._options.url) as logs:
            while True:
                try:
                    yield from self._rows(logs, wanted)
                    return
                except Trimmed as trimmed:
                    following = self._after(trimmed, wanted)
                if following is None:
                    return
                wanted = following

    def _rows(self, logs: Logs, wanted: Range) -> Iterator[pa.RecordBatch]:
        options = self._options.wanted
        schema = _schema(self._options)
        state = RangeState(wanted.decoder, replace(wanted.fence), wanted.deleted, options.tables, options.permissive)
        for batch, _ in logs.frames(wanted.task):
            writes, bad = state.take(batch)
            if bad:
                yield bad_rows(bad, schema)
            if writes is not None and options.buckets:
                yield whole_writes(writes, wanted.bucket_starts, options.permissive)
            elif writes is not None:
                yield entries(writes, options.permissive)
        if state.bad:
            yield bad_rows(state.bad, schema)

    def _after(self, trimmed: Trimmed, wanted: Range) -> Range | None:
        """R16: the rest of a range whose beginning was trimmed; None if all of it was. Raises if entries are lost."""
        found = look(self._options)
        start = _first_live(found)
        if found.lost or start < trimmed.start:
            raise trimmed
        if start >= wanted.task.stop:
            return None
        state = found.data.state
        return replace(
            wanted,
            task=replace(wanted.task, start=start),
            fence=state.fence.at(start),
            deleted=dict(state.deleted),
            decoder=found.data.decoder,
        )


def _first_live(found: OpenRegion) -> int:
    state = found.data.state
    return state.next_offset if state.oldest_live is None else state.oldest_live
