"""A server that is down, goes away, comes back, or is silent: bounded time, the error that says so, nothing twice."""

import asyncio

import pytest

import cordwood
from cordwood import Timeout, Unavailable
from cordwood.testing.kafka import Broker
from cordwood.testing.servers.ports import free_ports
from tests.kafka.faults.load import Load

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SOON = 30.0
"""No test waits for so long unless something hangs."""


async def test_a_server_that_is_silent_when_we_connect(broker: Broker) -> None:
    broker.pause()
    async with asyncio.timeout(SOON):
        with pytest.raises((Unavailable, Timeout), match=broker.bootstrap):
            await cordwood.connect(broker.url, timeout=1)


async def test_one_address_that_answers_is_enough(broker: Broker) -> None:
    (port,) = free_ports(1)
    async with asyncio.timeout(SOON), cordwood.connect(f"kafka://127.0.0.1:{port},{broker.bootstrap}") as cw:
        await cw.topics()


@pytest.mark.parametrize("end", [Broker.kill, Broker.stop])
async def test_writers_go_on_through_a_restart(broker: Broker, topic: str, end: object) -> None:
    assert callable(end)
    async with cordwood.connect(broker.url, timeout=60) as cw:
        await cw.create_topic(topic)
        async with Load(cw.log(topic)) as load:
            await load.acks(100)
            await asyncio.to_thread(end, broker)
            await asyncio.to_thread(broker.restart)
            await load.acks(100)
        await load.check()
        assert load.errors == []


async def test_writers_are_told_while_it_is_away_and_go_on_when_it_is_back(broker: Broker, topic: str) -> None:
    async with cordwood.connect(broker.url, timeout=2) as cw:
        await cw.create_topic(topic)
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
