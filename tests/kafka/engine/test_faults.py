"""A broker that is down, goes away, comes back, is slow: an error in bounded time, nothing lost, nothing doubled."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

import cordwood
from cordwood import Batch, CordwoodError, Log, Timeout, Unavailable
from cordwood.log.kafka import cluster as cluster_module
from cordwood.testing.kafka import Broker
from tests.kafka.engine.load import Load, until

pytestmark = pytest.mark.processes


async def values_of(log: Log) -> list[bytes | None]:
    return [value async for batch in log.read() for value in batch.values]


async def fails(call: Callable[[], Awaitable[object]], within: float) -> CordwoodError:
    """What a call raises; that it took too long is its failure too."""
    begun = time.monotonic()
    with pytest.raises((Unavailable, Timeout)) as caught:
        await asyncio.wait_for(call(), within)
    assert isinstance(caught.value, CordwoodError), f"nothing came of it for {time.monotonic() - begun:.1f} s"
    return caught.value


async def test_connecting_where_nobody_is_is_unavailable_and_says_why() -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(Unavailable, match=rf"127.0.0.1:{port}.*refused"):
            await asyncio.wait_for(cordwood.connect(f"kafka://127.0.0.1:{port}", timeout=1).__aenter__(), 10)


async def test_a_connect_that_is_cancelled_leaves_nothing_though_its_loop_is_gone(broker: Broker) -> None:
    async def begin_and_leave() -> None:
        connecting = asyncio.ensure_future(cordwood.connect(f"{broker.url}?client.id=cancelled").__aenter__())
        await asyncio.sleep(0.2)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting

    broker.pause()
    leaving = asyncio.ensure_future(asyncio.to_thread(asyncio.run, begin_and_leave()))
    await asyncio.sleep(0.5)
    broker.resume()
    await leaving
    await until(lambda: not cluster_module._registry)


async def test_an_append_to_a_broker_that_does_not_answer_is_a_timeout_with_an_unknown_outcome(
    broker: Broker, topic: str
) -> None:
    async with cordwood.connect(broker.url, timeout=2) as cw:
        await cw.create_topic(topic)
        log = cw.log(topic)
        await log.append(Batch.of([b"before"]))
        broker.pause()
        slow = log.append(Batch.of([b"slow"]))
        quick = log.append(Batch.of([b"quick"]), timeout=0.3)
        errors = await asyncio.wait_for(asyncio.gather(slow, quick, return_exceptions=True), 10)
        for error in errors:
            assert isinstance(error, Timeout)
            assert error.outcome == "unknown"
        broker.resume()
        after = await log.append(Batch.of([b"after"]), timeout=20)
        values = await values_of(log)
    assert values[0] == b"before"
    assert values[after[0]] == b"after"
    assert set(values) <= {b"before", b"slow", b"quick", b"after"}
    assert len(values) == len(set(values))


async def test_what_is_given_up_is_not_sent_later(broker: Broker, topic: str) -> None:
    async with cordwood.connect(broker.url, timeout=2) as cw:
        await cw.create_topic(topic)
        log = cw.log(topic)
        await log.append(Batch.of([b"before"]))
        broker.stop()
        with pytest.raises(CordwoodError) as caught:
            await asyncio.wait_for(log.append(Batch.of([b"given up"])), 10)
        assert caught.value.outcome == "unknown"
        broker.start()
        broker.wait_ready()
        await log.append(Batch.of([b"after"]), timeout=20)
        assert await values_of(log) == [b"before", b"after"]


async def test_every_call_fails_in_bounded_time_while_the_broker_is_down(broker: Broker, topic: str) -> None:
    async with cordwood.connect(broker.url, timeout=2) as cw:
        await cw.create_topic(topic)
        log = cw.log(topic)
        await log.append(Batch.of([b"kept"]))
        reader = log.read(follow=True)
        await anext(reader)
        broker.kill()
        calls: list[Callable[[], Awaitable[object]]] = [
            cw.topics,
            lambda: cw.topic(topic),
            lambda: cw.create_topic(f"{topic}.new"),
            lambda: cw.delete_topic(topic),
            log.bounds,
            lambda: log.trim(before=1),
            lambda: log.offset_at(datetime.now(UTC)),
            lambda: values_of(log),
            lambda: anext(reader),
            lambda: log.append(Batch.of([b"x"])),
            lambda: cw.append(topic, Batch.of([b"x"])),
        ]
        await asyncio.gather(*(fails(call, 20) for call in calls))
        broker.restart()
        async with cordwood.connect(broker.url, timeout=20) as again:
            assert (await values_of(again.log(topic)))[0] == b"kept"


async def test_a_broker_that_restarts_under_load_loses_nothing_and_doubles_nothing(broker: Broker, topic: str) -> None:
    async with cordwood.connect(broker.url) as cw:
        await cw.create_topic(topic)
        log = cw.log(topic)
        load = Load(log)
        for end in (broker.kill, broker.stop):
            await load.some()
            await asyncio.to_thread(end)
            await asyncio.to_thread(broker.restart)
        await load.some()
        await load.stop()
        await load.check()


async def test_a_follower_goes_on_where_it_was_when_the_broker_is_back(broker: Broker, topic: str) -> None:
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


async def test_closing_while_the_broker_is_away_tells_the_callers_and_ends(broker: Broker, topic: str) -> None:
    cw = await cordwood.connect(broker.url, timeout=3)
    await cw.create_topic(topic)
    log = cw.log(topic)
    await log.append(Batch.of([b"before"]))
    broker.kill()
    under_way = [asyncio.ensure_future(log.append(Batch.of([b"x"] * count))) for count in (1, 5000)]
    await asyncio.sleep(0.05)
    await asyncio.wait_for(cw.close(), 20)
    for error in await asyncio.gather(*under_way, return_exceptions=True):
        assert isinstance(error, (Unavailable, Timeout))
        assert error.outcome in ("unknown", "not_written")


async def test_a_slow_cluster_makes_no_other_call_wait(broker: Broker, topic: str, kafka: Broker) -> None:
    async with cordwood.connect(broker.url, timeout=5) as slow, cordwood.connect(kafka.url) as other:
        await slow.create_topic(topic)
        await slow.log(topic).append(Batch.of([b"x"]))
        await other.create_topic(topic)
        broker.pause()
        waiting = [asyncio.ensure_future(slow.log(topic).append(Batch.of([b"y"] * 50))) for _ in range(20)]
        await asyncio.wait_for(other.log(topic).append(Batch.of([b"z"])), 4)
        assert not any(task.done() for task in waiting)
        broker.resume()
        await asyncio.gather(*waiting, return_exceptions=True)
        await other.delete_topic(topic)
