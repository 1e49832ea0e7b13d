"""Durable writing, against bare system calls and against SQLite."""

import asyncio
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import cordwood
from bench.measure import Row, median, preallocated, ratio, timed, timed_async
from cordwood import Batch

# A round takes a tenth of a second, in which the disk of a busy host may be slow for one side alone.
_ROUNDS = 25

# Before the clock starts, on both sides: new threads, files and memory make the first ones slow.
_WARM_UP = 8


def bulk(folder: Path) -> list[Row]:
    """Batches of 1,000 × 1 KiB, durable: 4 in flight, and one at a time."""
    records = [os.urandom(1024) for _ in range(1000)]
    batches = 60
    four: list[float] = []
    one: list[float] = []
    bare: list[float] = []
    for round_number in range(_ROUNDS):
        bare.append(bare_seconds(folder / "bare", b"".join(records), batches))
        four.append(asyncio.run(_append(folder / f"four{round_number}", records, batches, 4)))
        one.append(asyncio.run(_append(folder / f"one{round_number}", records, batches, 1)))
    mib = batches * 1000 * 1024 / 2**20
    peer = _rate(mib, median(bare))
    return [
        Row(
            f"batches of 1,000 × 1 KiB, {name}, vs. pwrite+fdatasync",
            _rate(mib, median(t)),
            peer,
            ratio(bare, t),
            asked,
        )
        for name, t, asked in (("4 in flight", four, 0.8), ("one at a time", one, 0.6))
    ]


def small(folder: Path) -> Row:
    """One record an append, 256 callers at once, against one bare synced 4 KiB write at a time."""
    appends = 60_000
    ours: list[float] = []
    bare: list[float] = []
    for round_number in range(_ROUNDS):
        bare.append(1000 / bare_seconds(folder / "bare", os.urandom(4096), 1000))
        ours.append(appends / asyncio.run(_append_concurrently(folder / f"small{round_number}", appends, 256)))
    rate, peer = median(ours), median(bare)
    what = "1 record of 100 B an append, 256 concurrent, vs. 4 KiB pwrite+fdatasync one at a time"
    return Row(what, f"{rate:,.0f}/s", f"{peer:,.0f}/s", ratio(ours, bare), 20)


def against_sqlite(folder: Path) -> list[Row]:
    """Batches of 1,000 × 100 B against SQLite with the same promise: 4 in flight, and one at a time."""
    records = [os.urandom(100) for _ in range(1000)]
    batches = 100
    four: list[float] = []
    one: list[float] = []
    sqlite: list[float] = []
    for round_number in range(_ROUNDS):
        sqlite.append(_sqlite(folder / f"{round_number}.db", records, batches))
        four.append(asyncio.run(_append(folder / f"sqlite-four{round_number}", records, batches, 4)))
        one.append(asyncio.run(_append(folder / f"sqlite-one{round_number}", records, batches, 1)))
    count = batches * len(records)
    peer = f"{count / median(sqlite):,.0f} rec/s"
    return [
        Row(
            f"batches of 1,000 × 100 B, {name}, vs. SQLite (WAL, synchronous=FULL)",
            f"{count / median(t):,.0f} rec/s",
            peer,
            ratio(sqlite, t),
            4,
        )
        for name, t in (("4 in flight", four), ("one at a time", one))
    ]


def bare_seconds(path: Path, data: bytes, count: int) -> float:
    """How long so many bare synced writes of the data take, into a file whose space is reserved."""
    with preallocated(path, len(data) * (_WARM_UP + count)) as descriptor:

        def write(first: int, last: int) -> None:
            for number in range(first, last):
                os.pwrite(descriptor, data, number * len(data))
                os.fdatasync(descriptor)

        write(0, _WARM_UP)
        return timed(lambda: write(_WARM_UP, _WARM_UP + count))


async def _append(folder: Path, records: Sequence[bytes], batches: int, in_flight: int) -> float:
    async with cordwood.connect(folder) as cw:
        await cw.create_topic("bench")
        log = cw.log("bench")
        for _ in range(_WARM_UP):
            await log.append(Batch.of(records))

        async def writer(count: int) -> None:
            for _ in range(count):
                await log.append(Batch.of(records))

        return await timed_async(lambda: _all(writer(batches // in_flight) for _ in range(in_flight)))


async def _append_concurrently(folder: Path, appends: int, callers: int) -> float:
    record = os.urandom(100)
    async with cordwood.connect(folder) as cw:
        await cw.create_topic("bench")
        log = cw.log("bench")
        await log.append(Batch.of([record]))

        async def writer() -> None:
            for _ in range(appends // callers):
                await log.append(Batch.of([record]))

        return await timed_async(lambda: _all(writer() for _ in range(callers)))


async def _all(coroutines: object) -> None:
    await asyncio.gather(*coroutines)  # type: ignore[misc]  # any iterable of coroutines


def _sqlite(path: Path, records: Sequence[bytes], batches: int) -> float:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE log (id INTEGER PRIMARY KEY, value BLOB)")
    rows = [(record,) for record in records]

    def insert() -> None:
        for _ in range(batches):
            db.execute("BEGIN")
            db.executemany("INSERT INTO log (value) VALUES (?)", rows)
            db.execute("COMMIT")

    try:
        return timed(insert)
    finally:
        db.close()


def _rate(mib: float, seconds: float) -> str:
    return f"{mib / seconds:,.0f} MiB/s"
