import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import cordwood
from cordwood import Batch
from cordwood.log.partitioning import partition_of
from cordwood.records import FRAME_BYTES_MAX
from tests.spark.conftest import Load
from tests.support.folder.scripts import program
from tests.support.spark.written_rows import ALL_COLUMNS, append, numbers, records, staged, values


@pytest.fixture
def events(spark: SparkSession, folder: Path) -> Iterator[Path]:
    """A folder that nobody has open, with the topics `events` (one partition) and `wide` (four)."""
    with cordwood.sync.connect(folder) as cw:
        cw.create_topic("events")
        cw.create_topic("wide", partitions=4)
    yield folder
    for _ in range(20):
        if not staged(folder):
            return
        # Tasks that were killed, since another one failed, may leave their files to the next write.
        append(numbers(spark, 1), folder)
    assert staged(folder) == [], "a write leaves no file behind, however it ends"


def test_rows_come_back_as_they_were_written(spark: SparkSession, events: Path) -> None:
    moment = datetime(2023, 11, 14, 22, 13, 20, 123_456, tzinfo=UTC)
    rows = [
        (b"k", b"a", [("h", b"1"), ("h", None)], None, None, moment),
        (None, None, None, None, None, datetime(1970, 1, 1, tzinfo=UTC)),
        (b"", b"", [], None, 0, moment),
        (b"\x00\xff", b"d", [("é", b"")], None, None, moment),
    ]
    append(spark.createDataFrame(rows, ALL_COLUMNS).coalesce(1), events)
    ms = 1_700_000_000_123
    assert records(events) == [
        (b"a", b"k", (("h", b"1"), ("h", None)), ms),
        (None, None, (), 0),
        (b"", b"", (), ms),
        (b"d", b"\x00\xff", (("é", b""),), ms),
    ]


def test_text_is_written_as_utf_8_and_times_are_set(spark: SparkSession, events: Path) -> None:
    before = datetime.now(UTC).timestamp() * 1000
    append(spark.createDataFrame([("ключ", "välue", None)], "key string, value string, timestamp timestamp"), events)
    ((value, key, _, timestamp),) = records(events)
    assert (value, key) == ("välue".encode(), "ключ".encode())
    assert timestamp is not None
    assert before - 1 <= timestamp <= datetime.now(UTC).timestamp() * 1000


def test_tasks_are_appended_in_their_order_and_rows_of_a_task_in_theirs(spark: SparkSession, events: Path) -> None:
    append(numbers(spark, 60_000, tasks=7), events)
    assert values(events) == [b"%d" % number for number in range(60_000)]
    append(numbers(spark, 3), events)
    assert values(events)[60_000:] == [b"0", b"1", b"2"]


def test_large_rows_fill_frames_and_keep_their_order(spark: SparkSession, events: Path) -> None:
    wide = spark.range(0, 40, 1, 1).selectExpr("repeat(cast(id % 10 as string), 400000) as value")
    append(wide, events)
    assert values(events) == [b"%d" % (number % 10) * 400_000 for number in range(40)]


def test_keys_go_where_an_append_of_a_client_puts_them(spark: SparkSession, events: Path) -> None:
    keyed = spark.range(0, 5000, 1, 2).selectExpr("cast(id % 97 as string) as key", "cast(id as string) as value")
    append(keyed, events, "wide")
    found = {partition: records(events, "wide", partition) for partition in range(4)}
    for partition, log in found.items():
        assert [record for record in log if partition_of(record.key or b"", 4) != partition] == []
        # In the order of the rows.
        numbers = [int(record.value or b"") for record in log]
        assert numbers == sorted(numbers)
    assert sum(map(len, found.values())) == 5000
    with cordwood.sync.connect(events) as cw:
        assert cw.append("wide", Batch.of([b"x"], keys=[b"42"])).keys() == {
            partition for partition, log in found.items() if any(record.key == b"42" for record in log)
        }


def test_rows_without_a_key_go_to_one_partition_a_task(spark: SparkSession, events: Path) -> None:
    append(numbers(spark, 400, tasks=2), events, "wide")
    assert [len(values(events, "wide", partition)) for partition in range(4)] == [200, 200, 0, 0]


