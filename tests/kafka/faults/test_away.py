"""A server that is down, goes away, comes back, or is silent: bounded time, the error that says so, nothing twice."""

import asyncio

import pytest

import cordwood
from cordwood import Batch, CordwoodError, Timeout, Unavailable
from cordwood.testing.kafka import Broker
from cordwood.testing.servers.ports import free_ports
from tests.kafka.faults.load import Load

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SOON = 30.0
"""No test waits for so long unless something hangs."""


async def test_nobody_there_to_connect_to() -> None:
    (port,) = free_ports(1)
    async with asyncio.timeout(SOON):
        with pytest.raises((Unavailable, Timeout), match=f"127.0.0.1:{port}"):
            await cordwood.connect(f"kafka://127.0.0.1:{port}", timeout=1)


async def test_a_server_that_is_silent_when_we_connect(broker: Broker) -> None:
    broker.pause()
    async with asyncio.timeout(SOON):
        with pytest.raises((Unavailable, Timeout), match=broker.bootstrap):
            await cordwood.connect(broker.url, timeout=1)


async def test_one_address_that_answers_is_enough(broker: Broker) -> None:
    (port,) = free_ports(1)
    async with asyncio.timeout(SOON), cordwood.connect(f"kafka://127.0.0.1:{port},{broker.bootstrap}") as cw:
        await cw.topics()


async def test_every_call_on_a_server_that_went_away_fails_in_time(broker: Broker, topic: str) -> None:
    async with cordwood.connect(broker.url, timeout=2) as cw:
        await cw.create_topic(topic)
        log = cw.log(topic)
        await log.append(Batch.of([b"before"]))
        broker.kill()
        async with asyncio.timeout(SOON):
            for call in (
                lambda: cw.topics(),
                lambda: cw.topic(topic),
                lambda: cw.create_topic(f"{topic}-2"),
                lambda: log.bounds(),
                lambda: log.trim(before=1),
                lambda: anext(log.read()),
            ):
                with pytest.raises((Unavailable, Timeout)):
                    await call()
            with pytest.raises((Unavailable, Timeout)) as caught:
                await log.append(Batch.of([b"while away"]))
        assert caught.value.outcome in ("not_written", "unknown")
        await asyncio.to_thread(broker.restart)
        # The same connection goes on; what was unknown is there at most once.
        await log.append(Batch.of([b"after"]))
        values = [record.value async for batch in log.read() for record in batch]
        assert values[0] == b"before"
        assert values[-1] == b"after"
        assert values.count(b"while away") <= (caught.value.outcome == "unknown")


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


async def test_a_silent_server_costs_the_time_that_was_given(broker: Broker, topic: str) -> None:
    async with cordwood.connect(broker.url) as cw:
        await cw.create_topic(topic)
        log = cw.log(topic)
        await log.append(Batch.of([b"before"]))
        broker.pause()
        async with asyncio.timeout(SOON):
            with pytest.raises(Timeout) as caught:
                await log.append(Batch.of([b"silent"]), timeout=0.5)
            assert caught.value.outcome == "unknown"
            with pytest.raises(Timeout):
                await log.bounds(timeout=0.5)
            with pytest.raises(Timeout):
                await cw.topics(timeout=0.5)
        broker.resume()
        await log.append(Batch.of([b"after"]))
        values = [record.value async for batch in log.read() for record in batch]
        assert values in ([b"before", b"after"], [b"before", b"silent", b"after"])


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


async def test_a_follower_goes_on_through_a_restart(broker: Broker, topic: str) -> None:
    async with cordwood.connect(broker.url, timeout=60) as cw:
        await cw.create_topic(topic)
        log = cw.log(topic)
        await log.append(Batch.of([b"0", b"1"]))
        async with log.read(follow=True) as reader:
            seen = list((await anext(reader)).offsets)
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.restart)
            await log.append(Batch.of([b"2", b"3"]))
            async with asyncio.timeout(60):
                while len(seen) < 4:
                    seen += (await anext(reader)).offsets
        assert seen == [0, 1, 2, 3]


async def test_closing_beside_a_server_that_is_away_takes_no_longer_than_it_may(broker: Broker, topic: str) -> None:
    cw = await cordwood.connect(broker.url, timeout=2)
    await cw.create_topic(topic)
    log = cw.log(topic)
    await log.append(Batch.of([b"before"]))
    broker.kill()
    appending = asyncio.ensure_future(log.append(Batch.of([b"after"])))
    await asyncio.sleep(0)
    async with asyncio.timeout(SOON):
        try:
            await cw.close()
        except CordwoodError:
            pass  # it may say that something was not written
        with pytest.raises((Unavailable, Timeout)) as caught:
            await appending
    assert caught.value.outcome in ("not_written", "unknown")
