"""The life of clients: shared by connections, flushed when closed, useless in a forked child, replaced when broken."""

import asyncio
import gc
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

import cordwood
from cordwood import Batch, Client, InvalidInput, Log, Unavailable
from cordwood.log.kafka import admin
from cordwood.log.kafka import cluster as cluster_module
from cordwood.log.kafka import producer as producer_module
from cordwood.log.kafka.producer import Sender
from cordwood.testing.kafka import Broker
from tests.support.kafka.engine_internals import cluster_of, senders_of
from tests.support.kafka.waiting import until, values_of


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("cordwood-kafka")}


async def test_connections_with_the_same_settings_share_their_clients(kafka: Broker) -> None:
    other_url = f"{kafka.url}?client.id=other"
    async with (
        cordwood.connect(kafka.url) as one,
        cordwood.connect(kafka.url) as two,
        cordwood.connect(other_url) as cw,
    ):
        clusters = [cluster_of(each) for each in (one, two, cw)]
        assert clusters[0] is clusters[1]
        assert clusters[0] is not clusters[2]


class SlowAdmin(AdminClient):
    """Of a broker that takes 5 s for its first answer, without the wait."""

    def list_topics(self, *arguments: Any, **options: Any) -> Any:
        if options["timeout"] < 5:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return super().list_topics(*arguments, **options)


async def test_a_broker_that_needs_longer_than_the_first_try_is_reached(
    kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "AdminClient", SlowAdmin)
    async with cordwood.connect(f"{kafka.url}?client.id=slow") as cw:
        assert isinstance(await cw.topics(), list)


async def test_after_the_last_close_no_client_and_no_thread_is_left(kafka: Broker, topic: str) -> None:
    running, known, open_ = threads(), set(cluster_module._registry), set(cluster_module._open)
    async with cordwood.connect(f"{kafka.url}?client.id=last") as cw:
        await cw.create_topic(topic)
        await cw.log(topic).append(Batch.of([b"x"]))
        follower = cw.log(topic).read(follow=True)
        await anext(follower)
        assert threads() - running
    await until(lambda: threads() <= running)
    assert set(cluster_module._registry) <= known
    assert cluster_module._open <= open_