def test_a_partition_that_a_row_names_counts_before_its_key(spark: SparkSession, events: Path) -> None:
    rows = [(b"k", f"{n}", n % 5 if n % 5 < 4 else None) for n in range(50)]
    frame = spark.createDataFrame(rows, "key binary, value string, partition int").coalesce(1)
    append(frame, events, "wide")
    by_key = partition_of(b"k", 4)
    for partition in range(4):
        expected = [b"%d" % n for n in range(50) if n % 5 == partition or (n % 5 == 4 and partition == by_key)]
        assert values(events, "wide", partition) == expected


def test_each_row_names_its_topic_unless_the_option_does(spark: SparkSession, events: Path) -> None:
    rows = [("events", "1"), ("wide", "2"), ("events", "3")]
    frame = spark.createDataFrame(rows, "topic string, value string").coalesce(1)
    append(frame, events, topic=None)
    assert (values(events, "events"), values(events, "wide")) == ([b"1", b"3"], [b"2"])
    append(frame, events, "wide")
    assert values(events, "wide") == [b"2", b"1", b"2", b"3"]


def test_what_was_read_can_be_written_again_with_its_times_and_headers(
    spark: SparkSession, events: Path, load: Load
) -> None:
    with cordwood.sync.connect(events) as cw:
        cw.create_topic("copy")
        batch = Batch.of([b"a", None], keys=[None, b"k"], headers=[[("h", b"1")], []], timestamps=[5, 7])
        cw.log("events").append(batch)
    append(load(topic="events", includeHeaders="true"), events, "copy")
    assert records(events, "copy") == list(batch)


def test_no_rows_are_nothing_to_do_also_while_the_folder_is_held(spark: SparkSession, events: Path) -> None:
    with cordwood.sync.connect(events):
        append(numbers(spark, 0), events)
        append(numbers(spark, 10, tasks=2).filter("value > 100"), events)
    assert values(events) == []


# -- refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("'x' as text", r"the column 'value' is missing; there are 'text'"),
        ("id as value", r"the column 'value' is bigint; it must be binary or string"),
        ("'x' as value, 1L as partition", r"the column 'partition' is bigint; it must be int"),
        ("'x' as value, 1 as key", r"the column 'key' is int; it must be binary or string"),
        (
            "'x' as value, map('a', 'b') as headers",
            r"the column 'headers' is map<string,string>; it must be array<struct",
        ),
        ("'x' as value, 1700000000 as timestamp", r"the column 'timestamp' is int; it must be timestamp"),
        ("'x' as value, now()::timestamp_ntz as timestamp", r"is timestamp_ntz; it must be timestamp"),
    ],
)
def test_wrong_columns_are_refused_before_a_task_runs(
    spark: SparkSession, events: Path, rows: str, message: str
) -> None:
    with pytest.raises(AnalysisException, match=message):
        append(spark.range(1).selectExpr(*rows.split(", ") if "map" not in rows else (rows.split(", ", 1))), events)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topic": "events"}, "the option 'url' is missing"),
        (
            {"url": "file:data", "topic": "events"},
            "'file:data' is relative, and Spark's processes run in other folders",
        ),
        ({"url": "plog://broker:7400/main", "topic": "events"}, "has no engine for it yet"),
        (
            {"url": "file:/data", "topic": "events", "kafka.client.id": "me"},
            "option .kafka.client.id. is for kafka:// urls",
        ),
        ({"url": "file:/data"}, "no topic: give the option 'topic', or a column 'topic'"),
        ({"url": "file:/data", "topic": "a/b"}, "option 'topic'"),
        ({"url": "file:/data", "topic": "a", "startingOffsets": "earliest"}, "unknown option 'startingoffsets'"),
    ],
)
def test_wrong_options_are_refused_before_a_task_runs(
    spark: SparkSession, options: dict[str, str], message: str
) -> None:
    with pytest.raises(AnalysisException, match=message):
        numbers(spark, 1).write.format("cordwood").mode("append").options(**options).save()


