"""Several partitions with one client, and reads past open transactions."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import cordwood
from cordwood import Batch, Client, InvalidInput, Log, Unavailable
from cordwood.log import Engine, PartitionsReader
from cordwood.log.kafka.cluster import SharedCluster
from cordwood.log.kafka.consumers import Consumers
from cordwood.log.kafka.cursor import Place, TopicCursor
from cordwood.log.kafka.settings import ClientKind
from cordwood.testing.kafka import Broker
from tests.support.kafka.waiting import until

MIB = 1 << 20


def engine_of(cw: Client) -> Engine:
    return cw._engine


def cluster_of(cw: Client) -> SharedCluster:
    cluster = cw._engine._connection.shared  # type: ignore[attr-defined]
    assert isinstance(cluster, SharedCluster)
    return cluster


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[ClientKind]:
    """The clients that are made for reading."""
    kinds: list[ClientKind] = []
    make = Consumers.make

    def noted(consumers: Consumers, kind: ClientKind) -> Any:
        kinds.append(kind)
        return make(consumers, kind)

    monkeypatch.setattr(Consumers, "make", noted)
    return kinds


@pytest.fixture
def open_transaction(kafka: Broker, log: Log) -> Producer:
    """Another program's transaction."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": log.topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    return producer


def write_openly(producer: Producer, log: Log, value: bytes) -> None:
    producer.produce(log.topic, value)
    assert not producer.flush(30)


async def test_any_number_of_partitions_is_read_by_one_client_and_one_thread(
    cw: Client, topic: str, made: list[ClientKind]
) -> None:
    await cw.create_topic(topic, partitions=64)
    async with cw.read(topic, follow=True) as reader:
        for partition in range(64):
            await cw.log(topic, partition).append(Batch.of([b"%d" % partition]))
        found: dict[int | None, list[bytes | None]] = {}
        while len(found) < 64:
            batch = await anext(reader)
            found[batch.partition] = list(batch.values)
        assert found == {partition: [b"%d" % partition] for partition in range(64)}
        assert [thread.name for thread in threading.enumerate()].count("cordwood-kafka-read") == 1
    assert made == [ClientKind(follow=True, several=True)]


async def test_reads_and_fetches_that_follow_each_other_use_one_client_again(
    cw: Client, topic: str, made: list[ClientKind]
) -> None:
    await cw.create_topic(topic, partitions=3)
    for partition in range(3):
        await cw.log(topic, partition).append(Batch.of([b"a", b"b"]))
    cluster = cluster_of(cw)
    for stop in (1, 2):
        # A partition at its stop is paused: the next reader must not find it so.
        stops = dict.fromkeys(range(3), stop)
        assert sum([len(batch) async for batch in cw.read(topic, stop=stops)]) == 3 * stop
        await until(lambda: not cluster.reading)
        assert [record.value for record in await cw.log(topic, 1).fetch([0, 1])] == [b"a", b"b"]
    assert made == [ClientKind(several=True)]


