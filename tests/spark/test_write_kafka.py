"""Rows into logs on Kafka: found by our own read and by Spark's own source, where Spark's own sink puts them."""

import secrets
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import cordwood
from cordwood import Batch, Unavailable
from cordwood.pipeline.sink import kafka as kafka_sink
from cordwood.pipeline.sink.kafka import WINDOW_BYTES, windows
from cordwood.pipeline.sink.target import Attempt
from cordwood.records import Record
from cordwood.testing.kafka import Broker
from cordwood.url import KafkaUrl, parse_url
from tests.support.kafka import bare_client
from tests.support.spark.side_by_side import ours, rows, theirs
from tests.support.spark.written_rows import ALL_COLUMNS, numbers

pytestmark = pytest.mark.slow

MOMENT = datetime(2023, 11, 14, 22, 13, 20, 123_456, tzinfo=UTC)
MOMENT_MS = 1_700_000_000_123


@pytest.fixture
def events(client: cordwood.sync.Client, topic: str) -> str:
    """A topic of one partition."""
    client.create_topic(topic)
    return topic


@pytest.fixture
def wide(client: cordwood.sync.Client, topic: str) -> str:
    """A topic of four partitions."""
    client.create_topic(f"{topic}-wide", partitions=4)
    return f"{topic}-wide"


