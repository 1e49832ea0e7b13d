from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import cordwood
from cordwood import Batch, InvalidInput
from cordwood.pipeline.source.options import EARLIEST, LATEST, Offsets, ReadOptions
from tests.spark.conftest import Load

GIVEN = {"url": "file:/srv/data", "topic": "events"}


def test_what_is_not_given() -> None:
    assert ReadOptions.of(GIVEN) == ReadOptions(Path("/srv/data"), ("events",))


def test_names_are_taken_in_any_case() -> None:
    options = ReadOptions.of({"URL": "file:///srv/data", "SubScribe": "a, b,a", "failondataloss": "FALSE"})
    assert options == ReadOptions(Path("/srv/data"), ("a", "b"), fail_on_data_loss=False)


def test_offsets() -> None:
    options = ReadOptions.of(
        {**GIVEN, "startingOffsets": '{"events": {"0": 23, "1": -2}}', "endingOffsets": '{"events": {"0": -1, "1": 9}}'}
    )
    assert options.start == Offsets(by_log={"events": {0: 23, 1: EARLIEST}})
    assert options.stop == Offsets(by_log={"events": {0: LATEST, 1: 9}})
    assert ReadOptions.of({**GIVEN, "startingOffsets": "Earliest", "endingOffsets": "latest"}) == ReadOptions.of(GIVEN)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topics": "a"}, r"unknown option 'topics'; a batch read of a log takes url, topic, subscribe,"),
        ({"kafka.bootstrap.servers": "b:9092"}, "unknown option 'kafka.bootstrap.servers'"),
        ({"url": "file:data"}, "'file:data' is relative, and Spark's processes run in other folders"),
        ({"url": "kafka://b:9092"}, "kafka://b:9092 cannot be read by Spark yet"),
        ({"url": "/srv/data"}, "it has no scheme"),
        ({"subscribe": "a"}, "exactly one of .* is needed: 'topic' and 'subscribe'"),
        ({"topic": "a/b"}, "option 'topic': 'a/b' cannot name a topic"),
        ({"startingOffsets": "latest"}, "option 'startingOffsets': 'latest' is neither 'earliest' nor JSON such as"),
        ({"endingOffsets": "earliest"}, "option 'endingOffsets': 'earliest' is neither 'latest' nor JSON such as"),
        ({"startingOffsets": '{"events": 3}'}, "is neither 'earliest' nor JSON"),
        ({"startingOffsets": '{"events": {"0": "3"}}'}, "is neither 'earliest' nor JSON"),
        ({"startingOffsets": '{"events": {"x": 3}}'}, "is neither 'earliest' nor JSON"),
        ({"startingOffsets": '{"events": {"0": -1}}'}, r"only -2 \(earliest\) has a meaning there"),
        ({"endingOffsets": '{"events": {"0": -3}}'}, r"only -1 \(latest\) has a meaning there"),
        ({"startingTimestamp": "yesterday"}, "option 'startingTimestamp': 'yesterday' is not milliseconds since 1970"),
        ({"minPartitions": "0"}, "option 'minPartitions': '0' is not a number of tasks, 1 or more"),
        ({"failOnDataLoss": "no"}, "option 'failOnDataLoss': 'no' is neither true nor false"),
    ],
)
def test_what_is_wrong_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ReadOptions.of({**GIVEN, **options})


def test_what_is_missing_is_named() -> None:
    with pytest.raises(InvalidInput, match="the option 'url' is missing"):
        ReadOptions.of({"topic": "events"})
    with pytest.raises(InvalidInput, match="is needed: none"):
        ReadOptions.of({"url": "file:/srv/data"})
    with pytest.raises(InvalidInput, match=r"'a\(' is no regular expression"):
        ReadOptions.of({"url": "file:/srv/data", "subscribePattern": "a("})


def test_spark_says_so_when_it_loads(load: Load, cw: cordwood.sync.Client) -> None:
    with pytest.raises(AnalysisException, match="unknown option 'frobnicate'; a batch read of a log takes url, topic"):
        load(topic="events", frobnicate="1")
    with pytest.raises(AnalysisException, match="topic 'nothing' does not exist"):
        load(topic="nothing").count()


def test_columns_cannot_be_chosen(spark: SparkSession, cw: cordwood.sync.Client, folder: Path) -> None:
    cw.create_topic("events")
    reader = spark.read.format("cordwood").schema("value string").options(url=f"file:{folder}", topic="events")
    with pytest.raises(AnalysisException, match="the columns of a log cannot be chosen"):
        reader.load().count()


def test_a_folder_that_is_not_there(load: Load) -> None:
    with pytest.raises(AnalysisException, match="does not exist on this machine"):
        load(topic="events").count()


def test_topics_by_list_and_by_pattern(load: Load, cw: cordwood.sync.Client) -> None:
    for name in ("orders", "orders.eu", "users"):
        cw.create_topic(name)
        cw.log(name).append(Batch.of([b"x"]))
    found = {
        options: sorted(row.topic for row in load(**{options[0]: options[1]}).collect())
        for options in [("subscribe", "users,orders"), ("subscribePattern", "orders.*"), ("subscribePattern", "order")]
    }
    assert list(found.values()) == [["orders", "users"], ["orders", "orders.eu"], []]


def test_offsets_and_timestamps_bound_what_is_read(load: Load, cw: cordwood.sync.Client) -> None:
    cw.create_topic("events", partitions=2)
    for partition in range(2):
        cw.log("events", partition).append(Batch.of([b"x"] * 10, timestamps=list(range(100, 200, 10))))

    def offsets(**options: str) -> list[list[int]]:
        rows = load(topic="events", **options).select("partition", "offset").collect()
        return [[row.offset for row in rows if row.partition == partition] for partition in range(2)]

    between = {
        "startingOffsets": '{"events": {"0": 3, "1": -2}}',
        "endingOffsets": '{"events": {"0": -1, "1": 2}}',
    }
    assert offsets(**between) == [[3, 4, 5, 6, 7, 8, 9], [0, 1]]
    assert offsets(startingTimestamp="171") == [[8, 9], [8, 9]]
    assert offsets(startingTimestamp="5000") == [[], []]
    with pytest.raises(AnalysisException, match="option 'startingOffsets' says nothing of events/1"):
        offsets(startingOffsets='{"events": {"0": 3}}')
    with pytest.raises(AnalysisException, match="option 'endingOffsets' names what is not read: events/2, other/0"):
        offsets(endingOffsets='{"events": {"0": 3, "1": 3, "2": 3}, "other": {"0": 1}}')
