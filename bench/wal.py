"""The write-ahead log: against one message a log on Kafka, against the log that it lies on, against plain reading."""

import asyncio
import os
import time
from collections.abc import Iterable
from pathlib import Path

import cordwood
from bench.kafka import JAVA_OPTIONS, produce_batches
from bench.measure import Row, median, ratio
from cordwood import Batch, Region, TableLogs
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


def _payloads() -> list[bytes]:
    return [os.urandom(_LOG_BYTES) for _ in range(_LOGS)]


def _rate(writes: int, seconds: float) -> str:
    return f"{writes * _LOGS / seconds / 1000:.0f}k/s"


async def _write(url: str, name: str, tables: Iterable[int], times: int, payloads: list[bytes]) -> float:
    """Each table writes so many times, one write after the other."""

    async def fill(region: Region, table: int) -> None:
        for _ in range(times):
            await region.write(table, payloads)

    async with cordwood.connect(url) as cw, cw.wal(name).region(_REGION) as region:
        begun = time.perf_counter()
        await asyncio.gather(*(fill(region, table) for table in tables))
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
    async def apply(table: int, logs: TableLogs) -> None:
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
