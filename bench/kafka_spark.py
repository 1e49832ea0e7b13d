"""Reading on Spark, against its own Kafka source on the same records."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import cordwood
from bench.kafka import JAVA_OPTIONS
from bench.measure import Row, median, ratio
from bench.spark import SETTINGS, TOPIC, to_noop
from cordwood import Batch, pipeline
from cordwood.testing.kafka import Broker, spark_jars

_PARTITIONS = 2  # as many as there are cores: Spark's own source has a task for each
_BATCHES = 600
_BATCH_RECORDS = 1000
_ROUNDS = 5


def reading(folder: Path) -> list[Row]:
    """All of a topic to a noop sink: ours on Kafka, ours on a folder, and Spark's own on Kafka, by turns."""
    data = folder / "data"
    asyncio.run(_fill(f"file:{data}"))
    with Broker(java_options=JAVA_OPTIONS, folder=folder) as kafka:
        asyncio.run(_fill(kafka.url))
        spark = pipeline.session("local[2]", {**SETTINGS, "spark.jars": spark_jars()})
        try:
            on_kafka, embedded, own = _by_turns(
                lambda: spark.read.format("cordwood").options(url=kafka.url, topic=TOPIC).load(),
                lambda: pipeline.read(spark, data, TOPIC),
                lambda: _own_source(spark, kafka),
            )
        finally:
            spark.stop()
    return [
        _row("1 KiB records on Kafka to a noop sink vs. Spark's own Kafka source, same topic", on_kafka, own, 1),
        _row("1 KiB records, embedded, to a noop sink vs. Spark's own Kafka source, same records", embedded, own, 3),
    ]


def _own_source(spark: SparkSession, kafka: Broker) -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    return reader.option("subscribe", TOPIC).load()


def _by_turns(*frames: Callable[[], DataFrame]) -> list[list[float]]:
    """Seconds for each in each round; the first one only warms up."""
    rounds = [[to_noop(frame()) for frame in frames] for _ in range(_ROUNDS + 1)][1:]
    return [list(column) for column in zip(*rounds, strict=True)]


def _row(what: str, ours: list[float], peers: list[float], asked: float) -> Row:
    rows = _BATCHES * _BATCH_RECORDS
    rate, peer = (f"{rows / median(seconds):,.0f} rows/s" for seconds in (ours, peers))
    return Row(what, rate, peer, ratio(peers, ours), asked)


async def _fill(url: str) -> None:
    records: list[Any] = [os.urandom(1024) for _ in range(_BATCH_RECORDS)]
    async with cordwood.connect(url) as cw:
        await cw.create_topic(TOPIC, partitions=_PARTITIONS)

        async def writer(partition: int) -> None:
            log = cw.log(TOPIC, partition)
            for _ in range(_BATCHES // _PARTITIONS):
                await log.append(Batch.of(records))

        await asyncio.gather(*map(writer, range(_PARTITIONS)))
