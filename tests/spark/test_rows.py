import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

import cordwood
from cordwood import Batch, pipeline
from cordwood.pipeline.source.schema import arrow_schema, spark_schema
from tests.spark.conftest import Load, plan

RECORDS = Batch.of(
    [b"a", None, b"", b"\x00\xff", b"e"],
    keys=[b"k", None, b"", b"key", None],
    headers=[[("h", b"1"), ("h", None)], [], [("é", b"")], [], []],
    timestamps=[0, 1, 1_700_000_000_123, 253_402_300_799_999, 5],
)


@pytest.mark.parametrize("include_headers", [False, True])
def test_arrow_and_spark_mean_the_same_columns(include_headers: bool) -> None:
    assert to_arrow_schema(spark_schema(include_headers), timezone="UTC").equals(arrow_schema(include_headers))


def test_the_columns_are_those_of_sparks_kafka_source(cw: cordwood.sync.Client, load: Load) -> None:
    cw.create_topic("events")
    columns = (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int"
    )
    assert load(topic="events").schema.simpleString() == columns + ">"
    headers = ",headers:array<struct<key:string,value:binary>>>"
    assert load(topic="events", includeHeaders="true").schema.simpleString() == columns + headers


def test_rows_are_what_cordwood_reads(cw: cordwood.sync.Client, load: Load) -> None:
    cw.create_topic("events", partitions=2)
    for partition in range(2):
        log = cw.log("events", partition)
        log.append(RECORDS)
        log.append(Batch.of([b"no headers, no keys, no timestamps"] * 2))
    expected = [
        (
            record.key,
            record.value,
            "events",
            partition,
            record.offset,
            record.timestamp,
            0,
            list(record.headers) or None,
        )
        for partition in range(2)
        for batch in cw.log("events", partition).read()
        for record in batch
    ]
    frame = load(topic="events", includeHeaders="true").withColumn("timestamp", F.unix_millis("timestamp"))
    found = [
        (*row[:7], None if row.headers is None else [(header.key, header.value) for header in row.headers])
        for row in frame.orderBy("partition", "offset").collect()
    ]
    assert [tuple(bytes(cell) if isinstance(cell, bytearray) else cell for cell in row) for row in found] == expected
    without = load(topic="events").withColumn("timestamp", F.unix_millis("timestamp")).orderBy("partition", "offset")
    assert [tuple(row) for row in without.collect()] == [row[:7] for row in expected]


def test_a_timestamp_is_a_moment(cw: cordwood.sync.Client, load: Load) -> None:
    cw.create_topic("events")
    cw.log("events").append(Batch.of([b"a"], timestamps=[1_700_000_000_123]))
    (row,) = load(topic="events").collect()
    assert row.timestamp.astimezone(UTC) == datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)


def test_a_time_that_spark_cannot_hold_is_told_with_its_record(cw: cordwood.sync.Client, load: Load) -> None:
    """Such as one in nanoseconds; the records before it can be read."""
    cw.create_topic("events")
    latest = (2**63 - 1) // 1000
    cw.log("events").append(Batch.of([b"x"] * 3, timestamps=[0, latest, latest + 1]))
    with pytest.raises(PythonException, match=rf"InvalidInput: events/0: the record at offset 2 .* {latest + 1} ms"):
        load(topic="events").collect()
    before = load(topic="events", endingOffsets='{"events": {"0": 2}}')
    assert [row[0] for row in before.select(F.unix_millis("timestamp")).collect()] == [0, latest]


def test_frames_of_every_size_come_in_offset_order(cw: cordwood.sync.Client, load: Load) -> None:
    cw.create_topic("events")
    log = cw.log("events")
    for count in (1, 2, 3, 1500, 1, 1, 700, 20_000, 999, 1):
        log.append(Batch.of([b"x"] * count))
    log.append(Batch.of([b"y" * 1_000_000]))
    rows = load(topic="events").select("offset", F.octet_length("value")).collect()
    _, stop = log.bounds()
    assert [row[0] for row in rows] == list(range(stop))
    assert sum(row[1] for row in rows) == stop - 1 + 1_000_000


def test_an_empty_topic_has_no_rows(cw: cordwood.sync.Client, load: Load) -> None:
    cw.create_topic("events", partitions=3)
    assert load(topic="events").collect() == []
    assert load(topic="events", minPartitions="5").count() == 0


def test_spark_computes_with_it(cw: cordwood.sync.Client, load: Load) -> None:
    cw.create_topic("events", partitions=2)
    for partition in range(2):
        values = [str(number).encode() for number in range(1000)]
        cw.log("events", partition).append(Batch.of(values, keys=[b"odd" if n % 2 else b"even" for n in range(1000)]))
    frame = load(topic="events")
    assert frame.count() == 2000
    assert frame.filter("partition = 1 AND offset >= 990").count() == 10
    sums = frame.groupBy(F.col("key").cast("string")).agg(F.sum(F.col("value").cast("string").cast("int"))).collect()
    assert {row[0]: row[1] for row in sums} == {"odd": 500_000.0, "even": 499_000.0}


def test_it_reads_beside_a_writer_that_goes_on(cw: cordwood.sync.Client, load: Load) -> None:
    cw.create_topic("events")
    log = cw.log("events")
    log.append(Batch.of([b"first"]))
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            log.append(Batch.of([b"x" * 1000] * 200))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            _, acked = log.bounds()
            offsets = [row.offset for row in load(topic="events").select("offset").collect()]
            assert offsets == list(range(len(offsets)))
            assert len(offsets) >= acked
    finally:
        done.set()
        writer.join()


def test_the_end_is_fixed_when_spark_plans(cw: cordwood.sync.Client, load: Load) -> None:
    cw.create_topic("events")
    log = cw.log("events")
    log.append(Batch.of([b"a", b"b"]))
    frame = load(topic="events")
    assert plan(frame) == 1
    log.append(Batch.of([b"late"]))
    assert [bytes(row.value) for row in frame.collect()] == [b"a", b"b"]
    assert load(topic="events").count() == 3


def test_pipeline_read_makes_paths_absolute(
    spark: SparkSession, cw: cordwood.sync.Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        cw.create_topic(name)
        cw.log(name).append(Batch.of([name.encode()] * 3))
    assert pipeline.read(spark, "file:./data", "a").count() == 3
    both = pipeline.read(spark, "file:data", ["a", "b"], startingOffsets={"a": {"0": 1}, "b": {"0": 2}})
    assert sorted(row.topic for row in both.collect()) == ["a", "a", "b"]
    with_headers = pipeline.read(spark, "file:data", "a", includeHeaders=True, minPartitions=2)
    assert ("headers" in with_headers.columns, plan(with_headers)) == (True, 2)
    with pytest.raises(cordwood.Unavailable, match="has no engine for it yet"):
        pipeline.read(spark, "plog://b:7400/main", "a")


def test_a_session_can_be_told_of_the_format(spark: SparkSession, cw: cordwood.sync.Client, load: Load) -> None:
    cw.create_topic("events")
    pipeline.register(spark)
    assert load(topic="events").count() == 0
