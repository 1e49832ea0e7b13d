"""Logs on Kafka against bare loops over the same client with the same settings, on a broker of their own."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

import cordwood
from bench.measure import Row, median, ratio, rss_bytes
from cordwood import Batch
from cordwood.log.kafka.settings import BATCH_BYTES, ClientKind, Settings
from cordwood.testing.kafka import Broker
from cordwood.url import KafkaUrl, parse_url

_ROUNDS = 7
_IN_FLIGHT = 16
_BATCH = 1000
_ALONE = 1000
JAVA_OPTIONS = ("-Xms1g", "-Xmx1g")  # not those of the tests: the compiler that is slow to start is the fast one

Timed = Callable[[str, str], float]
"""(url, topic) → seconds, connecting left out."""


def append(folder: Path) -> list[Row]:
    """Batches of 1,000, and one awaited append at a time."""
    rows = []
    with Broker(java_options=JAVA_OPTIONS, folder=folder) as kafka:
        for size, name, batches in ((100, "100 B", 200), (1024, "1 KiB", 100)):
            values = [os.urandom(size) for _ in range(_BATCH)]
            ours, bare = partial(_append_batches, values, batches), partial(produce_batches, values, batches)
            times = _compared(kafka.url, ours, bare)
            what = f"append, batches of 1,000 records of {name} vs. a bare produce loop with callbacks"
            rows.append(_row(what, *times, partial(_rate, batches * _BATCH), 0.9))
        times = _compared(kafka.url, _append_alone, _produce_alone)
        what = "one awaited append of 100 B at a time vs. a bare producer with a thread that polls"
        rows.append(_row(what, *times, lambda t: f"{t / _ALONE * 1e6:.0f} µs", 0.8))
    return rows


def read(folder: Path) -> list[Row]:
    """Reading everything, and the memory that 4 GiB need."""
    rows = []
    with Broker(java_options=JAVA_OPTIONS, folder=folder) as kafka:
        for size, name, count in ((100, "100 B", 1_000_000), (1024, "1 KiB", 500_000)):
            topic = f"bench-{size}"
            asyncio.run(_fill(kafka.url, topic, size, count))
            pairs = [(_read(kafka.url, topic), _consume(kafka.url, topic, count)) for _ in range(_ROUNDS)]
            own, peer = map(list, zip(*pairs, strict=True))
            what = f"read records of {name} vs. a bare consume() loop that takes all parts of each"
            rows.append(_row(what, own, peer, partial(_rate, count), 0.9))
        asyncio.run(_fill(kafka.url, "bench-big", 16 * 1024, 1 << 18))
        code = f"from bench.kafka import print_growth; print_growth({kafka.url!r})"
        growth = int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
    mib = growth / 2**20
    return [*rows, Row("memory of a 4 GiB read, over start", f"{mib:.0f} MiB", "300 MiB", mib, 300, at_most=True)]


def print_growth(url: str) -> None:
    """Read everything, and print by how many bytes the process grew at most."""

    async def growth() -> int:
        async with cordwood.connect(url, read_only=True) as cw:
            highest = start = rss_bytes()
            async for _ in cw.log("bench-big").read():
                highest = max(highest, rss_bytes())
            return highest - start

    print(asyncio.run(growth()))


def _rate(records: int, seconds: float) -> str:
    return f"{records / seconds / 1000:.0f}k/s"


def _row(what: str, own: list[float], peer: list[float], shown: Callable[[float], str], asked: float) -> Row:
    return Row(what, shown(median(own)), shown(median(peer)), ratio(peer, own), asked)


def _compared(url: str, ours: Timed, bare: Timed) -> tuple[list[float], list[float]]:
    """BackgroundCleaner of both, each on a topic of its own."""
    times: tuple[list[float], list[float]] = ([], [])
    with cordwood.sync.connect(url) as cw:
        for turn in range(_ROUNDS + 1):
            for found, timed in zip(times, (ours, bare), strict=True):
                topic = f"bench-{time.time_ns()}"
                cw.create_topic(topic)
                seconds = timed(url, topic)
                if turn:  # the first one warms up the broker
                    found.append(seconds)
                cw.delete_topic(topic)
    return times


def _append_batches(values: list[bytes], batches: int, url: str, topic: str) -> float:
    async def run() -> float:
        async with cordwood.connect(url) as cw:
            log = cw.log(topic)
            await log.append(Batch.of([b"warm"]))
            turns = iter(range(batches))

            async def append() -> None:
                for _ in turns:
                    await log.append(Batch.of(values))

            begun = time.perf_counter()
            await asyncio.gather(*(append() for _ in range(_IN_FLIGHT)))
            return time.perf_counter() - begun

    return asyncio.run(run())


def produce_batches(values: list[bytes], batches: int, url: str, topic: str) -> float:
    producer = _producer(url, topic)
    offsets: list[int | None] = []

    def report(error: Any, message: Any) -> None:
        if error is None:
            offsets.append(message.offset())

    begun = time.perf_counter()
    for _ in range(batches):
        for value in values:
            while True:
                try:
                    producer.produce(topic, value, partition=0, on_delivery=report)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.poll(0)
    producer.flush()
    seconds = time.perf_counter() - begun
    assert len(offsets) == batches * len(values)
    return seconds


def _append_alone(url: str, topic: str) -> float:
    async def run() -> float:
        async with cordwood.connect(url) as cw:
            log = cw.log(topic)
            await log.append(Batch.of([b"warm"]))
            begun = time.perf_counter()
            for _ in range(_ALONE):
                await log.append(Batch.of([b"x" * 100]))
            return time.perf_counter() - begun

    return asyncio.run(run())


def _produce_alone(url: str, topic: str) -> float:
    producer = _producer(url, topic)
    ended = threading.Event()

    def poll() -> None:
        while not ended.is_set():
            producer.poll(0.1)

    thread = threading.Thread(target=poll)
    thread.start()

    async def run() -> float:
        loop = asyncio.get_running_loop()
        begun = time.perf_counter()
        for _ in range(_ALONE):
            future: asyncio.Future[int] = loop.create_future()

            def report(error: Any, message: Any, future: "asyncio.Future[int]" = future) -> None:
                loop.call_soon_threadsafe(future.set_result, message.offset())

            producer.produce(topic, b"x" * 100, partition=0, on_delivery=report)
            await future
        return time.perf_counter() - begun

    try:
        return asyncio.run(run())
    finally:
        ended.set()
        thread.join()


def _producer(url: str, topic: str) -> Producer:
    producer = Producer(_settings(url).producer(BATCH_BYTES, print))
    producer.produce(topic, b"warm", partition=0)
    producer.flush()
    return producer


async def _fill(url: str, topic: str, size: int, count: int) -> None:
    async with cordwood.connect(url) as cw:
        await cw.create_topic(topic)
        batch = Batch.of([os.urandom(size) for _ in range(_BATCH)], keys=[b"%d" % n for n in range(_BATCH)])
        log = cw.log(topic)
        turns = iter(range(count // _BATCH))

        async def append() -> None:
            for _ in turns:
                await log.append(batch)

        await asyncio.gather(*(append() for _ in range(_IN_FLIGHT)))


def _read(url: str, topic: str) -> float:
    async def run() -> float:
        async with cordwood.connect(url, read_only=True) as cw:
            begun = time.perf_counter()
            async for _ in cw.log(topic).read():
                pass
            return time.perf_counter() - begun

    return asyncio.run(run())


def _consume(url: str, topic: str, count: int) -> float:
    consumer = Consumer(_settings(url).consumer(ClientKind(), print))
    begun = time.perf_counter()
    consumer.list_topics(topic, timeout=10)
    consumer.assign([TopicPartition(topic, 0, 0)])
    taken = 0
    while taken < count:
        for message in consumer.consume(10_000, 1):
            if message.error() is None:
                taken += 1
                message.key(), message.value(), message.offset(), message.timestamp(), message.headers()
    seconds = time.perf_counter() - begun
    consumer.close()
    return seconds


def _settings(url: str) -> Settings:
    parsed = parse_url(url)
    assert isinstance(parsed, KafkaUrl)
    return Settings.of(parsed, 30)