async def test_a_close_beside_the_first_append_leaves_no_client_behind(
    kafka: Broker, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    making = threading.Event()

    def slowly(*arguments: Any) -> Sender:
        making.set()
        time.sleep(0.2)
        return Sender(*arguments)

    running = threads()
    cw = await cordwood.connect(f"{kafka.url}?client.id=beside")
    monkeypatch.setattr(cluster_module, "Sender", slowly)
    appending = asyncio.ensure_future(cw.log(log.topic).append(Batch.of([b"x"])))
    await until(making.is_set)
    await cw.close()
    (result,) = await asyncio.gather(appending, return_exceptions=True)
    assert result == range(1) or (isinstance(result, Unavailable) and result.outcome == "not_written")
    await until(lambda: threads() <= running)


async def test_a_read_only_connection_makes_no_client_that_writes(kafka: Broker, log: Log) -> None:
    async with cordwood.connect(f"{kafka.url}?client.id=reads", read_only=True) as cw:
        with pytest.raises(Unavailable) as caught:
            await cw.log(log.topic).append(Batch.of([b"x"]))
        assert caught.value.outcome == "not_written"
        assert await values_of(cw.log(log.topic)) == []
        assert not senders_of(cluster_of(cw))


async def test_closing_sends_what_was_appended(kafka: Broker, cw: Client, log: Log) -> None:
    values = [b"%d" % number for number in range(50_000)]
    async with cordwood.connect(f"{kafka.url}?client.id=closes") as other:
        task = asyncio.ensure_future(other.log(log.topic).append(Batch.of(values)))
        cluster = cluster_of(other)
        await until(lambda: any(sender._under_way for sender in senders_of(cluster)))
    assert await task == range(50_000)
    assert await values_of(log) == values


async def test_a_reader_that_is_left_lets_its_client_go(cw: Client, log: Log) -> None:
    await log.append(Batch.of([b"x"]))
    reading = cluster_of(cw).reading
    async for _ in log.read(follow=True):
        break
    gc.collect()
    await until(lambda: not reading)


async def test_a_read_that_gets_no_thread_says_so_and_may_be_tried_again(
    kafka: Broker, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log.append(Batch.of([b"x"]))

    def none(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async with cordwood.connect(f"{kafka.url}?client.id=threads") as cw:
        left = cw.log(log.topic).read()
        reader = cw.log(log.topic).read()
        with monkeypatch.context() as full:
            full.setattr(threading.Thread, "start", none)
            for each in (left, reader):
                with pytest.raises(Unavailable, match="can't start new thread"):
                    await anext(each)
        assert list((await asyncio.wait_for(anext(reader), 30)).values) == [b"x"]


class Collecting(deque[Any]):
    """Any allocation may have to collect garbage first."""

    def append(self, step: Any) -> None:
        gc.collect()
        super().append(step)


async def test_a_reader_that_is_found_left_by_its_own_thread_lets_its_client_go(
    cw: Client, log: Log, request: pytest.FixtureRequest
) -> None:
    await log.append(Batch.of([b"x"]))
    reading = cluster_of(cw).reading
    request.addfinalizer(gc.enable)
    gc.disable()
    left: list[Any] = [log.read(follow=True)]
    left.append(left)  # nobody but the collector finds it
    ahead = left[0]._ahead
    ahead._ready = Collecting()
    del left
    ahead.start()
    await until(lambda: not reading)


async def test_cancelled_appends_leave_nothing_behind(cw: Client, log: Log) -> None:
    await log.append(Batch.of([b"warm"]))
    tasks = [asyncio.ensure_future(log.append(Batch.of([b"x"] * 5000))) for _ in range(20)]
    await asyncio.sleep(0.002)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await log.append(Batch.of([b"last"]))
    sender = only_sender(cw)
    await until(lambda: not sender._queue)  # the last one leaves it a moment after it is acked
    assert not sender._queued_bytes
    assert set(sender._under_way) == set()


async def test_more_than_the_queue_holds_waits_for_room(monkeypatch: pytest.MonkeyPatch, cw: Client, log: Log) -> None:
    monkeypatch.setattr(producer_module, "QUEUE_BYTES_MAX", 100_000)
    await log.append(Batch.of([b"warm"]))
    sender = only_sender(cw)
    highest = 0

    async def watch() -> None:
        nonlocal highest
        while True:
            highest = max(highest, sender._queued_bytes)
            await asyncio.sleep(0)

    watching = asyncio.ensure_future(watch())
    batch = Batch.of([bytes(100)] * 500)
    offsets = await asyncio.gather(*(log.append(batch) for _ in range(40)))
    watching.cancel()
    assert sorted(offset for part in offsets for offset in part) == list(range(1, 20_001))
    assert 0 < highest <= 100_000 + batch.weight


async def test_a_client_that_is_full_is_waited_for(kafka: Broker, log: Log) -> None:
    values = [b"%d" % number for number in range(5000)]
    async with cordwood.connect(f"{kafka.url}?queue.buffering.max.messages=100") as cw:
        small = cw.log(log.topic)
        assert await small.append(Batch.of(values)) == range(5000)
        await asyncio.gather(*(small.append(Batch.of([b"x"] * 10)) for _ in range(100)))
    assert await values_of(log) == values + [b"x"] * 1000


class Refusing:
    """A client that takes no third record."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self._taken = 0

    def produce(self, *arguments: Any) -> None:
        self._taken += 1
        if self._taken > 2:
            raise ValueError("not this one")
        self._producer.produce(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)


async def test_a_record_that_the_client_cannot_take_is_told_and_harms_nobody(
    cw: Client, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log.append(Batch.of([b"before"]))
    sender = only_sender(cw)
    batch = Batch.of([b"x"] * 20, timestamps=[1] * 20)  # with timestamps each record has a call of its own
    with monkeypatch.context() as patch:
        patch.setattr(sender, "_producer", Refusing(sender._producer))
        with pytest.raises(InvalidInput, match="not this one") as caught:
            await log.append(batch)
        assert caught.value.outcome == "unknown"
        with pytest.raises(InvalidInput, match="not this one") as caught:
            await log.append(batch)
        assert caught.value.outcome == "not_written"
    assert await log.append(Batch.of([b"after"])) == range(3, 4)
    assert not sender._under_way


async def test_if_the_thread_that_writes_fails_nobody_waits_for_it(
    kafka: Broker, log: Log, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with cordwood.connect(f"{kafka.url}?client.id=defect") as cw:
        same = cw.log(log.topic)
        await same.append(Batch.of([b"before"]))
        monkeypatch.setattr(only_sender(cw), "_decide", lambda appends: 1 / 0)
        for value in (b"under way", b"after"):
            with pytest.raises(Unavailable) as caught:
                await asyncio.wait_for(same.append(Batch.of([value])), 60)
            assert caught.value.outcome in ("unknown", "not_written")
        async with cordwood.connect(f"{kafka.url}?client.id=defect") as again:  # beside the first
            assert await again.log(log.topic).append(Batch.of([b"again"])) == range(2, 3)
    assert "ZeroDivisionError" in caplog.text


def only_sender(cw: Client) -> Sender:
    (sender,) = senders_of(cluster_of(cw))
    assert isinstance(sender, Sender)
    return sender


FORK = """
import asyncio, os, sys
import cordwood
from cordwood import Batch

url, topic, how = sys.argv[1:]

async def child(cw, log, readers):
    for name, call in {
        "topics": cw.topics, "topic": lambda: cw.topic(topic), "create": lambda: cw.create_topic("x"),
        "delete": lambda: cw.delete_topic(topic), "spread": lambda: cw.append(topic, Batch.of([b"x"])),
        "append": lambda: log.append(Batch.of([b"x"])), "bounds": log.bounds, "trim": lambda: log.trim(before=1),
        "next": lambda: anext(readers[0]), "follow": lambda: anext(readers[1]), "close": cw.close,
        "several": lambda: anext(readers[2]), "fetch": lambda: log.fetch([0]),
    }.items():
        try:
            await asyncio.wait_for(call(), 5)
        except cordwood.Unavailable:
            continue
        sys.exit(f"{name} went through")
    for call in (lambda: readers[2].position(0), lambda: readers[2].add(1, 0), lambda: readers[2].drop(0)):
        try:
            call()
        except cordwood.Unavailable:
            continue
        sys.exit("a call of a reader of several went through")
    async with cordwood.connect(url) as cw:
        await cw.log(topic).append(Batch.of([b"child"]))
        return [value async for batch in cw.log(topic).read() for value in batch.values]

async def open_all():
    cw = await cordwood.connect(url)
    log = cw.log(topic)
    await log.append(Batch.of([b"parent"]))
    [batch async for batch in log.read()]
    readers = [log.read(), log.read(follow=True), cw.read(topic, follow=True)]
    await anext(readers[1])
    await anext(readers[2])
    return cw, log, readers

cw, log, readers = asyncio.run(open_all())
admin = cw._engine._connection.shared._admin.client
held = sys.getrefcount(admin)
pid = os.fork()
if not pid:
    assert sys.getrefcount(admin) == held + 1, "it can be freed here, where it has no threads"
    print(asyncio.run(child(cw, log, readers)), flush=True)
    if how == "at once":
        os._exit(0)
    del cw, log, readers
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
asyncio.run(log.append(Batch.of([b"parent again"])))
asyncio.run(cw.close())
"""


@pytest.mark.processes
@pytest.mark.parametrize("how", ["at once", "as usual"])
async def test_in_a_forked_child_a_connection_is_unavailable_and_hangs_nothing(
    kafka: Broker, log: Log, how: str
) -> None:
    command = [sys.executable, "-c", FORK, kafka.url, log.topic, how]
    run = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == "[b'parent', b'child']\n"
    assert await values_of(log) == [b"parent", b"child", b"parent again"]


async def test_an_append_beside_many_reads_that_begin(log: Log, request: pytest.FixtureRequest) -> None:
    """It waits for their looks at the end, which end in other threads while it goes through them."""
    request.addfinalizer(partial(sys.setswitchinterval, sys.getswitchinterval()))
    sys.setswitchinterval(1e-6)
    for turn in range(10):
        readers = [log.read() for _ in range(200)]
        assert await log.append(Batch.of([b"value"])) == range(turn, turn + 1)
        await asyncio.gather(*(reader.close() for reader in readers))


FORK_UNDER_WAY = """
import asyncio, os, signal, sys
import cordwood
from cordwood import Batch

url, topic = sys.argv[1:]

def child(log, reader):
    signal.alarm(30)  # ends it if it hangs
    try:
        asyncio.run(asyncio.wait_for(anext(reader), 20))
    except cordwood.Unavailable:
        pass
    else:
        os._exit(3)
    del reader
    with cordwood.sync.connect(url) as cw:
        cw.log(topic).append(Batch.of([b"child"]))
    os._exit(0)

async def main():
    async with cordwood.connect(url) as cw:
        log = cw.log(topic)
        await log.append(Batch.of([b"parent"]))
        reader = log.read(follow=True)
        await anext(reader)
        appends = [asyncio.ensure_future(log.append(Batch.of([b"%d" % n] * 3000))) for n in range(20)]
        await asyncio.sleep(0)
        # As the reader's own thread does for a moment now and then.
        with reader._ahead._lock:
            pid = os.fork()
            if not pid:
                asyncio.events._set_running_loop(None)
                child(log, reader)
        await asyncio.gather(*appends)
        print(await asyncio.to_thread(os.waitpid, pid, 0) == (pid, 0))

asyncio.run(main())
"""


@pytest.mark.processes
async def test_a_fork_while_appends_are_under_way_harms_neither_side(kafka: Broker, log: Log) -> None:
    command = [sys.executable, "-c", FORK_UNDER_WAY, kafka.url, log.topic]
    run = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stderr, run.stdout) == (0, "", "True\n")
    values = await values_of(log)
    assert values[0] == b"parent"
    assert Counter(values[1:]) == {b"child": 1, **{b"%d" % number: 3000 for number in range(20)}}


AGAIN_AND_AGAIN = """
import asyncio, gc, os, sys, time
import cordwood
from cordwood import Batch

url, topic = sys.argv[1:]

async def once():
    async with cordwood.connect(url) as cw:
        log = cw.log(topic)
        await log.append(Batch.of([b"x"]))
        [batch async for batch in log.read()]
        await anext(log.read(follow=True))
        cancelled = [asyncio.ensure_future(call) for call in (log.append(Batch.of([b"y"] * 5000)), cw.topics())]
        await asyncio.sleep(0)
        for task in cancelled:
            task.cancel()
        await asyncio.gather(*cancelled, return_exceptions=True)

def held():
    gc.collect()
    return [len(os.listdir(f"/proc/self/{what}")) for what in ("fd", "task")]

asyncio.run(once())
before = held()
for _ in range(10):
    asyncio.run(once())
deadline = time.monotonic() + 20
while any(now > then for now, then in zip(held(), before)) and time.monotonic() < deadline:
    time.sleep(0.05)
print(before, held())
sys.exit(any(now > then for now, then in zip(held(), before)))
"""


@pytest.mark.processes
async def test_connecting_again_and_again_leaks_no_file_and_no_thread(kafka: Broker, log: Log) -> None:
    command = [sys.executable, "-c", AGAIN_AND_AGAIN, kafka.url, log.topic]
    run = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=90, check=False)
    assert (run.returncode, run.stderr) == (0, ""), run.stdout
