"""The write-ahead log: against one message a log on Kafka, against the log below it, against plain reading."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import cordwood
from bench.kafka import JAVA_OPTIONS, produce_batches
from bench.measure import Row, median, ratio
from cordwood import Batch, Region, TableEntries
from cordwood.testing.kafka import Broker

_ROUNDS = 7
_TABLES = 1000
_LOGS = 100
"""Logs of a write."""
_LOG_BYTES = 100
_REGION = 1


def on_kafka(folder: Path) -> Row:
    """Writes of 100 logs each, vs. one message a log."""
    writes = 10_000
    payloads = _payloads()
    own, bare = [], []
    with Broker(java_options=JAVA_OPTIONS, folder=folder) as kafka, cordwood.sync.connect(kafka.url) as cw:
        for turn in range(_ROUNDS + 1):
            seconds = asyncio.run(_write(kafka.url, f"bench{turn}", range(_TABLES), writes // _TABLES, payloads))
            cw.create_topic(f"bare{turn}")
            # As many calls as there are writes, of as many messages as a write has logs.
            peer = produce_batches(payloads, writes, kafka.url, f"bare{turn}")
            if turn:  # the first one warms up the broker
                own.append(seconds)
                bare.append(peer)
            for topic in cw.topics("bench") + cw.topics("bare"):
                cw.delete_topic(topic)
    what = "WAL on Kafka, logs of 100 B in writes of 100 vs. a bare produce loop of one message a log"
    return Row(what, _rate(writes, median(own)), _rate(writes, median(bare)), ratio(bare, own), 2.5)


def embedded(folder: Path) -> Row:
    """Writes of 100 logs of 1,000 tables at a time, vs. appending the same bytes to a log."""
    times = 10
    payloads = _payloads()
    own, peer = [], []
    for turn in range(_ROUNDS):
        peer.append(asyncio.run(_append(f"file:{folder / f'log{turn}'}", times, payloads)))
        own.append(asyncio.run(_write(f"file:{folder / f'wal{turn}'}", "bench", range(_TABLES), times, payloads)))
    writes = _TABLES * times
    what = "WAL in a folder, 1,000 tables, logs of 100 B in writes of 100 vs. appending batches of the same bytes"
    return Row(what, _rate(writes, median(own)), _rate(writes, median(peer)), ratio(peer, own), 0.7)


def recovery(folder: Path) -> list[Row]:
    """1,000 tables that interleave: recovered, read as a plain log, and each on its own."""
    url = f"file:{folder / 'data'}"
    times = 100
    writes = _TABLES * times
    asyncio.run(_write(url, "bench", range(_TABLES), times, _payloads()))
    pairs = [(asyncio.run(_recover(url, writes)), asyncio.run(_read(url))) for _ in range(_ROUNDS)]
    own, plain = map(list, zip(*pairs, strict=True))
    # A read of one table goes past all others: a few of them tell how long all would take.
    some = range(0, _TABLES, _TABLES // 5)
    alone = asyncio.run(_read_alone(url, some)) / len(some) * _TABLES
    what = "recover 1,000 tables × 10,000 logs of 100 B"
    shown = _rate(writes, median(own))
    each = f"{writes * _LOGS / alone / 1000:.1f}k/s"
    return [
        Row(f"{what} vs. one plain read of the log", shown, _rate(writes, median(plain)), ratio(plain, own), 0.3),
        Row(f"{what} vs. reading each table on its own", shown, each, alone / median(own), 100),
    ]


def opening(folder: Path) -> Row:
    """A region of much, and one of a hundredth of it; in both a table idle from the start, and the same tail."""
    small, large = f"file:{folder / 'small'}", f"file:{folder / 'large'}"
    for url, times in ((small, 2), (large, 200)):
        # In a process that ends without closing: a close would make a snapshot, and leave no tail.
        code = f"from bench.wal import fill_and_leave; fill_and_leave({url!r}, {times})"
        subprocess.run([sys.executable, "-c", code], check=True)
    pairs = [(asyncio.run(_open(small)), asyncio.run(_open(large))) for _ in range(3 * _ROUNDS)]
    peer, own = map(list, zip(*pairs, strict=True))
    what = "open a region with 100× the live data and an idle table vs. without, same tail: time"
    return Row(what, _ms(median(own)), _ms(median(peer)), ratio(own, peer), 1.5, at_most=True)


def fill_and_leave(url: str, times: int) -> None:
    """So many writes of 100 tables, a snapshot, and a tail of 2,000 writes."""

    async def fill() -> None:
        payloads = _payloads()
        async with cordwood.connect(url) as cw, cw.wal("bench", clean_every=None).region(_REGION) as region:
            await region.write(_TABLES, payloads)  # the idle one
            await _fill(region, range(100), times, payloads)
            await region.snapshot()
            await _fill(region, range(100), 20, payloads)
            os._exit(0)

    asyncio.run(fill())


def _payloads() -> list[bytes]:
    return [os.urandom(_LOG_BYTES) for _ in range(_LOGS)]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def _rate(writes: int, seconds: float) -> str:
    return f"{writes * _LOGS / seconds / 1000:.0f}k/s"


async def _write(url: str, name: str, tables: Iterable[int], times: int, payloads: list[bytes]) -> float:
    async with cordwood.connect(url) as cw, cw.wal(name).region(_REGION) as region:
        begun = time.perf_counter()
        await _fill(region, tables, times, payloads)
        return time.perf_counter() - begun


async def _fill(region: Region, tables: Iterable[int], times: int, payloads: list[bytes]) -> None:
    """Each table writes so many times, one write after the other."""

    async def fill(table: int) -> None:
        for _ in range(times):
            await region.write(table, payloads)

    await asyncio.gather(*map(fill, tables))


async def _open(url: str) -> float:
    async with cordwood.connect(url, read_only=True) as cw:
        begun = time.perf_counter()
        await cw.wal("bench").region(_REGION)
        return time.perf_counter() - begun


async def _append(url: str, times: int, payloads: list[bytes]) -> float:
    async with cordwood.connect(url) as cw:
        await cw.create_topic("plain")
        log = cw.log("plain")

        async def fill() -> None:
            for _ in range(times):
                await log.append(Batch.of(payloads))

        begun = time.perf_counter()
        await asyncio.gather(*(fill() for _ in range(_TABLES)))
        return time.perf_counter() - begun


async def _recover(url: str, writes: int) -> float:
    async def apply(table: int, entries: TableEntries) -> None:
        pass

    async with cordwood.connect(url, read_only=True) as cw, cw.wal("bench").region(_REGION) as region:
        begun = time.perf_counter()
        report = await region.recover(apply)
        seconds = time.perf_counter() - begun
        assert report.applied == writes * _LOGS
        return seconds


async def _read(url: str) -> float:
    async with cordwood.connect(url, read_only=True) as cw:
        begun = time.perf_counter()
        async for _ in cw.log(f"bench_data_{_REGION}").read():
            pass
        return time.perf_counter() - begun


async def _read_alone(url: str, tables: Iterable[int]) -> float:
    async with cordwood.connect(url, read_only=True) as cw, cw.wal("bench").region(_REGION) as region:
        begun = time.perf_counter()
        for table in tables:
            async for _ in region.read(table):
                pass
        return time.perf_counter() - begun
