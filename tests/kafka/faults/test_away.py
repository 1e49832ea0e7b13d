"""A server that is down or silent: every call ends in its time, with an error that says what became of it."""

import asyncio
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

import cordwood
from cordwood import Batch, CordwoodError, Timeout, Unavailable
from cordwood.log.kafka import cluster as cluster_module
from cordwood.testing.kafka import Broker
from cordwood.testing.servers.ports import free_ports
from tests.support.kafka import bare_client
from tests.support.kafka.waiting import until, values_of

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SOON = 30.0
"""No test waits for so long unless something hangs."""


async def fails(call: Callable[[], Awaitable[object]]) -> CordwoodError:
    """What a call raises; that it took too long is its failure too."""
    begun = time.monotonic()
    with pytest.raises((Unavailable, Timeout)) as caught:
        await asyncio.wait_for(call(), SOON)
    assert isinstance(caught.value, CordwoodError), f"nothing came of it for {time.monotonic() - begun:.1f} s"
    return caught.value


async def test_connecting_where_nobody_is_is_unavailable_and_says_why() -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(Unavailable, match=rf"127.0.0.1:{port}.*refused") as caught:
            await asyncio.wait_for(cordwood.connect(f"kafka://127.0.0.1:{port}", timeout=1).__aenter__(), SOON)
        assert (caught.value.reason, caught.value.retryable) == ("unreachable", True)


async def test_a_server_that_is_silent_when_we_connect(broker: Broker) -> None:
    broker.pause()
    error = await fails(lambda: cordwood.connect(broker.url, timeout=1).__aenter__())
    assert broker.bootstrap in str(error)


async def test_one_address_that_answers_is_enough(broker: Broker) -> None:
    (port,) = free_ports(1)
    async with asyncio.timeout(SOON), cordwood.connect(f"kafka://127.0.0.1:{port},{broker.bootstrap}") as cw:
        await cw.topics()


async def test_a_cancelled_connect_leaves_nothing_though_its_loop_is_gone(broker: Broker) -> None:
    before = set(cluster_module._registry)
    left = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def begin_and_leave() -> None:
        connecting = asyncio.ensure_future(cordwood.connect(f"{broker.url}?client.id=cancelled").__aenter__())
        await until(lambda: set(cluster_module._registry) - before)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        loop.call_soon_threadsafe(left.set)

    broker.pause()
    leaving = asyncio.ensure_future(asyncio.to_thread(asyncio.run, begin_and_leave()))
    await left.wait()
    await asyncio.sleep(0.2)  # its loop ends, as far as it can
    broker.resume()
    await leaving
    await until(lambda: set(cluster_module._registry) <= before)


async def test_an_append_to_a_silent_server_is_a_timeout_of_unknown_outcome(broker: Broker, topic: str) -> None:
    async with cordwood.connect(broker.url, timeout=2) as cw:
        await cw.create_topic(topic, timeout=SOON)
        log = cw.log(topic)
        await log.append(Batch.of([b"before"]), timeout=SOON)
        broker.pause()
        slow = log.append(Batch.of([b"slow"]))
        quick = log.append(Batch.of([b"quick"]), timeout=0.3)
        errors = await asyncio.wait_for(asyncio.gather(slow, quick, return_exceptions=True), SOON)
        for error in errors:
            assert isinstance(error, Timeout)
            assert error.outcome == "unknown"
        broker.resume()
        after = await log.append(Batch.of([b"after"]), timeout=SOON)
        values = await values_of(log)
    assert values[0] == b"before"
    assert values[after[0]] == b"after"
    assert set(values) <= {b"before", b"slow", b"quick", b"after"}
    assert len(values) == len(set(values))


async def test_what_is_given_up_is_not_sent_later(broker: Broker, topic: str) -> None:
    async with cordwood.connect(broker.url, timeout=2) as cw:
        await cw.create_topic(topic, timeout=SOON)
        log = cw.log(topic)
        await log.append(Batch.of([b"before"]), timeout=SOON)
        broker.stop()
        error = await fails(lambda: log.append(Batch.of([b"given up"])))
        assert error.outcome == "unknown"
        await asyncio.to_thread(broker.restart)
        await log.append(Batch.of([b"after"]), timeout=SOON)
        assert await values_of(log) == [b"before", b"after"]


async def test_every_call_fails_in_bounded_time_while_the_server_is_down(broker: Broker, topic: str) -> None:
    async with cordwood.connect(broker.url, timeout=2) as cw:
        await cw.create_topic(topic, timeout=SOON)
        log = cw.log(topic)
        await log.append(Batch.of([b"kept"]), timeout=SOON)
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
        await asyncio.gather(*(fails(call) for call in calls))
        broker.restart()
        async with cordwood.connect(broker.url) as again:
            assert (await values_of(again.log(topic)))[0] == b"kept"


async def test_many_reads_of_a_silent_server_time_out_in_the_time_of_one(broker: Broker, topic: str) -> None:
    async with cordwood.connect(broker.url, timeout=2) as cw:
        await cw.create_topic(topic, timeout=SOON)
        log = cw.log(topic)
        broker.pause()
        async with asyncio.timeout(10):
            await asyncio.gather(*(fails(lambda: anext(log.read())) for _ in range(100)))


async def test_a_read_is_told_in_its_time_though_calls_before_it_have_more(broker: Broker, topic: str) -> None:
    async with cordwood.connect(broker.url, timeout=2) as cw:
        await cw.create_topic(topic, timeout=SOON)
        broker.pause()
        calls = [asyncio.ensure_future(cw.topics(timeout=60)) for _ in range(20)]
        await asyncio.sleep(0.1)
        async with asyncio.timeout(10):
            await fails(lambda: anext(cw.log(topic).read()))
        broker.resume()
        await asyncio.gather(*calls)


