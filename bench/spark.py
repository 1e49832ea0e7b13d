"""Reading on Spark, against the most that its interface for Python sources gives."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import cordwood
from bench.measure import Row, median, timed
from cordwood import Batch, pipeline
from cordwood.pipeline.source.rows import Rows
from cordwood.pipeline.source.schema import spark_schema
from cordwood.records import BinaryColumn, StoredBatch

_BATCHES = 480
_BATCH_RECORDS = 1000
_TASKS = 4  # what so many bytes are split into
_ROUNDS = 3


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
        (batch,) = Rows("bench", 0, False).batches([frame])
        for _ in range(_BATCHES // _TASKS):
            yield batch


def to_noop(folder: Path) -> Row:
    """All of a log to Spark's noop sink."""
    asyncio.run(_fill(folder / "data"))
    spark = pipeline.session("local[2]", {"spark.ui.showConsoleProgress": "false"})
    try:
        spark.dataSource.register(Ceiling)
        ours, peer = _measured(spark, folder / "data")
    finally:
        spark.stop()
    rows = _BATCHES * _BATCH_RECORDS
    what = "1 KiB records, embedded, to a noop sink vs. a generator source that yields ready Arrow batches"
    return Row(what, f"{rows / ours:,.0f} rows/s", f"{rows / peer:,.0f} rows/s", peer / ours, 0.8)


def _measured(spark: SparkSession, data: Path) -> tuple[float, float]:
    """Seconds for either, by turns; the first round only warms up."""

    def run(frame: DataFrame) -> None:
        frame.write.format("noop").mode("overwrite").save()

    seconds: dict[str, list[float]] = {"ours": [], "peer": []}
    for _ in range(_ROUNDS + 1):
        for name, frame in (
            ("ours", pipeline.read(spark, data, "bench")),
            ("peer", spark.read.format("ceiling").load()),
        ):
            seconds[name].append(timed(lambda frame=frame: run(frame)))  # type: ignore[misc]  # the loop's, bound now
    return median(seconds["ours"][1:]), median(seconds["peer"][1:])


async def _fill(folder: Path) -> None:
    records: list[Any] = [os.urandom(1024) for _ in range(_BATCH_RECORDS)]
    async with cordwood.connect(folder) as cw:
        await cw.create_topic("bench")
        log = cw.log("bench")

        async def writer() -> None:
            for _ in range(_BATCHES // 4):
                await log.append(Batch.of(records))

        await asyncio.gather(*(writer() for _ in range(4)))
