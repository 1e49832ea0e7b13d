"""`pipeline.dead_letters`: the dead letters of a topic as a frame."""

from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession

from cordwood.pipeline.blocking import run
from cordwood.store import DeadLetter
from cordwood.store.opening import open_store

_COLUMNS = (
    "topic string, partition int, offset long, through long, id string, reason string, timestamp timestamp, key binary,"
    " header binary, value binary, skipped boolean"
)


def dead_letters(spark: SparkSession, store: str, topic: str, store_config: dict[str, str]) -> DataFrame:
    """The dead letters of a topic as of this call."""

    async def load() -> list[DeadLetter]:
        async with await open_store(store, config=store_config, read_only=True) as events:
            return await events.dead_letters(topic)

    rows = [_row(letter) for letter in run(load())]
    return spark.createDataFrame(rows, _COLUMNS)


def _row(letter: DeadLetter) -> tuple[object, ...]:
    return (
        letter.topic,
        letter.partition,
        letter.offset,
        letter.through,
        letter.id,
        letter.reason,
        # A lost range has no time.
        datetime.fromtimestamp(letter.timestamp / 1000, UTC) if letter.through is None else None,
        letter.key,
        letter.header,
        letter.value,
        letter.skipped is not None,
    )
