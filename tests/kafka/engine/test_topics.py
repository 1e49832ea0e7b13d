"""What a topic is made of, what it promises, and what its settings do to appends and reads."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource

import cordwood
from cordwood import Batch, Client, InvalidInput, Log, NotFound, TooLarge
from cordwood.log.kafka.cluster import open_cluster
from cordwood.log.kafka.record_size import record_bytes
from cordwood.log.kafka.settings import Settings
from cordwood.log.kafka.topics import Topics
from cordwood.log.topics import TopicConfig
from cordwood.records import StoredBatch
from cordwood.testing.kafka import Broker, Cluster
from cordwood.url import KafkaUrl
from tests.support.kafka import bare_client
from tests.support.kafka.engine_internals import admin_of, cluster_of
from tests.support.kafka.waiting import until, values_of


def settings_of(kafka: Broker, topic: str) -> dict[str, str]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    found = admin.describe_configs([resource])[resource].result(30)
    return {name: entry.value for name, entry in found.items()}


async def test_a_topic_is_made_so_that_its_promises_hang_on_no_default(kafka: Broker, cw: Client, topic: str) -> None:
    await cw.create_topic(topic, retention=timedelta(hours=3), retention_bytes=5000)
    made = settings_of(kafka, topic)
    wanted = {
        "cleanup.policy": "delete",
        "retention.ms": str(3 * 3600 * 1000),
        "retention.bytes": "5000",
        "min.insync.replicas": "1",
        "unclean.leader.election.enable": "false",
        "message.timestamp.type": "CreateTime",
    }
    assert {name: made[name] for name in wanted} == wanted
    await cw.create_topic(f"{topic}.kept")
    assert (settings_of(kafka, f"{topic}.kept")["retention.ms"]) == "-1"


async def test_a_topic_that_is_altered_keeps_its_other_settings(kafka: Broker, cw: Client, topic: str) -> None:
    await cw.create_topic(topic, retention=timedelta(hours=3), retention_bytes=5000)
    made = settings_of(kafka, topic)
    await cw.alter_topic(topic, retention=None)
    assert settings_of(kafka, topic) == {**made, "retention.ms": "-1"}
    await cw.alter_topic(topic, retention=timedelta(seconds=1), retention_bytes=None)
    assert settings_of(kafka, topic) == {**made, "retention.ms": "1000", "retention.bytes": "-1"}


class Behind:
    """Stands before the client: of every kind of look-up the first ones come to brokers that have not heard yet."""

    def __init__(self, admin: AdminClient, times: int) -> None:
        self._admin = admin
        self._times = {"describe_topics": times, "describe_configs": times}

    def __getattr__(self, name: str) -> Any:
        if self._times.get(name, 0) <= 0:
            return getattr(self._admin, name)
        self._times[name] -= 1
        unknown: Future[Any] = Future()
        unknown.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        return lambda *arguments, **options: defaultdict(lambda: unknown)


@pytest.fixture
def topics(kafka: Broker) -> Iterator[Topics]:
    settings = Settings.of(KafkaUrl((kafka.bootstrap,), {}), 30)
    cluster = open_cluster(settings, 30)
    yield Topics(admin_of(cluster), settings)
    cluster.close(30)


def test_a_broker_that_does_not_know_a_new_topic_is_behind(
    topics: Topics, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = topics.create(topic, TopicConfig(), 30)
    monkeypatch.setattr(topics._admin, "client", Behind(topics._admin.client, 3))
    assert topics.info(topic, 30) == made
    monkeypatch.setattr(topics._admin, "client", Behind(topics._admin.client, 3))
    assert topics.facts(topic, 30, 60).partitions == 1


def test_a_broker_that_does_not_know_a_described_topic_is_behind(
    kafka: Broker, topics: Topics, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare_client.create(kafka.bootstrap, topic)
    behind = Behind(topics._admin.client, 3)
    behind._times["describe_topics"] = 0
    monkeypatch.setattr(topics._admin, "client", behind)
    assert topics.facts(topic, 30, 60).partitions == 1
    with pytest.raises(NotFound):
        topics.facts(f"{topic}.not", 30, 60)


def test_a_topic_that_was_made_and_is_deleted_is_missed_at_once(topics: Topics, topic: str) -> None:
    topics.create(topic, TopicConfig(), 30)
    topics.delete(topic, 30)
    assert topics._made == {}
    with pytest.raises(NotFound):
        topics.info(topic, 30)


class MadeBeside(dict[str, float]):
    """The topics that were just made, one more of them whenever somebody goes through them."""

    def items(self) -> Any:
        found = list(super().items())
        self[f"other-{len(self)}"] = float("inf")
        return found


def test_topics_that_are_made_at_the_same_time_do_not_forget_each_other(
    topics: Topics, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "_made", MadeBeside(old=0.0))
    topics.create(topic, TopicConfig(), 30)
    assert set(topics._made) == {topic, "other-1"}


async def test_a_topic_of_a_cluster_has_three_replicas_and_acks_after_two(kafka_cluster: Cluster, topic: str) -> None:
    async with cordwood.connect(kafka_cluster.url) as cw:
        info = await cw.create_topic(topic, partitions=2)
    assert info.replication == 3
    assert info.durability == "replicated: an ack means the page cache of at least 2 of 3 replicas"


async def test_more_replicas_than_brokers_is_invalid_and_says_how_many_there_are(cw: Client, topic: str) -> None:
    for replication, message in ((2, "1 broker"), (20_000, "brokers"), (2**40, "brokers")):
        with pytest.raises(InvalidInput, match=message):
            await cw.create_topic(topic, replication=replication)
    assert await cw.topics(topic) == []


async def test_topics_that_kafka_keeps_for_itself_are_not_listed(cw: Client, log: Log) -> None:
    await values_of(log)
    assert not [name for name in await cw.topics() if name.startswith("__")]


@pytest.mark.parametrize(
    ("config", "promise"),
    [
        ({}, "in memory: an ack means the page cache of at least 1 of 1 replicas"),
        ({"flush.messages": "1"}, "synced: an ack means fsync on at least 1 of 1 replicas"),
        ({"unclean.leader.election.enable": "true"}, "unclean election"),
        ({"cleanup.policy": "compact"}, "compacted"),
    ],
)
async def test_a_topic_tells_what_an_ack_of_it_is_worth(
    kafka: Broker, cw: Client, topic: str, config: dict[str, str], promise: str
) -> None:
    bare_client.create(kafka.bootstrap, topic, settings=config)
    assert promise in (await cw.topic(topic)).durability


async def test_batches_never_exceed_a_small_limit_of_a_topic(kafka: Broker, cw: Client, topic: str) -> None:
    bare_client.create(kafka.bootstrap, topic, settings={"max.message.bytes": "10000"})
    log = cw.log(topic)
    assert (await cw.topic(topic)).batch_bytes_max == 10_000
    values = [bytes(100)] * 5000
    assert await log.append(Batch.of(values)) == range(5000)
    whole = bytes(10_000 - record_bytes(b"x" * 9900, None) + 9900)
    assert record_bytes(whole, None) == 10_000
    await log.append(Batch.of([b"small", whole, b"small"]))
    assert len(await values_of(log)) == 5003


async def test_every_record_is_measured_before_the_first_is_sent(kafka: Broker, cw: Client, topic: str) -> None:
    bare_client.create(kafka.bootstrap, topic, settings={"max.message.bytes": "10000"})
    log = cw.log(topic)
    with pytest.raises(TooLarge, match=r"record 2 .* 10,000") as caught:
        await log.append(Batch.of([b"a", b"b", bytes(10_000), b"c"]))
    assert caught.value.outcome == "not_written"
    with pytest.raises(TooLarge, match="record 1"):
        await log.append(Batch.of([b"a", b"b"], headers=[[], [("h", bytes(9_990))]]))
    assert await log.bounds() == (0, 0)


async def test_a_record_that_the_client_can_never_hold_is_refused_at_once(kafka: Broker, log: Log) -> None:
    """It would delay all others until its time is over."""
    async with cordwood.connect(f"{kafka.url}?queue.buffering.max.kbytes=100", timeout=10) as cw:
        assert (await cw.topic(log.topic)).batch_bytes_max == 102_400
        small = cw.log(log.topic)
        with pytest.raises(TooLarge, match=r"record 1 .* client's queue.buffering.max.kbytes is 102,400") as caught:
            await small.append(Batch.of([b"a", bytes(102_400)]))
        assert caught.value.outcome == "not_written"
        assert record_bytes(bytes(102_328), None) == 102_400
        assert await small.append(Batch.of([b"a", bytes(102_328)])) == range(2)


async def test_what_librdkafka_would_change_in_silence_is_refused(log: Log) -> None:
    for refused in (
        log.append(Batch.of([b"x"]), expected=0),
        log.append(Batch.of([b"x", b"y"], headers=[[], [("a\0b", b"")]])),
    ):
        with pytest.raises(InvalidInput) as caught:
            await refused
        assert caught.value.outcome == "not_written"
    assert await log.bounds() == (0, 0)


async def test_a_timestamp_is_kept_exactly_or_refused(log: Log) -> None:
    for kept in (1, 2**63 - 1):
        await log.append(Batch.of([b"x"], timestamps=[kept]))
    assert [record.timestamp async for batch in log.read() for record in batch] == [1, 2**63 - 1]
    no_time = StoredBatch.from_rows(range(2), [b"x", b"y"], timestamps=[5, -1])  # as others may have written it
    for wrong, value in ((Batch.of([b"x", b"y"], timestamps=[5, 0]), 0), (no_time, -1)):
        with pytest.raises(InvalidInput, match=f"record 1 .* timestamp {value} ms, and the least .* 1") as caught:
            await log.append(wrong)
        assert caught.value.outcome == "not_written"
    assert await log.bounds() == (0, 2)


async def test_reads_end_where_marks_of_transactions_stand(kafka: Broker, cw: Client, log: Log) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": log.topic})
    producer.init_transactions(30)
    await log.append(Batch.of([b"before"]))
    for value, end in ((b"seen", producer.commit_transaction), (b"aborted", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(log.topic, value, partition=0)
        producer.flush(30)
        end(30)
    async with asyncio.timeout(60):
        while (await log.bounds())[1] < 5:  # the mark of an abort is written after it returns
            pass
        assert await values_of(log) == [b"before", b"seen"]
        assert await values_of(log, 2, 5) == []
        (offset,) = await log.append(Batch.of([b"after"]))
        assert offset == 5
        assert await values_of(log) == [b"before", b"seen", b"after"]


async def test_offsets_are_told_one_by_one_where_somebody_else_writes_in_between(
    kafka: Broker, cw: Client, log: Log
) -> None:
    stop = asyncio.Event()

    async def other() -> None:
        async with cordwood.connect(f"{kafka.url}?client.id=other") as theirs:
            while not stop.is_set():
                await theirs.log(log.topic).append(Batch.of([b"other"]))

    writing = asyncio.ensure_future(other())
    values = [b"%d" % number for number in range(20_000)]
    async with asyncio.timeout(60):
        while isinstance(offsets := await log.append(Batch.of(values)), range):
            pass
    stop.set()
    await writing
    found = {record.offset: record.value async for batch in log.read() for record in batch}
    assert [found[offset] for offset in offsets] == values


async def test_a_follower_of_a_topic_that_was_made_anew_is_told(kafka: Broker, cw: Client, log: Log) -> None:
    await log.append(Batch.of([b"%d" % number for number in range(10)]))
    async with log.read(follow=True) as reader:
        await anext(reader)
        await cw.delete_topic(log.topic)
        await cw.create_topic(log.topic)
        with pytest.raises(cordwood.NotFound):
            await asyncio.wait_for(anext(reader), 20)


@pytest.mark.parametrize("count", [10, 20])
async def test_a_follower_of_a_topic_that_was_made_anew_reads_nothing_of_it(cw: Client, log: Log, count: int) -> None:
    """Though it has become as long, or longer, before the follower noticed."""
    await log.append(Batch.of([b"old"] * 10))
    async with log.read(follow=True) as reader:
        assert list((await anext(reader)).values) == [b"old"] * 10
        await asyncio.sleep(0.5)  # it has seen the end
        await cw.delete_topic(log.topic)
        await asyncio.sleep(0.5)  # the client has seen that it is gone
        await cw.create_topic(log.topic)
        await log.append(Batch.of([b"new"] * count))
        with pytest.raises(NotFound):
            await asyncio.wait_for(anext(reader), 20)


@pytest.mark.parametrize("left", [0, 5])
async def test_a_reader_of_a_topic_that_was_made_anew_and_is_shorter_is_told(
    kafka: Broker, topic: str, left: int
) -> None:
    """Also where the new log ends just where the reader is, which is how a log looks that nothing is wrong with."""
    async with cordwood.connect(kafka.url, timeout=3) as cw:
        await cw.create_topic(topic, timeout=30)
        log = cw.log(topic)
        await log.append(Batch.of([b"%d" % number for number in range(10)]), timeout=30)
        reader = log.read(left)
        cluster = cluster_of(cw)
        await until(lambda: not cluster.looks_at_end((topic, 0)))
        await cw.delete_topic(topic, timeout=30)
        await cw.create_topic(topic, timeout=30)
        if left:
            await log.append(Batch.of([b"new"] * left), timeout=30)
        with pytest.raises(NotFound, match=f"read at {left}: the log ends at {left}: .* made anew, .* 10 when"):
            await asyncio.wait_for(anext(reader), 30)


async def test_a_topic_that_was_deleted_and_made_anew_is_written_at_once(kafka: Broker, topic: str) -> None:
    """Also by a client that has noticed that it was gone, as it does by itself after some minutes; here soon."""
    soon = {"topic.metadata.refresh.interval.ms": "50", "topic.metadata.propagation.max.ms": "1"}
    async with cordwood.connect(kafka.url, config=soon) as cw:
        for _ in range(5):
            await cw.create_topic(topic)
            assert await cw.log(topic).append(Batch.of([b"new"])) == range(1)
            await cw.delete_topic(topic)
            await asyncio.sleep(0.1)  # the client looks for itself: there is nothing to wait for


async def test_partitions_that_were_added_are_written_at_once(kafka: Broker, cw: Client, log: Log) -> None:
    """Also by a client that knew the topic before: on its own it looks again after five minutes."""
    await log.append(Batch.of([b"old"]))
    bare_client.widen(kafka.bootstrap, log.topic, 3)
    assert await cw.log(log.topic, 2).append(Batch.of([b"new"])) == range(1)
