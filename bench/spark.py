"""Reading on Spark: against the most that its interface for Python sources gives, as a stream, on one core and two."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import cordwood
from bench.measure import Row, median, ratio, timed
from cordwood import Batch, pipeline
from cordwood.pipeline.source.rows import Rows
from cordwood.pipeline.source.schema import CREATE_TIME, spark_schema
from cordwood.records import BinaryColumn, StoredBatch

TOPIC = "bench"
SETTINGS = {"spark.ui.showConsoleProgress": "false"}

_BATCHES = 800
_BATCH_RECORDS = 1000
_MICRO_BATCH = 200_000
_TASKS = 8  # what so many bytes of two partitions are split into
_ROUNDS = 7


class Ceiling(DataSource):
    """Yields one ready batch again and again: it costs nothing but the way into Spark."""

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> StructType:
        return spark_schema(include_headers=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        return CeilingReader()


class CeilingReader(DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(_TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        values = BinaryColumn.of([os.urandom(1024) for _ in range(_BATCH_RECORDS)])
        frame = StoredBatch.from_columns(range(_BATCH_RECORDS), values, timestamps=1)
        (batch,) = Rows("bench", 0, False).batches([(frame, CREATE_TIME)])
        for _ in range(_BATCHES // _TASKS):
            yield batch


def reading(folder: Path) -> list[Row]:
    """All of a topic to Spark's noop sink: as a batch, as a stream, and on one core or two."""
    data = folder / "data"
    asyncio.run(_fill(data))
    spark = pipeline.session("local[2]", SETTINGS)
    try:
        spark.dataSource.register(Ceiling)
        in_one_session = [_against_the_ceiling(spark, data), _as_a_stream(spark, data, folder)]
    finally:
        spark.stop()
    return [*in_one_session, _on_two_cores(data)]


def to_noop(frame: DataFrame) -> float:
    """Seconds."""
    return timed(lambda: frame.write.format("noop").mode("overwrite").save())


def _against_the_ceiling(spark: SparkSession, data: Path) -> Row:
    ours, peers = _by_turns(
        lambda: to_noop(pipeline.read(spark, data, TOPIC)), lambda: to_noop(spark.read.format("ceiling").load())
    )
    what = "1 KiB records, embedded, to a noop sink vs. a generator source that yields ready Arrow batches"
    return _row(what, ours, peers, 0.8)


def _as_a_stream(spark: SparkSession, data: Path, folder: Path) -> Row:
    places = (folder / f"checkpoint-{number}" for number in count())

    def stream() -> float:
        frame = pipeline.read_stream(spark, data, TOPIC, startingOffsets="earliest", maxOffsetsPerTrigger=_MICRO_BATCH)
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(next(places)))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        # As Spark measures them: a query that runs for days is started once.
        return sum(batch.durationMs["triggerExecution"] for batch in query.recentProgress) / 1000

    ours, peers = _by_turns(stream, lambda: to_noop(pipeline.read(spark, data, TOPIC)))
    what = (
        f"1 KiB records as a stream, in micro-batches of {_MICRO_BATCH:,} (its start not counted), vs. the batch read"
    )
    return _row(what, ours, peers, 0.4)


def _on_two_cores(data: Path) -> Row:
    first, second = sorted(os.sched_getaffinity(0))[:2]
    with pinned(data, [first]) as one, pinned(data, [first, second]) as two:
        ours, peers = _by_turns(two, one)
    return _row("1 KiB records to a noop sink, pinned to two cores vs. one", ours, peers, 1.5)


@contextmanager
def pinned(data: Path, cores: list[int]) -> Iterator[Callable[[], float]]:
    """A process that reads on command, and never leaves these cores; its Java and its workers neither."""
    command = [sys.executable, "-m", "bench.spark_pinned", str(data), *map(str, cores)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, answers = process.stdin, process.stdout

        def read() -> float:
            print(file=asked, flush=True)
            return float(answers.readline())

        yield read
        # It ends when it is asked nothing more.


def _by_turns(ours: Callable[[], float], peer: Callable[[], float]) -> tuple[list[float], list[float]]:
    """Seconds for either in each round; the first one only warms up."""
    rounds = [(ours(), peer()) for _ in range(_ROUNDS + 1)][1:]
    return [own for own, _ in rounds], [other for _, other in rounds]


def _row(what: str, ours: list[float], peers: list[float], asked: float) -> Row:
    rows = _BATCHES * _BATCH_RECORDS
    return Row(
        what, f"{rows / median(ours):,.0f} rows/s", f"{rows / median(peers):,.0f} rows/s", ratio(peers, ours), asked
    )


async def _fill(folder: Path) -> None:
    records: list[Any] = [os.urandom(1024) for _ in range(_BATCH_RECORDS)]
    async with cordwood.connect(folder) as cw:
        # A stream reads each partition in one task: with two of them both cores have work.
        await cw.create_topic(TOPIC, partitions=2)

        async def writer(partition: int) -> None:
            for _ in range(_BATCHES // 4):
                await cw.log(TOPIC, partition).append(Batch.of(records))

        await asyncio.gather(*(writer(number % 2) for number in range(4)))
