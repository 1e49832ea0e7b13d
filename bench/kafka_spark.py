"""Reading on Spark, from Kafka and from a folder, against Spark's own Kafka source on the same records."""

import asyncio
import os
from pathlib import Path

from pyspark.sql import SparkSession

import cordwood
from bench.measure import Row, median, ratio
from bench.spark import SETTINGS, to_noop
from cordwood import Batch, pipeline
from cordwood.testing.kafka import Broker, spark_jars

_TOPIC = "bench"
_PARTITIONS = 2
_BATCHES = 400
_BATCH_RECORDS = 1000
_ROUNDS = 5


def against_sparks_own(folder: Path) -> list[Row]:
    """All of a topic of 1 KiB records to Spark's noop sink."""
    data = folder / "data"
    with Broker(java_options=("-Xms1g", "-Xmx1g")) as kafka:
        for url in (kafka.url, f"file:{data}"):
            asyncio.run(_fill(url))
        spark = pipeline.session("local[2]", {**SETTINGS, "spark.jars": spark_jars()})
        try:
            times = _rounds(spark, kafka, data)
        finally:
            spark.stop()
    own = times.pop("own")
    shown = {"kafka": ("1 KiB records on Kafka", 1.0), "file": ("1 KiB records, embedded,", 3.0)}
    return [
        Row(
            f"{shown[name][0]} to a noop sink vs. Spark's own Kafka source",
            _rate(seconds),
            _rate(own),
            ratio(own, seconds),
            shown[name][1],
        )
        for name, seconds in times.items()
    ]


def _rounds(spark: SparkSession, kafka: Broker, data: Path) -> dict[str, list[float]]:
    own = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap).option("subscribe", _TOPIC)
    frames = {
        "own": own.load(),
        "kafka": pipeline.read(spark, kafka.url, _TOPIC),
        "file": pipeline.read(spark, data, _TOPIC),
    }
    times: dict[str, list[float]] = {name: [] for name in frames}
    for turn in range(_ROUNDS + 1):
        for name, frame in frames.items():
            seconds = to_noop(frame)
            if turn:  # the first one starts the workers
                times[name].append(seconds)
    return times


def _rate(seconds: list[float]) -> str:
    return f"{_BATCHES * _BATCH_RECORDS / median(seconds) / 1000:.0f}k/s"


async def _fill(url: str) -> None:
    batch = Batch.of([os.urandom(1024) for _ in range(_BATCH_RECORDS)])
    async with cordwood.connect(url) as cw:
        await cw.create_topic(_TOPIC, partitions=_PARTITIONS)
        logs = [cw.log(_TOPIC, partition) for partition in range(_PARTITIONS)]
        for _ in range(_BATCHES // _PARTITIONS):
            await asyncio.gather(*(log.append(batch) for log in logs))