async def test_an_append_without_time_left_after_a_read_is_not_sent(broker: Broker, topic: str) -> None:
    async with cordwood.connect(broker.url, timeout=SOON) as cw:
        await cw.create_topic(topic)
        log = cw.log(topic)
        await log.append(Batch.of([b"before"]))
        broker.pause()
        reader = log.read()
        error = await fails(lambda: log.append(Batch.of([b"beside"]), timeout=0.3))
        assert error.outcome == "not_written"
        broker.resume()
        assert [value async for batch in reader for value in batch.values] == [b"before"]
        await log.append(Batch.of([b"after"]))
        assert await values_of(log) == [b"before", b"after"]


async def test_closing_while_the_server_is_away_tells_the_callers_and_ends(broker: Broker, topic: str) -> None:
    cw = await cordwood.connect(broker.url, timeout=3)
    await cw.create_topic(topic, timeout=SOON)
    log = cw.log(topic)
    await log.append(Batch.of([b"before"]), timeout=SOON)
    broker.kill()
    under_way = [asyncio.ensure_future(log.append(Batch.of([b"x"] * count))) for count in (1, 5000)]
    await asyncio.sleep(0.05)
    await asyncio.wait_for(cw.close(), SOON)
    for error in await asyncio.gather(*under_way, return_exceptions=True):
        assert isinstance(error, (Unavailable, Timeout))
        assert error.outcome in ("unknown", "not_written")


async def test_a_server_that_hangs_makes_no_call_to_another_one_wait(broker: Broker, topic: str, kafka: Broker) -> None:
    async with cordwood.connect(broker.url, timeout=60) as slow, cordwood.connect(kafka.url) as other:
        await slow.create_topic(topic)
        await slow.log(topic).append(Batch.of([b"x"]))
        await other.create_topic(topic)
        broker.pause()
        waiting = [asyncio.ensure_future(slow.log(topic).append(Batch.of([b"y"] * 50))) for _ in range(20)]
        await other.log(topic).append(Batch.of([b"z"]))
        assert not any(task.done() for task in waiting)
        broker.resume()
        await asyncio.gather(*waiting, return_exceptions=True)
        await other.delete_topic(topic)


GIVING_UP = """
import asyncio, sys, threading
import cordwood

url, topic = sys.argv[1:]

async def main():
    cw = await cordwood.connect(url, timeout=600)
    log = cw.log(topic)
    await log.bounds()
    print("connected", flush=True)
    sys.stdin.readline()  # the server hangs now
    asking = threading.Event()
    offsets = cw._engine._connection.shared.offsets
    ask = offsets.bounds
    offsets.bounds = lambda *place: (asking.set(), ask(*place))[1]
    calls = [cw.topics(), cw.create_topic(f"{topic}.new"), log.trim(before=0), anext(log.read(follow=True))]
    tasks = [asyncio.ensure_future(call) for call in calls]
    await asyncio.to_thread(asking.wait)
    for task in tasks:
        task.cancel()
    print([type(error).__name__ for error in await asyncio.gather(*tasks, return_exceptions=True)], flush=True)
    await cw.close()

asyncio.run(main())
"""


def test_calls_that_are_given_up_keep_no_process_from_ending(broker: Broker, topic: str) -> None:
    """As after an interrupt: the calls would have ten minutes."""
    bare_client.create(broker.bootstrap, topic)
    command = [sys.executable, "-c", GIVING_UP, broker.url, topic]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "connected\n"
            broker.pause()
            out, _ = process.communicate("\n", timeout=60)
        finally:
            process.kill()
    assert (process.returncode, out) == (0, f"{['CancelledError'] * 4}\n")


INTERRUPTED = """
import asyncio, faulthandler, sys
import cordwood
from cordwood import Batch
from cordwood.cli.event_loop import run  # asyncio's own misses an interrupt that comes as it goes to sleep

url, topic = sys.argv[1:]
faulthandler.dump_traceback_later(40, exit=True)

async def main():
    async with cordwood.connect(url, timeout=600) as cw:
        log = cw.log(topic)
        await log.append(Batch.of([b"before"]))
        print("connected", flush=True)
        sys.stdin.readline()  # the server hangs now
        appending = asyncio.ensure_future(log.append(Batch.of([b"x"])))
        (sender,) = cw._engine._connection.shared._senders.values()
        while not sender._under_way:
            await asyncio.sleep(0)
        cluster, close = cw._engine._connection.shared, cw._engine._connection.shared.close
        cluster.close = lambda timeout: (print("closing", flush=True), close(timeout))
        print("under way", flush=True)
        await appending

run(main())
"""


def test_a_second_interrupt_does_not_wait_for_acks(broker: Broker, topic: str) -> None:
    """The first one closes the connection, and the calls under way have their ten minutes."""
    bare_client.create(broker.bootstrap, topic)
    command = [sys.executable, "-c", INTERRUPTED, broker.url, topic]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == "connected\n"
            broker.pause()
            process.stdin.write("\n")
            process.stdin.flush()
            for said in ("under way\n", "closing\n"):
                assert process.stdout.readline() == said, process.communicate(timeout=60)
                # Nobody is so fast: Python swallows an interrupt that comes while it forgets a thread, say.
                time.sleep(0.3)
                process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGINT, stderr