@pytest.fixture
def nowhere() -> Iterator[str]:
    """The url of a port that nobody listens on, nor will."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"kafka://127.0.0.1:{taken.getsockname()[1]}"


def append(frame: DataFrame, url: str, topic: str | None, **options: str) -> None:
    writer = frame.write.format("cordwood").mode("append").option("url", url).options(**options)
    (writer if topic is None else writer.option("topic", topic)).save()


def records(client: cordwood.sync.Client, topic: str, partition: int = 0) -> list[Record]:
    return [Record(*row[:4]) for batch in client.log(topic, partition).read() for row in batch]


def values(client: cordwood.sync.Client, topic: str, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in records(client, topic, partition)]


def test_rows_come_back_as_they_were_written(
    spark: SparkSession, kafka: Broker, client: cordwood.sync.Client, events: str
) -> None:
    written = [
        (b"k", b"a", [("h", b"1"), ("h", None)], None, None, MOMENT),
        (None, None, None, None, None, datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)),
        (b"", b"", [], None, 0, MOMENT),
        (b"\x00\xff", b"d", [("é", b"")], None, None, MOMENT),
    ]
    append(spark.createDataFrame(written, ALL_COLUMNS).coalesce(1), kafka.url, events)
    assert records(client, events) == [
        (b"a", b"k", (("h", b"1"), ("h", None)), MOMENT_MS),
        (None, None, (), 1),
        (b"", b"", (), MOMENT_MS),
        (b"d", b"\x00\xff", (("é", b""),), MOMENT_MS),
    ]
    found, own = (rows(source(spark, kafka, subscribe=events)) for source in (ours, theirs))
    assert (len(found), found) == (4, own)
    with_headers = rows(theirs(spark, kafka, subscribe=events, includeHeaders="true"))
    assert [[tuple(header) for header in row.headers or ()] for row in with_headers] == [
        [("h", b"1"), ("h", None)],
        [],
        [],
        [("é", b"")],
    ]


def test_text_is_written_as_utf_8_and_times_are_set(
    spark: SparkSession, kafka: Broker, client: cordwood.sync.Client, events: str
) -> None:
    before = datetime.now(UTC).timestamp() * 1000
    row = ("ключ", "välue", None)
    append(spark.createDataFrame([row], "key string, value string, timestamp timestamp"), kafka.url, events)
    append(spark.createDataFrame([row[:2]], "key string, value string"), kafka.url, events)
    after = datetime.now(UTC).timestamp() * 1000
    for value, key, _, timestamp in records(client, events):
        assert (value, key) == ("välue".encode(), "ключ".encode())
        assert timestamp is not None
        assert before - 1 <= timestamp <= after


def test_keys_go_where_sparks_own_sink_puts_them(
    spark: SparkSession, kafka: Broker, client: cordwood.sync.Client, wide: str
) -> None:
    client.create_topic(f"{wide}-own", partitions=4)
    keyed = spark.range(0, 5000, 1, 1).selectExpr(
        "if(id % 98 = 97, '', repeat(cast(id % 98 as string), id % 5 + 1)) as key", "cast(id as string) as value"
    )
    append(keyed, kafka.url, wide)
    own = keyed.write.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    own.option("topic", f"{wide}-own").save()
    for partition in range(4):
        found = [(record.key, record.value) for record in records(client, wide, partition)]
        assert len(found) > 500
        assert found == [(record.key, record.value) for record in records(client, f"{wide}-own", partition)]


def test_rows_without_a_key_go_to_one_partition_a_task(
    spark: SparkSession, kafka: Broker, client: cordwood.sync.Client, wide: str
) -> None:
    append(numbers(spark, 400, tasks=2), kafka.url, wide)
    assert [len(values(client, wide, partition)) for partition in range(4)] == [200, 200, 0, 0]


def test_a_partition_that_a_row_names_counts_before_its_key(
    spark: SparkSession, kafka: Broker, client: cordwood.sync.Client, wide: str
) -> None:
    named = [(b"k", f"{n}", n % 4) for n in range(40)]
    append(spark.createDataFrame(named, "key binary, value string, partition int").coalesce(1), kafka.url, wide)
    for partition in range(4):
        assert values(client, wide, partition) == [b"%d" % n for n in range(40) if n % 4 == partition]


def test_each_row_names_its_topic_unless_the_option_does(
    spark: SparkSession, kafka: Broker, client: cordwood.sync.Client, events: str
) -> None:
    client.create_topic(f"{events}-2")
    named = [(events, "1"), (f"{events}-2", "2"), (events, "3")]
    frame = spark.createDataFrame(named, "topic string, value string").coalesce(1)
    append(frame, kafka.url, None)
    assert (values(client, events), values(client, f"{events}-2")) == ([b"1", b"3"], [b"2"])
    append(frame, kafka.url, events)
    assert values(client, events) == [b"1", b"3", b"1", b"2", b"3"]


def test_every_task_appends_its_rows_in_their_order(
    spark: SparkSession, kafka: Broker, client: cordwood.sync.Client, events: str
) -> None:
    append(numbers(spark, 60_000, tasks=3), kafka.url, events)
    found = [int(value or b"") for value in values(client, events)]
    assert sorted(found) == list(range(60_000))
    for task in range(3):
        assert [number for number in found if number // 20_000 == task] == list(
            range(task * 20_000, (task + 1) * 20_000)
        )


def test_large_rows_make_several_windows_and_keep_their_order(
    spark: SparkSession, kafka: Broker, client: cordwood.sync.Client, events: str
) -> None:
    count = 3 * WINDOW_BYTES // 400_000
    large = spark.range(0, count, 1, 1).selectExpr("rpad(cast(id as string), 400000, ' ') as value")
    append(large, kafka.url, events)
    assert [int(value or b"") for value in values(client, events)] == list(range(count))


def test_small_batches_share_a_window_and_a_large_one_has_its_own() -> None:
    def values_of(count: int, size: int) -> pa.RecordBatch:
        return pa.record_batch({"value": pa.array([bytes(size)] * count, pa.binary())})

    small, half = values_of(10, 100), values_of(1, WINDOW_BYTES // 2)
    given = [values_of(0, 0), small, small, half, half, values_of(2, WINDOW_BYTES), small, values_of(0, 0), small]
    assert [window.num_rows for window in windows(given, ("value",))] == [21, 1, 2, 20]
    assert list(windows([values_of(0, 0)], ("value",))) == []


def test_what_was_read_can_be_written_again_with_its_times_and_headers(
    spark: SparkSession, kafka: Broker, client: cordwood.sync.Client, events: str
) -> None:
    client.create_topic(f"{events}-copy")
    batch = Batch.of([b"a", None], keys=[None, b"k"], headers=[[("h", b"1")], []], timestamps=[5, 7])
    client.log(events).append(batch)
    append(ours(spark, kafka, topic=events, includeHeaders="true"), kafka.url, f"{events}-copy")
    assert records(client, f"{events}-copy") == list(batch)


def test_no_rows_need_no_broker(spark: SparkSession, nowhere: str) -> None:
    append(numbers(spark, 10, tasks=2).filter("value > 100"), nowhere, "events")


# -- refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "message"),
    [
        ("'x' as value, 'no-such-topic' as topic", r"NotFound: .*no-such-topic"),
        ("'x' as value, null as topic", r"InvalidInput: the column 'topic' has a null"),
        ("'x' as value, 4 as partition", r"NotFound: topic '.*' has no partition 4: its partitions are 0 to 3"),
        ("'x' as value, -1 as partition", r"NotFound: topic '.*' has no partition -1"),
        (
            "repeat('x', 3000000) as value",
            r"TooLarge: .*/0: record 9 of the batch is 3,000,0\d\d bytes.* is 2,097,152:",
        ),
        ("'x' as value, timestamp_millis(-1) as timestamp", r"InvalidInput: the column 'timestamp' has -1 ms"),
        ("'x' as value, timestamp_millis(0) as timestamp", r"InvalidInput: .*: record 9 .* timestamp 0 ms"),
        (
            "'x' as value, array(struct(cast(null as string) as key, cast('v' as binary) as value)) as headers",
            r"InvalidInput: the column 'headers' has a header without a key",
        ),
        (
            "'x' as value, array(struct(concat('a', char(0)) as key, cast('v' as binary) as value)) as headers",
            r"InvalidInput: .*: a header's name has a NUL in it",
        ),
    ],
)
def test_a_wrong_row_is_refused_before_the_first_of_its_task_is_sent(
    spark: SparkSession, kafka: Broker, client: cordwood.sync.Client, wide: str, last: str, message: str
) -> None:
    first = spark.range(0, 9, 1, 1).selectExpr("cast(id as string) as value", f"'{wide}' as topic")
    wrong = spark.range(1).select(F.lit(wide).alias("topic"), F.expr(f"struct({last})").alias("row"))
    columns = ["row.*"] if "as topic" in last else ["topic", "row.*"]
    frame = first.unionByName(wrong.select(*columns), allowMissingColumns=True).coalesce(1)
    with pytest.raises(PythonException, match=message):
        append(frame, kafka.url, None)
    assert [values(client, wide, partition) for partition in range(4)] == [[]] * 4


def test_a_topic_that_the_option_names_must_exist(spark: SparkSession, kafka: Broker, topic: str) -> None:
    with pytest.raises(PythonException, match=rf"NotFound: looking up topic '{topic}': there is no such topic"):
        append(numbers(spark, 10), kafka.url, topic)


def test_a_task_that_fails_fails_the_write(spark: SparkSession, kafka: Broker, events: str) -> None:
    frame = spark.range(0, 100, 1, 4).selectExpr("if(id = 99, raise_error('stop'), cast(id as string)) as value")
    with pytest.raises(Exception, match="stop"):
        append(frame, kafka.url, events)


def test_what_the_broker_refuses_fails_the_write(spark: SparkSession, kafka: Broker, topic: str) -> None:
    bare_client.create(kafka.bootstrap, topic, settings={"message.timestamp.before.max.ms": "1000"})
    frame = spark.createDataFrame([(b"old", MOMENT)], "value binary, timestamp timestamp")
    with pytest.raises(PythonException, match=rf"InvalidInput: {topic}/0: append"):
        append(frame, kafka.url, topic)


def test_where_no_broker_answers_a_task_fails_in_the_time_that_it_has(
    nowhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Spark would call it, but here, where the half minute that it has can be made a second."""
    assert kafka_sink._TIMEOUT_SECONDS == 30
    monkeypatch.setattr(kafka_sink, "_TIMEOUT_SECONDS", 1)
    url = parse_url(nowhere)
    assert isinstance(url, KafkaUrl)
    target = kafka_sink.KafkaTarget(url, "events", ("value",))
    rows = pa.RecordBatch.from_pydict({"value": pa.array([b"a"], pa.binary())})
    with pytest.raises(Unavailable, match=r"kafka://127.0.0.1:.*no broker has answered within 1"):
        target.write(Attempt("attempt", None), iter([rows]))