async def test_a_fetch_asks_for_no_bounds_and_holds_no_append_back(
    cw: Client, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = await log.append(Batch.of([b"%d" % number for number in range(2000)]))
    cluster = cluster_of(cw)

    def unwanted(*_: object, **__: object) -> None:
        raise AssertionError("asked")

    for name in ("bounds_of", "start"):
        monkeypatch.setattr(cluster.offsets, name, unwanted)
    fetching = asyncio.ensure_future(log.fetch([offsets[3], offsets[1900]]))
    await asyncio.sleep(0)
    assert cluster.looks_at_end((log.topic, 0)) == []
    assert [record.value for record in await fetching] == [b"3", b"1900"]


async def test_uncommitted_reads_return_records_of_open_transactions(
    cw: Client, log: Log, open_transaction: Producer
) -> None:
    await log.append(Batch.of([b"before"]))
    write_openly(open_transaction, log, b"open")
    await log.append(Batch.of([b"after"]))
    for uncommitted, wanted in ((False, [b"before"]), (True, [b"before", b"open", b"after"])):
        values: list[bytes | None] = []
        async with engine_of(cw).read(
            log.topic, "first", stop=None, follow=False, topic_id=None, uncommitted=uncommitted, timeout=30
        ) as reader:
            async for batch in reader:
                values += batch.values
        assert values == wanted
        records = await log.fetch([0, 1, 2], uncommitted=uncommitted)
        assert [record.value for record in records] == wanted
    async with engine_of(cw).read(
        log.topic, {0: 1}, stop=None, follow=True, topic_id=None, uncommitted=True, timeout=30
    ) as reader:
        found: list[bytes | None] = []
        while len(found) < 2:
            found += (await anext(reader)).values
        write_openly(open_transaction, log, b"also open")
        assert list((await anext(reader)).values) == [b"also open"]
    open_transaction.abort_transaction(30)


async def test_a_url_that_asks_for_committed_records_changes_no_uncommitted_read(
    kafka: Broker, log: Log, open_transaction: Producer
) -> None:
    write_openly(open_transaction, log, b"open")
    async with cordwood.connect(f"{kafka.url}?isolation.level=read_committed") as cw:
        same = cw.log(log.topic)
        assert await same.fetch([0]) == []
        assert [record.value for record in await same.fetch([0], uncommitted=True)] == [b"open"]
    open_transaction.abort_transaction(30)


async def test_the_position_passes_marks_of_transactions_at_the_end(
    cw: Client, log: Log, open_transaction: Producer
) -> None:
    write_openly(open_transaction, log, b"seen")
    open_transaction.commit_transaction(30)
    async with cw.read(log.topic, follow=True) as reader:
        assert list((await anext(reader)).values) == [b"seen"]
        await until(lambda: reader.position(0) == 2)
        open_transaction.begin_transaction()
        write_openly(open_transaction, log, b"never seen")
        open_transaction.abort_transaction(30)
        await until(lambda: reader.position(0) == 4)
        await log.append(Batch.of([b"later"]))
        assert list((await anext(reader)).offsets) == [4]
        assert reader.position(0) == 5
    assert [record.offset for record in await log.fetch(range(6))] == [0, 4]


async def test_a_follower_of_several_whose_client_stands_still_gets_another(
    cw: Client, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    await cw.create_topic(topic, partitions=3)
    for partition in range(3):
        await cw.log(topic, partition).append(Batch.of([b"x"] * 10))
    cluster = cluster_of(cw)
    settings = cluster.settings.__class__(cluster.settings.servers, cluster.settings.config, 6)
    places = [Place(topic, partition, 0) for partition in range(3)]
    cursor = TopicCursor(cluster.consumers, cluster.offsets, settings, topic, places, ClientKind(True, True))
    try:
        stuck = cursor._consumer
        stuck.pause([cursor._spot(places[1])])
        found = {0: 0, 1: 0, 2: 0}
        while found[1] < 10:
            for place, batch in cursor.read_batches(0.1):
                found[place.partition] += len(batch)
        assert found == {0: 10, 1: 10, 2: 10}
        assert cursor._consumer is not stuck
    finally:
        cursor.close()
    (record,) = caplog.records
    assert record.getMessage().startswith(f"{topic}/1: read at 0: nothing came for ")


async def test_partitions_that_lag_take_turns_in_small_fetches(cw: Client, topic: str) -> None:
    await cw.create_topic(topic, partitions=8)
    for partition in range(8):
        await cw.log(topic, partition).append(Batch.of([bytes(1000)] * 1500))
    first: list[int | None] = []
    async with cw.read(topic) as reader:
        seen = 0
        async for batch in reader:
            seen += len(batch)
            if seen <= 8 * 600:
                first.append(batch.partition)
    assert seen == 8 * 1500
    assert len(set(first)) == 8, "some partitions came only after others were read whole"


def resident() -> int:
    """The bytes of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def test_a_slow_user_of_many_partitions_holds_bounded_memory(cw: Client, topic: str) -> None:
    await cw.create_topic(topic, partitions=16)
    for partition in range(16):
        for _ in range(12):
            await cw.log(topic, partition).append(Batch.of([bytes(100_000)] * 10))
    before = resident()
    async with cw.read(topic, follow=True) as reader:
        batch = await anext(reader)
        highest = 0
        for _ in range(30):  # the client fetches all that it may
            await asyncio.sleep(0.05)
            highest = max(highest, resident() - before)
        assert len(batch)
    assert highest < 96 * MIB, f"{highest / MIB:.0f} MiB of 192 MiB"


async def test_a_reader_of_several_needs_a_partition_that_it_reads(cw: Client, topic: str) -> None:
    await cw.create_topic(topic, partitions=2)
    reader: PartitionsReader = cw.read(topic)
    with pytest.raises(InvalidInput, match="not known before the first step"):
        reader.position(0)
    with pytest.raises(StopAsyncIteration):
        await anext(reader)
    assert reader.position(1) == 0
    with pytest.raises(InvalidInput, match="does not read partition 2"):
        reader.position(2)


async def test_a_follower_of_several_that_is_left_lets_its_client_go(cw: Client, topic: str) -> None:
    await cw.create_topic(topic, partitions=2)
    await cw.log(topic, 1).append(Batch.of([b"x"]))
    reading = cluster_of(cw).reading
    reader = cw.read(topic, follow=True)
    assert list((await anext(reader)).values) == [b"x"]
    assert reading
    del reader
    await until(lambda: not reading)


async def test_a_closed_connection_reads_no_partitions(kafka: Broker, topic: str) -> None:
    async with cordwood.connect(kafka.url) as cw:
        await cw.create_topic(topic)
        log = cw.log(topic)
    with pytest.raises(Unavailable):
        cw.read(topic)
    with pytest.raises(Unavailable):
        await log.fetch([0])


async def test_a_partition_at_its_stop_may_be_dropped_and_read_again(cw: Client, topic: str) -> None:
    await cw.create_topic(topic, partitions=2)
    await cw.log(topic, 0).append(Batch.of([b"a", b"b", b"c"]))
    async with cw.read(topic, {0: 0, 1: 0}, {0: 1}, follow=True) as reader:
        assert list((await anext(reader)).values) == [b"a"]
        reader.drop(0)
        reader.add(0, 1)
        async with asyncio.timeout(10):
            assert list((await anext(reader)).values) == [b"b", b"c"]


async def test_a_read_only_connection_reads_several_partitions_and_known_offsets(
    kafka: Broker, cw: Client, topic: str
) -> None:
    await cw.create_topic(topic, partitions=2)
    for partition in range(2):
        await cw.log(topic, partition).append(Batch.of([b"x"]))
    async with cordwood.connect(kafka.url, read_only=True) as other:
        assert sorted([batch.partition or 0 async for batch in other.read(topic)]) == [0, 1]
        assert [record.value for record in await other.log(topic, 1).fetch([0])] == [b"x"]
