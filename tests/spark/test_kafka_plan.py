"""The records of logs on Kafka that Spark's tasks read, where it is not simply all: ranges, gaps, and losses."""

import json
from collections.abc import Iterable, Iterator

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

import cordwood
from cordwood import Batch, NotFound, Trimmed, Unavailable
from cordwood.log.kafka.topics import Topics
from cordwood.pipeline.source import kafka as kafka_module
from cordwood.pipeline.source.options import ReadOptions
from cordwood.pipeline.source.reader import LogsReader
from cordwood.pipeline.source.stream import LogsStream
from cordwood.testing.kafka import Broker
from tests.spark.conftest import plan
from tests.support.spark.side_by_side import ours, rows, theirs

pytestmark = pytest.mark.slow


@pytest.fixture
def written(client: cordwood.sync.Client, topic: str) -> str:
    """A topic of two partitions with ten records each."""
    client.create_topic(topic, partitions=2)
    for partition in range(2):
        client.log(topic, partition).append(Batch.of([b"%d" % number for number in range(10)]))
    return topic


def options(kafka: Broker, topic: str, **more: str) -> ReadOptions:
    return ReadOptions.of({"url": kafka.url, "topic": topic, **more})


def test_a_batch_is_cut_by_offsets(
    spark: SparkSession, kafka: Broker, client: cordwood.sync.Client, topic: str
) -> None:
    client.create_topic(topic)
    client.log(topic).append(Batch.of([b""] * (kafka_module.TASK_OFFSETS + 2)))
    frame = ours(spark, kafka, topic=topic)
    assert plan(frame) == 2
    assert frame.select("offset").distinct().count() == kafka_module.TASK_OFFSETS + 2


def test_a_stream_has_one_task_a_partition_unless_more_are_asked_for(kafka: Broker, written: str) -> None:
    def ranges(**more: str) -> list[tuple[int, int, int]]:
        stream = LogsStream(options(kafka, written, startingOffsets="earliest", **more))
        try:
            start = stream.initialOffset()
            tasks = [task.value for task in stream.partitions(start, stream.latestOffset(start, ReadAllAvailable()))]
        finally:
            stream.stop()
        return [(task.partition, task.start, task.stop) for task in tasks]

    assert ranges() == [(0, 0, 10), (1, 0, 10)]
    assert ranges(minPartitions="3") == [(0, 0, 5), (0, 5, 10), (1, 0, 10)]


@pytest.fixture
def gaps(kafka: Broker, client: cordwood.sync.Client, topic: str) -> Iterator[str]:
    """A topic of four transactions, two of them aborted, each with a mark at its end, and of one that is open."""
    client.create_topic(topic)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction) * 2:
        producer.begin_transaction()
        for number in range(5):
            producer.produce(topic, b"%d" % number)
        producer.flush(30)
        end(30)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(30)
    yield topic
    producer.abort_transaction(30)


@pytest.mark.parametrize(("level", "count"), [({}, 21), ({"kafka.isolation.level": "read_committed"}, 10)])
@pytest.mark.parametrize("tasks", ["1", "9"])
def test_where_offsets_are_missing_the_rows_are_those_of_sparks_own_source(
    spark: SparkSession, kafka: Broker, gaps: str, level: dict[str, str], count: int, tasks: str
) -> None:
    asked = {"subscribe": gaps, "minPartitions": tasks, **level}
    found = rows(ours(spark, kafka, **asked))
    assert len(found) == count
    assert found == rows(theirs(spark, kafka, **asked))


def test_a_range_that_holds_a_mark_alone_has_no_rows(spark: SparkSession, kafka: Broker, gaps: str) -> None:
    mark = {"startingOffsets": json.dumps({gaps: {"0": 5}}), "endingOffsets": json.dumps({gaps: {"0": 6}})}
    assert rows(ours(spark, kafka, subscribe=gaps, **mark)) == []


class Planned:
    """A batch whose tasks are known, and not yet read."""

    def __init__(self, kafka: Broker, topic: str, loss: str) -> None:
        self._reader = LogsReader(options(kafka, topic, failOnDataLoss=loss))
        self._tasks = self._reader.partitions()

    def read(self) -> int:
        """How many rows there are."""
        return sum(batch.num_rows for task in self._tasks for batch in self._reader.read(task))


def test_records_that_are_trimmed_since_they_were_planned(
    kafka: Broker, client: cordwood.sync.Client, written: str
) -> None:
    strict, lenient = (Planned(kafka, written, loss) for loss in ("true", "false"))
    client.log(written, 0).trim(before=4)
    with pytest.raises(Trimmed, match=f"{written}/0 was trimmed before 4, .* trimmed since this was planned"):
        strict.read()
    assert lenient.read() == 16


@pytest.mark.parametrize("again", [False, True])
def test_a_topic_that_is_deleted_since_it_was_planned(
    kafka: Broker, client: cordwood.sync.Client, written: str, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_module.KafkaLogs, "behind_seconds", 0.2)
    strict, lenient = (Planned(kafka, written, loss) for loss in ("true", "false"))
    client.delete_topic(written)
    if again:
        client.create_topic(written, partitions=2)
        client.log(written, 0).append(Batch.of([b"another log"] * 10))
    with pytest.raises(NotFound, match=f"{written}/0: offsets 0 to 9 are gone"):
        strict.read()
    assert lenient.read() == 0


def test_a_server_that_has_not_heard_of_the_topic_yet_is_asked_again(
    kafka: Broker, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = Planned(kafka, written, "false")
    right, asked = Topics.look_up, 0

    def behind(topics: Topics, names: Iterable[str], timeout: float) -> list[tuple[str, str, int]]:
        nonlocal asked
        asked += 1
        return right(topics, names, timeout) if asked % 3 == 0 else []

    monkeypatch.setattr(Topics, "look_up", behind)
    assert planned.read() == 20


def test_a_topic_created_again_during_a_task_is_not_the_old_one(
    kafka: Broker, client: cordwood.sync.Client, topic: str
) -> None:
    def write(value: bytes) -> None:
        client.create_topic(topic)
        for _ in range(80):
            client.log(topic).append(Batch.of([value * 300] * 100))

    write(b"old")
    # A client that reads little ahead: what does not fit into the first batch comes later.
    little = {"kafka.queued.max.messages.kbytes": "64", "kafka.fetch.message.max.bytes": "65536"}
    reader = LogsReader(options(kafka, topic, **little))
    (task,) = reader.partitions()
    batches = reader.read(task)
    next(batches)
    client.delete_topic(topic)
    write(b"new")
    with pytest.raises(NotFound, match=f"{topic}/0: some of the offsets up to 7999 are gone: .* made anew"):
        list(batches)


def test_a_server_that_is_away_fails_the_plan_and_the_task_in_time(monkeypatch: pytest.MonkeyPatch, topic: str) -> None:
    monkeypatch.setattr(kafka_module, "_TIMEOUT_SECONDS", 2.0)
    with Broker() as broker:
        with cordwood.sync.connect(broker.url) as cw:
            cw.create_topic(topic)
            cw.log(topic).append(Batch.of([b"x"]))
        before = Planned(broker, topic, "false")
        assert before.read() == 1
        broker.kill()
        for call in (lambda: Planned(broker, topic, "false"), before.read):
            with pytest.raises(Unavailable, match=f"{broker.bootstrap}.*no broker has answered"):
                call()