def test_settings_go_to_the_client_and_errors_name_no_secrets(
    spark: SparkSession, kafka: Broker, client: cordwood.sync.Client, events: str
) -> None:
    append(numbers(spark, 3), kafka.url, events, **{"kafka.client.id": "spark"})
    assert len(values(client, events)) == 3
    secret = secrets.token_hex(8)
    for wrong, error in (("kafka.no.such.setting", PythonException), ("kafka.bootstrap.servers", AnalysisException)):
        with pytest.raises(error, match=wrong.removeprefix("kafka.")) as caught:
            append(numbers(spark, 3), kafka.url, events, **{"kafka.sasl.password": secret, wrong: "5"})
        assert secret not in str(caught.value)


# -- streams -----------------------------------------------------------------------------------------------------


def test_a_stream_goes_on_where_it_was_and_a_replayed_batch_comes_twice(
    spark: SparkSession, kafka: Broker, client: cordwood.sync.Client, events: str, tmp_path: Path
) -> None:
    source, checkpoint = f"{events}-source", tmp_path / "checkpoint"
    client.create_topic(source)

    def run() -> list[bytes | None]:
        stream = spark.readStream.format("cordwood").options(url=kafka.url, topic=source, startingOffsets="earliest")
        sink = stream.load().drop("topic").writeStream.format("cordwood").options(url=kafka.url, topic=events)
        query = sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(60)
        return values(client, events)

    client.log(source).append(Batch.of([b"a", b"b"]))
    assert run() == [b"a", b"b"]
    client.log(source).append(Batch.of([b"c"]))
    assert run() == [b"a", b"b", b"c"]
    assert run() == [b"a", b"b", b"c"]
    # As after a crash between the end of the batch and Spark's note of it: at least once.
    (checkpoint / "commits" / "1").unlink()
    assert run() == [b"a", b"b", b"c", b"c"]
