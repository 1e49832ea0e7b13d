"""A loaded frame is a snapshot: Spark keeps the plan of a load, and with it the end of each log."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import cordwood
from cordwood import Batch, pipeline
from cordwood.testing.kafka import Broker


class Growing:
    """A topic that a test appends to, and a fresh frame of it."""

    def __init__(self, cw: cordwood.sync.Client, topic: str, load: Callable[[], DataFrame]) -> None:
        cw.create_topic(topic)
        self._log = cw.log(topic)
        self.load = load
        self.grow(3)

    def grow(self, records: int) -> None:
        self._log.append(Batch.of([b"value"] * records))


@pytest.fixture(params=["folder", "kafka"])
def growing(request: pytest.FixtureRequest, spark: SparkSession, topic: str) -> Growing:
    name = "cw" if request.param == "folder" else "client"
    cw: cordwood.sync.Client = request.getfixturevalue(name)
    folder: Path = request.getfixturevalue("folder")
    kafka: Broker | None = None if request.param == "folder" else request.getfixturevalue("kafka")
    url = f"file:{folder}" if kafka is None else kafka.url
    return Growing(cw, topic, lambda: pipeline.read(spark, url, topic))


def test_every_action_on_a_frame_sees_the_end_of_the_first(growing: Growing) -> None:
    frame = growing.load()
    growing.grow(1)
    assert frame.count() == 4, "a frame is planned by its first action, not by its load"
    growing.grow(2)
    assert frame.count() == 4
    assert frame.where("offset >= 0").count() == 4
    assert sorted(row.offset for row in frame.collect()) == [0, 1, 2, 3]


def test_a_view_of_a_frame_is_a_snapshot_too(spark: SparkSession, growing: Growing) -> None:
    growing.load().createOrReplaceTempView("growing")
    counts = []
    for _ in range(2):
        counts.append(spark.sql("SELECT count(*) AS n FROM growing").collect()[0].n)
        growing.grow(1)
    assert counts == [3, 3]


def test_a_new_load_looks_anew(growing: Growing) -> None:
    assert growing.load().count() == 3
    growing.grow(2)
    assert growing.load().count() == 5