def test_a_log_is_not_overwritten(spark: SparkSession, events: Path) -> None:
    append(numbers(spark, 1), events)
    writer = numbers(spark, 1).write.format("cordwood").options(url=f"file:{events}", topic="events")
    with pytest.raises(AnalysisException, match="a log is only appended to"):
        writer.mode("overwrite").save()
    assert values(events) == [b"0"]


@pytest.mark.parametrize(
    ("rows", "topic", "message"),
    [
        ("'x' as value", "missing", r"NotFound: topic 'missing' does not exist"),
        ("'x' as value, 'a/b' as topic", None, r"InvalidInput: 'a/b' cannot name a topic"),
        ("'x' as value, if(id = 5, null, 'events') as topic", None, r"InvalidInput: the column 'topic' has a null"),
        (
            "'x' as value, 4 as partition",
            "wide",
            r"NotFound: topic 'wide' has no partition 4: its partitions are 0 to 3",
        ),
        ("'x' as value, -1 as partition", "wide", r"NotFound: topic 'wide' has no partition -1"),
        (
            "repeat('x', 3000000) as value",
            "events",
            rf"TooLarge: events/0: a record is 30001\d\d bytes.*{FRAME_BYTES_MAX}",
        ),
        (
            "'x' as value, timestamp_millis(-1) as timestamp",
            "events",
            r"InvalidInput: the column 'timestamp' has -1 ms",
        ),
        (
            "'x' as value, timestamp_micros(-500) as timestamp",
            "events",
            r"InvalidInput: the column 'timestamp' has -0.5 ms",
        ),
        (
            "'x' as value, array(struct(cast(null as string) as key, cast('v' as binary) as value)) as headers",
            "events",
            r"InvalidInput: the column 'headers' has a header without a key",
        ),
    ],
)
def test_wrong_rows_are_refused_and_nothing_is_appended(
    spark: SparkSession, events: Path, rows: str, topic: str | None, message: str
) -> None:
    frame = (
        spark.range(0, 10, 1, 2).selectExpr("id").select("id", F.expr(f"struct({rows})").alias("row")).select("row.*")
    )
    with pytest.raises(PythonException, match=message):
        append(frame, events, topic)
    for name, partition in (("events", 0), *(("wide", partition) for partition in range(4))):
        assert values(events, name, partition) == []


def test_one_task_that_fails_leaves_nothing_of_the_others(spark: SparkSession, events: Path) -> None:
    frame = spark.range(0, 100, 1, 4).selectExpr("if(id = 99, raise_error('stop'), cast(id as string)) as value")
    with pytest.raises(Exception, match="stop"):
        append(frame, events)
    assert values(events) == []


def test_a_folder_that_is_not_there_is_unavailable(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PythonException, match=r"Unavailable: .*missing does not exist"):
        append(numbers(spark, 1), tmp_path / "missing")
    assert not (tmp_path / "missing").exists()


def test_a_folder_without_logs_is_left_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PythonException, match=r"NotFound: nothing was ever written to "):
        append(numbers(spark, 1), tmp_path)
    assert list(tmp_path.iterdir()) == []


# -- the lock ----------------------------------------------------------------------------------------------------


def test_a_write_names_the_drivers_process_that_holds_the_folder(spark: SparkSession, events: Path) -> None:
    with cordwood.sync.connect(events) as cw:
        cw.log("events").append(Batch.of([b"mine"]))
        with pytest.raises(Exception, match=rf"Unavailable: .* is being written by process {os.getpid()}\b"):
            append(numbers(spark, 10, tasks=2), events)
        assert staged(events) == []
    append(numbers(spark, 2), events)
    assert values(events) == [b"mine", b"0", b"1"]


HOLDER = """
with cordwood.sync.connect(url):
    say("open")
    told()
"""


@pytest.mark.processes
def test_a_write_names_the_other_process_that_holds_the_folder(spark: SparkSession, events: Path) -> None:
    with program(HOLDER, events) as other:
        assert other.says() == "open"
        with pytest.raises(Exception, match=rf"Unavailable: .* is being written by process {other.pid}\b"):
            append(numbers(spark, 10, tasks=2), events)
        assert (staged(events), values(events)) == ([], [])
        other.tell()
        other.ends()
    append(numbers(spark, 2), events)
    assert values(events) == [b"0", b"1"]
