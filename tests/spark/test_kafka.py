"""Logs on Kafka, read by librdkafka in Spark's workers: the rows of Spark's own Kafka source, side by side."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import cordwood
from cordwood import Batch, pipeline
from cordwood.pipeline.source.kafka import by_offsets
from cordwood.pipeline.source.logs import Task
from cordwood.testing.kafka import Broker
from tests.spark.conftest import plan
from tests.support.kafka import bare_client
from tests.support.spark.queries import Place
from tests.support.spark.side_by_side import ours, rows, theirs

pytestmark = pytest.mark.slow

RECORDS = 3000


@pytest.fixture
def written(client: cordwood.sync.Client, topic: str) -> str:
    """A topic of two partitions with all kinds of records."""
    client.create_topic(topic, partitions=2)
    for partition in range(2):
        client.log(topic, partition).append(records(partition))
    return topic


def records(seed: int) -> Batch:
    places = range(RECORDS)
    return Batch.of(
        [None if row % 7 == 0 else b"" if row % 7 == 1 else b"%d.%d" % (seed, row) for row in places],
        keys=[None if row % 5 == 0 else b"" if row % 5 == 1 else b"k%d" % row for row in places],
        headers=[[("h", None), ("größe", b"%d" % row)] if row % 3 == 0 else [] for row in places],
        timestamps=[1_700_000_000_000 + row * 997 for row in places],
    )


@pytest.mark.parametrize("headers", ["true", "false"])
def test_the_rows_are_those_of_sparks_own_kafka_source(
    spark: SparkSession, kafka: Broker, written: str, headers: str
) -> None:
    mine = ours(spark, kafka, subscribe=written, includeHeaders=headers)
    own = theirs(spark, kafka, subscribe=written, includeHeaders=headers)
    assert [(field.name, field.dataType) for field in mine.schema] == [
        (field.name, field.dataType) for field in own.schema
    ]
    found, wanted = rows(mine), rows(own)
    assert len(found) == 2 * RECORDS
    assert found == wanted


def test_times_of_the_broker_are_told_from_those_of_who_appended(
    spark: SparkSession, kafka: Broker, client: cordwood.sync.Client, topic: str
) -> None:
    client.create_topic(topic)
    for kind in ("CreateTime", "LogAppendTime", "CreateTime"):
        bare_client.configure(kafka.bootstrap, topic, {"message.timestamp.type": kind})
        client.log(topic).append(Batch.of([kind.encode()] * 3, timestamps=[1_700_000_000_000] * 3))
    found = rows(ours(spark, kafka, subscribe=topic))
    assert [row.timestampType for row in found] == [0, 0, 0, 1, 1, 1, 0, 0, 0]
    assert found == rows(theirs(spark, kafka, subscribe=topic))


def test_a_range_by_offsets_or_time_holds_the_same_rows(spark: SparkSession, kafka: Broker, written: str) -> None:
    for options in (
        {
            "startingOffsets": json.dumps({written: {"0": 10, "1": -2}}),
            "endingOffsets": json.dumps({written: {"0": 2000, "1": -1}}),
        },
        {"startingTimestamp": str(1_700_000_000_000 + 1500 * 997)},
    ):
        assert rows(ours(spark, kafka, subscribe=written, **options)) == rows(
            theirs(spark, kafka, subscribe=written, **options)
        )


def test_a_task_is_cut_by_offsets_into_equal_parts() -> None:
    parts = list(by_offsets(Task("t", "id", 0, 100, 1100, 0), 300))
    assert [(part.start, part.stop) for part in parts] == [(100, 350), (350, 600), (600, 850), (850, 1100)]
    assert list(by_offsets(Task("t", "id", 0, 5, 6, 0), 300)) == [Task("t", "id", 0, 5, 6, 1)]


def test_pipeline_read_reads_it_too(spark: SparkSession, kafka: Broker, written: str) -> None:
    # What may be a secret must reach the workers as it is: masked, this one is neither true nor false.
    url = f"{kafka.url}?client.id=pipeline&enable.sasl.oauthbearer.unsecure.jwt=false"
    assert pipeline.read(spark, url, written).count() == 2 * RECORDS


def test_min_partitions_cuts_a_batch_further(spark: SparkSession, kafka: Broker, written: str) -> None:
    frame = ours(spark, kafka, subscribe=written, minPartitions="5")
    assert plan(frame) == 5
    assert len(frame.collect()) == 2 * RECORDS


def test_a_stream_reads_what_is_there_and_then_what_comes(
    spark: SparkSession, kafka: Broker, client: cordwood.sync.Client, written: str, tmp_path: Path
) -> None:
    source = spark.readStream.format("cordwood").options(url=kafka.url, topic=written, startingOffsets="earliest")
    place = Place(tmp_path)
    place.drain(source.load())
    client.log(written, 1).append(Batch.of([b"new"]))
    place.drain(source.load())
    found = spark.read.parquet(str(tmp_path / "out"))
    assert found.count() == 2 * RECORDS + 1
    assert found.select("partition", "offset").distinct().count() == 2 * RECORDS + 1


def test_a_stream_has_sparks_own_rows_and_continues_from_its_positions(
    spark: SparkSession, kafka: Broker, client: cordwood.sync.Client, written: str, tmp_path: Path
) -> None:
    mine = spark.readStream.format("cordwood").option("url", kafka.url)
    own = spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    both = {Place(tmp_path / "mine"): mine, Place(tmp_path / "own"): own}
    options = {"subscribe": written, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "2500"}

    def drained() -> list[Any]:
        """What both have come to, and the last position of each."""
        ends = [
            place.drain(source.options(**options).load())[-1].sources[0].endOffset for place, source in both.items()
        ]
        return [*(rows(spark.read.parquet(str(place.folder / "out"))) for place in both), *ends]

    found, wanted, _, position = drained()
    assert (len(found), found) == (2 * RECORDS, wanted)
    client.log(written, 1).append(records(2))
    found, wanted, _, _ = drained()
    assert (len(found), found) == (3 * RECORDS, wanted)
    later = mine.options(subscribe=written, startingOffsets=position).load()
    Place(tmp_path / "later").drain(later)
    assert rows(spark.read.parquet(str(tmp_path / "later" / "out"))) == wanted[-RECORDS:]


def test_what_was_trimmed_is_a_loss(
    spark: SparkSession, kafka: Broker, client: cordwood.sync.Client, written: str
) -> None:
    start = json.dumps({written: {"0": 0, "1": 0}})
    client.log(written, 0).trim(before=100)
    with pytest.raises(PySparkException, match="100"):
        ours(spark, kafka, subscribe=written, startingOffsets=start).collect()
    kept = ours(spark, kafka, subscribe=written, startingOffsets=start, failOnDataLoss="false")
    assert kept.count() == 2 * RECORDS - 100


def test_settings_go_to_the_client_and_errors_name_no_secrets(spark: SparkSession, kafka: Broker, written: str) -> None:
    assert ours(spark, kafka, subscribe=written, **{"kafka.client.id": "spark"}).count() == 2 * RECORDS
    wrong = {"kafka.sasl.password": "hidden", "kafka.no.such.setting": "5"}
    with pytest.raises(PySparkException, match=r"no\.such\.setting") as caught:
        ours(spark, kafka, subscribe=written, **wrong).collect()
    assert "hidden" not in str(caught.value)
