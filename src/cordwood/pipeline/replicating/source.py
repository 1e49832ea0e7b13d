"""The data sources of replicating jobs: one process plans ranges, and tasks replicate them.

A position of the stream names one plan. Spark compares positions only to notice work, and tasks begin after the store's
pointer. A plan that this process has not made, from a checkpoint, is made anew. So the checkpoint decides nothing,
whether it is lost, old or ahead of the store (R24).
"""

import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from cordwood.errors import InvalidInput
from cordwood.pipeline.source.share import shares

from .failures import noted
from .job import JobOptions
from .replica import Range, replica_of

_COUNT_COLUMNS = pa.schema([("records", pa.int64()), ("events", pa.int64()), ("dead", pa.int64())])
_RANGE_COLUMNS = pa.schema(
    [
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("start", pa.int64()),
        ("stop", pa.int64()),
    ]
)
_LOOK_AGAIN_SECONDS = 0.05
"""Spark asks for new records again and again: so long a look that found none waits."""


class CatchUpSource(DataSource):
    """`pipeline.catch_up` uses it, with options that it has checked: reading it replicates, and counts."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "cordwood-catch-up"

    def schema(self) -> str:
        """What each task has done."""
        return "records long, events long, dead long"

    def reader(self, schema: StructType) -> DataSourceReader:
        """The object that plans all ranges once, and whose tasks replicate them."""
        return _CatchUpReader(JobOptions.of(self.options))


class _CatchUpReader(DataSourceReader):
    def __init__(self, options: JobOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        replica = replica_of(self._options)
        with noted():
            return [InputPartition(wanted) for wanted in replica.run(replica.plan())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:  # Spark passes None for a read without any task
            return
        replica = replica_of(self._options)
        with noted():
            done = replica.run(replica.replicate(partition.value))
        counts = {"records": done.records, "events": done.events, "dead": done.dead}
        yield pa.RecordBatch.from_pylist([counts], schema=_COUNT_COLUMNS)


class ReplicateSource(DataSource):
    """`pipeline.replicate` uses it, with options that it has checked: its rows are ranges, and its sink replicates."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "cordwood-replicate"

    def schema(self) -> str:
        """The columns of a range."""
        return "topic string, topic_id string, partition int, start long, stop long"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The object that plans the ranges of each micro-batch."""
        return RangeStream(JobOptions.of(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """The object whose tasks replicate the ranges of a micro-batch."""
        return _RangeWriter(JobOptions.of(self.options))


class RangeStream(DataSourceStreamReader):
    """Plans the micro-batches of a query, in a process that lives as long as the query."""

    def __init__(self, options: JobOptions) -> None:
        self._options = options
        self._planned: tuple[str, list[Range]] | None = None
        self._latest: dict[str, Any] = {}

    def initialOffset(self) -> dict[str, Any]:
        """Before the first micro-batch; the store's pointers say where it begins."""
        return {"replicating": None, "batch": 0, "ranges": {}}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The plan of the next micro-batch; equal to `start` if all is replicated."""
        with noted():
            batch = _batch_of(start)
            ranges = self._plan()
        if not ranges:
            time.sleep(_LOOK_AGAIN_SECONDS)
            return start
        plan = uuid.uuid4().hex
        self._planned = plan, ranges
        return {"replicating": plan, "batch": batch + 1, "ranges": _by_topic(ranges)}

    def getDefaultReadLimit(self) -> ReadLimit:
        """`max_records` is applied here, by partition."""
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any]:
        """All records that wait, which Spark shows in the progress: the lag."""
        return self._latest

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One task for each range: the records of a partition are written in their order (R24)."""
        with noted():
            _batch_of(end)
            known = self._planned is not None and self._planned[0] == end["replicating"]
            ranges = self._planned[1] if self._planned is not None and known else self._plan()
        return [InputPartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The range of a task, as a row."""
        if partition.value is not None:  # Spark passes None for a read without any task
            yield pa.RecordBatch.from_pylist([partition.value._asdict()], schema=_RANGE_COLUMNS)

    def commit(self, end: dict[str, Any]) -> None:
        """The store's pointers say what is done."""

    def stop(self) -> None:
        """The query has ended."""
        replica = replica_of(self._options)
        replica.run(replica.release_leases())
        replica.close()

    def _plan(self) -> list[Range]:
        replica = replica_of(self._options)
        replica.run(replica.hold_leases())
        ranges = replica.run(replica.plan())
        self._latest = {"ranges": _by_topic(ranges)}
        return _limited(ranges, self._options.job.max_records)


class _RangeWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: JobOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        replica = replica_of(self._options)
        for batch in iterator:
            for row in batch.to_pylist():
                with noted():
                    replica.run(replica.replicate(Range(**row)))
        return WriterCommitMessage()

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Each task has moved its pointer itself."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """The records that a task has written stay, and are right."""


def _batch_of(position: dict[str, Any]) -> int:
    if position.keys() != {"replicating", "batch", "ranges"}:
        raise InvalidInput(
            f"the checkpoint is that of another query, at {str(position)[:200]}: name another folder; the store says"
            " where a replication begins"
        )
    return int(position["batch"])


def _by_topic(ranges: Sequence[Range]) -> dict[str, dict[str, list[int]]]:
    """The ranges as the progress of the query shows them."""
    found: dict[str, dict[str, list[int]]] = {}
    for each in ranges:
        found.setdefault(each.topic, {})[str(each.partition)] = [each.start, each.stop]
    return found


def _limited(ranges: list[Range], limit: int | None) -> list[Range]:
    """The first records of each range, so many in all."""
    if limit is None:
        return ranges
    waiting = {(each.topic, each.partition): each.stop - each.start for each in ranges}
    given = shares(limit, waiting, sum(each.start for each in ranges))
    shorter = [each._replace(stop=each.start + given[each.topic, each.partition]) for each in ranges]
    return [each for each in shorter if each.start < each.stop]
