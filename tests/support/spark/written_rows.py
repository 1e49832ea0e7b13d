"""What the tests of writing share: rows of every kind, and how logs are read back."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import cordwood
from cordwood import StoredBatch
from cordwood.records import Record

ALL_COLUMNS = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>, topic string, partition int,"
    " timestamp timestamp"
)


def records(folder: Path, topic: str = "events", partition: int = 0) -> list[Record]:
    """All of a log, as records without offsets."""
    with cordwood.sync.connect(folder, read_only=True) as cw:
        batches: list[StoredBatch] = list(cw.log(topic, partition).read())
    return [Record(*row[:4]) for batch in batches for row in batch]


def values(folder: Path, topic: str = "events", partition: int = 0) -> list[bytes | None]:
    return [record.value for record in records(folder, topic, partition)]


def staged(folder: Path) -> list[str]:
    """The staged files that are there; notes of aborted attempts stay for a while."""
    return sorted(path.name for path in (folder / "staged").glob("*.frames"))


def numbers(spark: SparkSession, count: int, tasks: int = 1) -> DataFrame:
    """`count` rows, in order over so many tasks: value is the number as text."""
    return spark.range(0, count, 1, tasks).selectExpr("cast(id as string) as value")


def append(frame: DataFrame, folder: Path, topic: str | None = "events") -> None:
    writer = frame.write.format("cordwood").mode("append").option("url", f"file:{folder}")
    (writer if topic is None else writer.option("topic", topic)).save()
