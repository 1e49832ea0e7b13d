"""A batch read of ranges that a job has fixed already: `pipeline.events`, `archive` and others plan by themselves."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from cordwood.errors import Trimmed
from cordwood.pipeline.places import LogPlace, places_of

from .logs import Task, Topic, open_logs
from .options import ReadOptions
from .planning import read_task
from .registering import register
from .schema import spark_schema


class Ranges(msgspec.Struct, frozen=True):
    """Parts of the logs of one topic: start and stop by partition."""

    topic: str
    topic_id: str
    by_partition: Mapping[int, tuple[int, int]]
    uncommitted: bool = False

    @property
    def records(self) -> int:
        """How many records they have at most."""
        return sum(stop - start for start, stop in self.by_partition.values())


@dataclass(frozen=True)
class _Options:
    log: LogPlace
    ranges: Ranges

    @staticmethod
    def of(options: Mapping[str, str]) -> "_Options":
        given, log, _ = places_of(options, ("ranges",))
        assert log is not None
        return _Options(log, msgspec.json.decode(given["ranges"], type=Ranges))


class RangesSource(DataSource):
    """The records of these ranges, with their headers, in the columns of `format("cordwood")`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "cordwood-ranges"

    def schema(self) -> StructType:
        """The columns, with headers."""
        return spark_schema(include_headers=True)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The object that plans the read, and that its tasks run."""
        return RangesReader(_Options.of(self.options))


class RangesReader(DataSourceReader):
    """One read. `partitions` runs once, when Spark plans; `read` in a worker, on a copy of this object."""

    def __init__(self, options: _Options) -> None:
        place, self._ranges = options.log, options.ranges
        url = place.uncommitted if self._ranges.uncommitted else place.parsed
        self._options = ReadOptions(url, topics=(self._ranges.topic,), include_headers=True)

    def partitions(self) -> list[InputPartition]:
        """One partition for each task."""
        wanted = self._ranges
        whole = [
            Task(wanted.topic, wanted.topic_id, partition, start, stop, stop - start)
            for partition, (start, stop) in wanted.by_partition.items()
            if start < stop
        ]
        if not whole:
            return []
        with open_logs(self._options.url) as logs:
            partitions = max(task.partition for task in whole) + 1
            bounds = logs.bounds([Topic(wanted.topic, wanted.topic_id, partitions)])
            for task in whole:
                first = bounds[task.log].start
                if task.start < first:
                    raise Trimmed(
                        f"{task.log} was trimmed before {first}, and the job reads it from {task.start} on: start it"
                        " again",
                        start=first,
                    )
            return [InputPartition(part) for task in whole for part in logs.split(task)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, as Arrow batches."""
        return read_task(self._options, partition)


def read_ranges(spark: SparkSession, log: LogPlace, ranges: Ranges) -> DataFrame:
    """The records of these ranges; `Trimmed` inside of Spark's exception if some are gone by then."""
    register(spark, RangesSource)
    text = msgspec.json.encode(ranges).decode()
    return spark.read.format(RangesSource.name()).options(**log.texts(), ranges=text).load()
