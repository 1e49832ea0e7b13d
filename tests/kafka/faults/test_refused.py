"""What a server does not take: too large, no such topic, a topic that is deleted meanwhile."""

import asyncio

import pytest

import cordwood
from cordwood import Batch, NotFound, TooLarge
from cordwood.testing.kafka import Broker
from tests.support.kafka import bare_client
from tests.support.kafka.waiting import values_of
from tests.support.kafka.write_load import Load


def set_limit(broker: Broker, topic: str, size: int) -> None:
    bare_client.configure(broker.bootstrap, topic, {"max.message.bytes": str(size)})


async def test_a_limit_that_the_server_lowered_refuses_and_is_then_known(kafka: Broker, topic: str) -> None:
    async with cordwood.connect(kafka.url) as cw:
        await cw.create_topic(topic)
        log = cw.log(topic)
        await log.append(Batch.of([bytes(50_000)]))
        set_limit(kafka, topic, 10_000)
        for _ in range(2):  # by the server, and then by the limit that it named
            with pytest.raises(TooLarge) as caught:
                await log.append(Batch.of([bytes(50_000)]))
            assert caught.value.outcome == "not_written"
        assert await log.bounds() == (0, 1)
        await log.append(Batch.of([b"small"]))


async def test_a_limit_that_was_raised_meanwhile_counts_before_long(kafka: Broker, topic: str) -> None:
    bare_client.create(kafka.bootstrap, topic)
    set_limit(kafka, topic, 10_000)
    async with cordwood.connect(kafka.url) as cw:
        log = cw.log(topic)
        with pytest.raises(TooLarge):
            await log.append(Batch.of([bytes(20_000)]))
        set_limit(kafka, topic, 100_000)
        async with asyncio.timeout(60):
            while True:
                try:
                    await log.append(Batch.of([bytes(20_000)]))
                    break
                except TooLarge:
                    await asyncio.sleep(0.1)


async def test_an_unknown_topic_is_not_made_by_writing(kafka: Broker, topic: str) -> None:
    async with cordwood.connect(kafka.url) as cw, asyncio.timeout(30):
        with pytest.raises(NotFound, match=topic) as caught:
            await cw.log(topic).append(Batch.of([b"a"]))
        assert caught.value.outcome == "not_written"
        assert topic not in await cw.topics()


@pytest.mark.processes
@pytest.mark.slow
async def test_a_deleted_topic_stays_deleted_where_brokers_create_topics(topic: str) -> None:
    """As they do by default. A client renews its facts every five minutes; here soon."""
    with Broker({"auto.create.topics.enable": "true"}) as broker:
        async with cordwood.connect(f"{broker.url}?topic.metadata.refresh.interval.ms=100") as cw:
            await cw.create_topic(topic)
            await cw.log(topic).append(Batch.of([b"a"]))
            assert await values_of(cw.log(topic)) == [b"a"]
            await cw.delete_topic(topic)
            await asyncio.sleep(2)  # there is nothing to wait for
            assert await cw.topics() == []


@pytest.mark.slow
async def test_a_topic_that_is_deleted_under_its_writers(kafka: Broker, topic: str) -> None:
    async with cordwood.connect(kafka.url, timeout=10) as cw:
        await cw.create_topic(topic)
        async with Load(cw.log(topic)) as load:
            await load.acks(100)
            await asyncio.to_thread(bare_client.delete, kafka.bootstrap, topic)
            await load.failures(4)
        assert {type(error) for error in load.errors[-4:]} == {NotFound}


@pytest.mark.slow
async def test_a_topic_that_is_made_anew_under_its_writers(kafka: Broker, topic: str) -> None:
    """The server has forgotten the producer: it continues, or raises with an unknown outcome."""
    async with cordwood.connect(kafka.url, timeout=10) as cw:
        await cw.create_topic(topic)
        log = cw.log(topic)
        await log.append(Batch.of([b"old"]))
        await asyncio.to_thread(bare_client.delete, kafka.bootstrap, topic)
        await asyncio.to_thread(bare_client.create, kafka.bootstrap, topic)
        async with asyncio.timeout(60):
            assert await log.append(Batch.of([b"new"])) == range(1)
        assert await values_of(log) == [b"new"]
