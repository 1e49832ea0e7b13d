from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import cordwood
from cordwood import Batch, InvalidInput, Unavailable
from cordwood.pipeline.source.options import EARLIEST, LATEST, Offsets, ReadOptions
from cordwood.url import FileUrl
from tests.spark.conftest import Load

DATA = FileUrl(Path("/srv/data"))
GIVEN = {"url": "file:/srv/data", "topic": "events"}


def test_what_is_not_given() -> None:
    assert ReadOptions.of(GIVEN) == ReadOptions(DATA, ("events",))


def test_names_are_taken_in_any_case() -> None:
    options = ReadOptions.of({"URL": "file:///srv/data", "SubScribe": "a, b,a", "failondataloss": "FALSE"})
    assert options == ReadOptions(DATA, ("a", "b"), fail_on_data_loss=False)


def test_offsets() -> None:
    options = ReadOptions.of(
        {**GIVEN, "startingOffsets": '{"events": {"0": 23, "1": -2}}', "endingOffsets": '{"events": {"0": -1, "1": 9}}'}
    )
    assert options.start == Offsets(by_log={"events": {0: 23, 1: EARLIEST}})
    assert options.stop == Offsets(by_log={"events": {0: LATEST, 1: 9}})
    everything = ReadOptions.of({**GIVEN, "startingOffsets": "Earliest", "endingOffsets": "latest"})
    assert everything.for_batch() == ReadOptions.of(GIVEN).for_batch() == everything


def test_where_batches_and_streams_differ() -> None:
    given = ReadOptions.of(GIVEN)
    assert (given.for_batch().start, given.for_batch().stop) == (Offsets(EARLIEST), Offsets(LATEST))
    assert given.for_stream().start == Offsets(LATEST)
    for latest in ("latest", '{"events": {"0": 3, "1": -1}}'):
        options = ReadOptions.of({**GIVEN, "startingOffsets": latest})
        assert options.for_stream() == options
        with pytest.raises(
            InvalidInput, match="a batch cannot begin at the latest offset; it takes 'earliest' or JSON"
        ):
            options.for_batch()
    backwards = {"startingOffsets": '{"a": {"0": 5, "1": 5}}', "endingOffsets": '{"a": {"0": 5, "1": 4}}'}
    with pytest.raises(InvalidInput, match="'endingOffsets': a/1 ends at 4, which is before 5, where startingOffsets"):
        ReadOptions.of({**GIVEN, **backwards}).for_batch()
    ReadOptions.of({**GIVEN, **backwards, "startingTimestamp": "0"}).for_batch()
    with pytest.raises(InvalidInput, match=r"'maxOffsetsPerTrigger' is for streams \(spark.readStream\); a batch is"):
        ReadOptions.of({**GIVEN, "maxOffsetsPerTrigger": "5"}).for_batch()
    with pytest.raises(
        InvalidInput, match=r"'endingOffsets' is for batches \(spark.read\); a stream that ends .*availableNow"
    ):
        ReadOptions.of({**GIVEN, "endingOffsets": "latest"}).for_stream()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topics": "a"}, r"unknown option 'topics'; reading a log takes url, topic, subscribe,"),
        (
            {"kafka.bootstrap.servers": "b:9092"},
            "option 'kafka.bootstrap.servers' is for kafka:// urls, and the url is file:/srv/data",
        ),
        ({"url": "file:data"}, "'file:data' is relative, and Spark's processes run in other folders"),
        ({"url": "kafka://b:9092", "kafka.bootstrap.servers": "c:9092"}, "bootstrap.servers is set, but the url names"),
        ({"url": "/srv/data"}, "it has no scheme"),
        ({"subscribe": "a"}, "exactly one of .* is needed: 'topic' and 'subscribe'"),
        ({"topic": "a/b"}, "option 'topic': 'a/b' cannot name a topic"),
        ({"startingOffsets": "last"}, "'last' is neither 'earliest' nor 'latest' nor JSON such as"),
        ({"endingOffsets": "earliest"}, "option 'endingOffsets': 'earliest' is neither 'latest' nor JSON such as"),
        ({"startingOffsets": '{"events": 3}'}, "is neither 'earliest' nor 'latest' nor JSON"),
        ({"startingOffsets": '{"events": {"0": "3"}}'}, "is neither 'earliest' nor 'latest' nor JSON"),
        ({"startingOffsets": '{"events": {"x": 3}}'}, "is neither 'earliest' nor 'latest' nor JSON"),
        ({"startingOffsets": '{"events": {"0": -3}}'}, r"only -2 \(earliest\) and -1 \(latest\) mean something there"),
        ({"endingOffsets": '{"events": {"0": -3}}'}, r"only -1 \(latest\) mean something there"),
        ({"startingTimestamp": "yesterday"}, "option 'startingTimestamp': 'yesterday' is not milliseconds since 1970"),
        ({"maxOffsetsPerTrigger": "0"}, "option 'maxOffsetsPerTrigger': '0' is not a number of records, 1 or more"),
        ({"minPartitions": "0"}, "option 'minPartitions': '0' is not a number of tasks, 1 or more"),
        ({"failOnDataLoss": "no"}, "option 'failOnDataLoss': 'no' is neither true nor false"),
    ],
)
def test_what_is_wrong_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ReadOptions.of({**GIVEN, **options})


def test_a_url_without_an_engine_is_unsupported() -> None:
    with pytest.raises(Unavailable, match="plog://b:7400/main: this version of cordwood has no engine") as caught:
        ReadOptions.of({**GIVEN, "url": "plog://b:7400/main"})
    assert caught.value.reason == "unsupported"


def test_what_is_missing_is_named() -> None:
    with pytest.raises(InvalidInput, match="the option 'url' is missing"):
        ReadOptions.of({"topic": "events"})
    with pytest.raises(InvalidInput, match="is needed: none"):
        ReadOptions.of({"url": "file:/srv/data"})
    with pytest.raises(InvalidInput, match=r"'a\(' is no regular expression"):
        ReadOptions.of({"url": "file:/srv/data", "subscribePattern": "a("})


def test_spark_says_so_when_it_loads(load: Load, cw: cordwood.sync.Client) -> None:
    with pytest.raises(AnalysisException, match="unknown option 'frobnicate'; reading a log takes url, topic"):
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
    unread = "option 'endingOffsets' names logs that are not read: events/2, other/0"
    with pytest.raises(AnalysisException, match=unread):
        offsets(endingOffsets='{"events": {"0": 3, "1": 3, "2": 3}, "other": {"0": 1}}')
