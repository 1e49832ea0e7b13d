"""A server that goes away and comes back: writers and followers continue, and nothing is lost or doubled."""

import asyncio

import pytest

import cordwood
from cordwood import Batch, Timeout, Unavailable
from cordwood.testing.kafka import Broker
from tests.support.kafka.write_load import Load

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.mark.parametrize("end", [Broker.kill, Broker.stop])
async def test_writers_go_on_through_a_restart(broker: Broker, topic: str, end: object) -> None:
    assert callable(end)
    async with cordwood.connect(broker.url, timeout=60) as cw:
        await cw.create_topic(topic)
        async with Load(cw.log(topic), writers=5, batch=20) as load:
            await load.acks(1000)
            await asyncio.to_thread(end, broker)
            await asyncio.to_thread(broker.restart)
            await load.acks(1000)
        await load.check()
        assert load.errors == []


async def test_writers_are_told_while_it_is_away_and_go_on_when_it_is_back(broker: Broker, topic: str) -> None:
    async with cordwood.connect(broker.url, timeout=2) as cw:
        await cw.create_topic(topic, timeout=30)
        async with Load(cw.log(topic)) as load:
            await load.acks(100)
            broker.kill()
            await load.failures(4)
            await asyncio.to_thread(broker.restart)
            await load.acks(100)
        await load.check()
        assert {type(error) for error in load.errors} <= {Unavailable, Timeout}


async def test_appends_wait_for_a_server_that_pauses_for_a_moment(broker: Broker, topic: str) -> None:
    async with cordwood.connect(broker.url, timeout=60) as cw:
        await cw.create_topic(topic)
        async with Load(cw.log(topic)) as load:
            await load.acks(50)
            for _ in range(3):
                broker.pause()
                await asyncio.sleep(0.3)  # how long it is silent: there is nothing to wait for
                broker.resume()
                await load.acks(50)
        await load.check()
        assert load.errors == []


async def test_a_follower_goes_on_where_it_was_when_the_server_is_back(broker: Broker, topic: str) -> None:
    async with cordwood.connect(broker.url) as cw:
        await cw.create_topic(topic)
        log = cw.log(topic)
        await log.append(Batch.of([b"0"]))
        async with log.read(follow=True) as reader:
            read = list((await anext(reader)).values)
            for number in (1, 2):
                await asyncio.to_thread(broker.kill)
                waiting = asyncio.ensure_future(anext(reader))
                await asyncio.to_thread(broker.restart)
                await log.append(Batch.of([b"%d" % number]))
                read += (await asyncio.wait_for(waiting, 30)).values
    assert read == [b"0", b"1", b"2"]
