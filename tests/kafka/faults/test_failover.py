"""The leader of a log dies under load: nothing acked is lost, nothing is there twice, the order holds."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

import cordwood
from cordwood import Batch, Timeout
from cordwood.testing.kafka import Cluster
from cordwood.testing.kafka.probe import leader_of
from tests.support.kafka import bare_client
from tests.support.kafka.waiting import until, values_of
from tests.support.kafka.write_load import Load

pytestmark = [pytest.mark.processes, pytest.mark.slow]


async def test_killing_the_leader_loses_no_ack_and_doubles_nothing(cluster: Cluster, topic: str) -> None:
    async with cordwood.connect(cluster.url, timeout=60) as cw:
        await cw.create_topic(topic)
        log = cw.log(topic)
        followed: list[bytes | None] = []

        async def follow() -> None:
            async for batch in log.read(follow=True):
                followed.extend(batch.values)

        follower = asyncio.ensure_future(follow())
        async with Load(log, writers=8, batch=20) as load:
            await load.acks(2000)
            for _ in range(2):
                await asyncio.to_thread(lambda: cluster.leader(topic).kill())
                await load.acks(2000)
                await asyncio.to_thread(cluster.heal)
                await load.acks(2000)
        await load.check()
        assert load.errors == []
        everything = await values_of(log)
        await until(lambda: len(followed) >= len(everything) or follower.done(), 60)
        if follower.done():
            follower.result()
        follower.cancel()
        assert followed == everything


async def test_a_client_that_loses_its_only_connection_finds_another_server(cluster: Cluster, topic: str) -> None:
    """Also for questions that are under way just then."""
    first = cluster.brokers[0]
    killed = asyncio.Event()
    async with cordwood.connect(f"kafka://{first.bootstrap}") as cw:
        await cw.create_topic(topic)

        async def ask() -> None:
            while not killed.is_set():
                await cw.topic(topic)
            assert (await cw.topic(topic)).partitions == 1

        asking = [asyncio.ensure_future(ask()) for _ in range(10)]
        await asyncio.to_thread(first.kill)
        killed.set()
        await asyncio.gather(*asking)


async def test_pausing_the_leader_for_longer_than_its_session_is_the_same(cluster: Cluster, topic: str) -> None:
    """It wakes up and believes to lead: records that it still takes are not acked, and repeated ones are there once."""
    async with cordwood.connect(cluster.url, timeout=60) as cw:
        await cw.create_topic(topic)
        async with Load(cw.log(topic)) as load:
            await load.acks(200)
            old = cluster.leader(topic)
            old.pause()
            await asyncio.to_thread(_until_another_leads, cluster, topic, old.number)
            await load.acks(200)
            old.resume()
            await load.acks(200)
            await asyncio.to_thread(cluster.heal)
            await load.acks(200)
        await load.check()


async def test_too_few_copies_take_no_appends_and_lose_none(cluster: Cluster, topic: str) -> None:
    async with cordwood.connect(cluster.url, timeout=3) as cw:
        await cw.create_topic(topic)
        leader = cluster.leader(topic)
        async with Load(cw.log(topic)) as load:
            await load.acks(100)
            for broker in cluster.brokers:
                if broker is not leader:
                    broker.kill()
            await load.failures(4)
            await asyncio.to_thread(cluster.heal)
            await load.acks(100)
        await load.check()


@pytest.fixture
def calm() -> Iterator[Cluster]:
    """Servers that take each other for dead late: where one is away and another is fenced for a moment, because the
    machine is busy, a log may lose its last leader for good."""
    with Cluster(
        settings={"broker.session.timeout.ms": "9000", "controller.quorum.fetch.timeout.ms": "6000"}
    ) as cluster:
        yield cluster


@pytest.mark.timeout(300)
async def test_what_is_refused_for_now_is_written_once_and_its_place_is_known(calm: Cluster, topic: str) -> None:
    """Requests that follow a refused one must not come before it, nor be numbered anew."""
    cluster, topics = calm, [f"{topic}.{number}" for number in range(4)]
    async with cordwood.connect(cluster.url, timeout=60) as cw:
        for name in topics:
            await cw.create_topic(name)
        away = cluster.brokers[-1]
        await asyncio.to_thread(away.kill)
        await asyncio.to_thread(_until_another_leads, cluster, topics[0], away.number)
        servers = ",".join(broker.bootstrap for broker in cluster.brokers if broker is not away)
        async with AsyncExitStack() as stack:
            loads = [await stack.enter_async_context(Load(cw.log(name), writers=8, batch=1)) for name in topics]
            for _ in range(3):
                for needed in ("3", "2"):  # of the two that are left
                    await _need_copies(servers, topics, needed)
                acks = asyncio.gather(*(load.acks(40) for load in loads))
                while not (await asyncio.wait([acks], timeout=10))[0]:
                    # A change that a busy controller did not answer in time may be made late, behind the one after it.
                    await _need_copies(servers, topics, "2")
                await acks
        for load in loads:
            await load.check()
            assert load.errors == []


async def test_a_record_that_is_out_of_time_has_no_other_one_written_twice(cluster: Cluster, topic: str) -> None:
    """Both are written, and neither is acked: copies are missing, which come back between the ends of their time."""
    async with cordwood.connect(cluster.url, timeout=4) as cw:
        await cw.create_topic(topic)
        log = cw.log(topic)
        await log.append(Batch.of([b"before"]))
        leader = cluster.leader(topic)
        for broker in cluster.brokers:
            if broker is not leader:
                broker.pause()
        first = asyncio.ensure_future(log.append(Batch.of([b"first"])))
        await asyncio.sleep(1)  # apart, and both before the copies count as lost
        second = asyncio.ensure_future(log.append(Batch.of([b"second"])))
        with pytest.raises(Timeout) as caught:
            await first
        assert caught.value.outcome == "unknown"
        await asyncio.sleep(0.8)  # librdkafka looks for expired records once a second
        await asyncio.to_thread(cluster.heal)
        acked = await asyncio.gather(second, return_exceptions=True)
        await log.append(Batch.of([b"after"]), timeout=30)
        values = await values_of(log)
    assert len(values) == len(set(values))
    if not isinstance(acked[0], BaseException):
        assert values[acked[0][0]] == b"second"


async def _need_copies(servers: str, topics: list[str], needed: str) -> None:
    setting = {"min.insync.replicas": needed}
    await asyncio.gather(*(asyncio.to_thread(bare_client.configure, servers, topic, setting) for topic in topics))


def _until_another_leads(cluster: Cluster, topic: str, old: int) -> None:
    others = ",".join(broker.bootstrap for broker in cluster.brokers if broker.number != old)
    while leader_of(others, topic, 0) in (None, old):
        pass
