"""The journal in a folder with SQLite: against the log below it, and against the bare driver of the store."""

import asyncio
import os
import random
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path

import cordwood
from bench.measure import Row, median, ratio, rss_bytes, timed_async
from cordwood import Batch, Client, Event, Journal
from cordwood.journal.action import ACTION_HEADER, Append
from cordwood.journal.header import encode_header
from cordwood.journal.value import encode_value
from cordwood.log.partitioning import partition_of

_ROUNDS = 5
_EVENT_BYTES = 256
_EVENTS = [Event.binary(bytes(_EVENT_BYTES)) for _ in range(4)]
_KEYS = [f"key-{number}" for number in range(500)]
_IN_FLIGHT = 256
_PARTITIONS = 4
_COLUMNS = (
    "seq_nr, timestamp, partition, offset, origin, version, meta_record_id, metadata, payload_type, payload_txt,"
    " payload_bin, tags, headers"
)


def append(folder: Path) -> list[Row]:
    """256 appends in flight over 500 keys, and 64 tasks that race on one key."""
    return [asyncio.run(_append_many(folder)), asyncio.run(_race(folder))]


async def _append_many(folder: Path) -> Row:
    appends = 20_000
    own, bare = [], []
    for turn in range(_ROUNDS + 1):
        async with cordwood.connect(folder / f"journal{turn}") as cw:
            journal = cw.journal("orders", partitions=_PARTITIONS, replicate=False)
            await _append_all(journal, len(_KEYS))
            seconds = await timed_async(partial(_append_all, journal, appends))
        async with cordwood.connect(folder / f"log{turn}") as cw:
            peer = await _append_bare(cw, appends)
        if turn:
            own.append(seconds)
            bare.append(peer)
    what = "append 4 events of 256 B, 500 keys, 256 in flight, vs. the folder's log appending the same records"
    return Row(what, _per_second(appends, own), _per_second(appends, bare), ratio(bare, own), 0.8)


async def _append_bare(cw: Client, appends: int) -> float:
    await cw.create_topic("orders", partitions=_PARTITIONS)
    logs = [cw.log("orders", partition) for partition in range(_PARTITIONS)]
    payload_type, value = encode_value(_EVENTS, 1, None, None)
    life = "5a74ac36-ef35-5c9c-8fa0-72bc20c3567e"
    header = encode_header(Append(1, 4, payload_type, "host", "0.1.0", None, "0123456789abcdef-7f", 0, life))
    keys = [key.encode() for key in _KEYS]
    places = [logs[partition_of(key, _PARTITIONS)] for key in keys]

    def one(at: int) -> Awaitable[object]:
        key = at % len(keys)
        return places[key].append(Batch.of([value], keys=[keys[key]], headers=[[(ACTION_HEADER, header)]]))

    return await timed_async(lambda: _in_flight(appends, one))


async def _race(folder: Path) -> Row:
    wins = 2_000

    async def win(journal: Journal, tasks: int) -> float:
        left = iter(range(wins))

        async def task() -> None:
            seq_nr = 0
            for _ in left:
                while True:
                    try:
                        done = await journal.append("key", _EVENTS[:1], expected=seq_nr)
                    except cordwood.Conflict as error:
                        seq_nr = error.actual or 0
                    else:
                        seq_nr = done.seq_nrs[-1]
                        break

        return await timed_async(lambda: asyncio.gather(*(task() for _ in range(tasks))))

    alone, racing = [], []
    for turn in range(_ROUNDS):
        async with cordwood.connect(folder / f"race{turn}") as cw:
            alone.append(await win(cw.journal("alone", partitions=1, replicate=False), 1))
            racing.append(await win(cw.journal("racing", partitions=1, replicate=False), 64))
    what = "64 tasks that race on one key, each until it wins, vs. one task: wins"
    return Row(what, _per_second(wins, racing), _per_second(wins, alone), ratio(alone, racing), 0.5)


def read(folder: Path) -> list[Row]:
    """Reads of replicated events, against the bare driver."""
    return asyncio.run(_read(folder))


async def _read(folder: Path) -> list[Row]:
    async with cordwood.connect(folder / "data") as cw:
        journal = cw.journal("orders", partitions=1, replicate=False)
        await journal.append("long", [Event.text("x" * _EVENT_BYTES) for _ in range(1000)])
        await journal.append("short", [Event.text("x" * _EVENT_BYTES) for _ in range(40)])
        await journal.catch_up()
        with closing(sqlite3.connect(folder / "data" / "store.db")) as db:
            long = await _against_driver(journal, db, "long", rounds=200)
        marking = cw.journal("orders", partitions=1, replicate=False, fence="mark")
        await marking.pointer("short")
        with closing(sqlite3.connect(folder / "data" / "store.db")) as db:
            short = await _against_append_and_driver(cw, marking, db, rounds=300)
    return [long, short]


async def _against_driver(journal: Journal, db: sqlite3.Connection, key: str, rounds: int) -> Row:
    own, bare = [], []
    for _ in range(rounds):
        own.append(await timed_async(lambda: _read_all(journal, key)))
        began = time.perf_counter()
        _rows(db, key)
        bare.append(time.perf_counter() - began)
    what = "read 1,000 replicated events of 256 B, watermark, vs. the same rows by the bare driver"
    return Row(what, _ms(own), _ms(bare), ratio(bare, own), 0.4)


async def _against_append_and_driver(cw: Client, journal: Journal, db: sqlite3.Connection, rounds: int) -> Row:
    await cw.create_topic("bare")
    log = cw.log("bare")
    own, bare = [], []
    for _ in range(rounds):
        own.append(await timed_async(lambda: _read_all(journal, "short")))
        began = time.perf_counter()
        await log.append(Batch.of([None], keys=[b"short"], headers=[[(ACTION_HEADER, b'{"mark":{"id":"x"}}')]]))
        _rows(db, "short")
        bare.append(time.perf_counter() - began)
    what = "read 40 replicated events, Mark, vs. one awaited append, then head row and rows by the bare driver"
    return Row(what, _ms(own), _ms(bare), median([o / b for o, b in zip(own, bare, strict=True)]), 1.2, at_most=True)


def _rows(db: sqlite3.Connection, key: str) -> None:
    db.execute("SELECT * FROM metajournal WHERE topic = 'orders' AND id = ?", (key,)).fetchone()
    db.execute(f"SELECT {_COLUMNS} FROM journal WHERE topic = 'orders' AND id = ? ORDER BY seq_nr", (key,)).fetchall()


def head(folder: Path) -> list[Row]:
    """Heads of many records of other keys."""
    return [asyncio.run(_recover_among(folder)), *asyncio.run(_large_head(folder))]


async def _recover_among(folder: Path) -> Row:
    seconds: dict[int, list[float]] = {}
    for others in (0, 100_000):
        async with cordwood.connect(folder / f"among{others}") as cw:
            journal = cw.journal("orders", partitions=1, replicate=False)
            await journal.append("mine", [Event.text("x" * _EVENT_BYTES) for _ in range(30)])
            await journal.catch_up()
            for at in range(10):
                await journal.append("mine", [Event.text("x" * _EVENT_BYTES)])
                await _append_others(cw, others // 10, at)
            await _read_all(journal, "mine")
            seconds[others] = [await timed_async(partial(_read_all, journal, "mine")) for _ in range(200)]
    with_others, without = median(seconds[100_000]), median(seconds[0])
    what = "read 40 events, 10 in the head among 100,000 of other keys, tail reader warm, vs. no others"
    return Row(what, f"{with_others * 1e3:.2f} ms", f"{without * 1e3:.2f} ms", with_others / without, 1.5, at_most=True)


async def _large_head(folder: Path) -> list[Row]:
    records = 1_000_000
    async with cordwood.connect(folder / "large") as cw:
        journal = cw.journal("orders", partitions=1, replicate=False)
        await journal.append("mine", _EVENTS[:1])
        for at in range(40):
            await _append_others(cw, records // 40, at)
            await journal.append("mine", _EVENTS[:1])
        await journal.close()
        # Another process would begin so: nothing is known, and no value is kept.
        tailing, plain, sparse = [], [], []
        for _ in range(3):
            plain.append(await timed_async(lambda: _plain_read(cw)))
            reader = cw.journal("orders", partitions=1, replicate=False, head_bytes_max=0)
            tailing.append(await timed_async(partial(reader.pointer, "another")))
            sparse.append(await timed_async(partial(_read_all, reader, "mine")))
            await reader.close()
    spread = "40 events spread over a head of 1 M records, values not kept, vs. one plain read of it"
    tail = "tail reader over a head of 1 M records of 100 B vs. a plain read that takes keys and headers"
    times = median([own / peer for own, peer in zip(sparse, plain, strict=True)])
    return [
        Row(spread, _ms(sparse), _ms(plain), times, 0.2, at_most=True),
        Row(tail, _per_second(records, tailing), _per_second(records, plain), ratio(plain, tailing), 0.5),
    ]


async def _append_others(cw: Client, count: int, seed: int) -> None:
    chance = random.Random(seed)
    header = encode_header(Append(1, 1, "binary", id="x", expected=0))
    for at in range(0, count, 5000):
        some = min(5000, count - at)
        keys = [b"other-%d" % chance.randrange(10_000) for _ in range(some)]
        pairs = [[(ACTION_HEADER, header)]] * some
        await cw.log("orders").append(Batch.of([bytes(100)] * some, keys=keys, headers=pairs))


async def _plain_read(cw: Client) -> None:
    async with cw.log("orders").read() as reader:
        async for batch in reader:
            _, keys, headers, _ = batch.rows()
            list(keys or ()), list(headers or ())


def store(folder: Path) -> list[Row]:
    """Many journals, long journals, and the replicator."""
    return [*asyncio.run(_many_journals(folder)), *asyncio.run(_long_journals(folder)), asyncio.run(_replicate(folder))]


async def _many_journals(folder: Path) -> list[Row]:
    appends: dict[int, float] = {}
    reads: dict[int, float] = {}
    for idle in (100, 1_000_000):
        path = folder / f"idle{idle}"
        async with cordwood.connect(path) as cw:
            await cw.journal("orders", partitions=1, replicate=False).append("mine", _EVENTS)
        _insert_idle(path / "store.db", idle)
        os.sync()  # else the syncs of the log wait for these pages
        async with cordwood.connect(path) as cw:
            journal = cw.journal("orders", partitions=1, replicate=False)
            await journal.catch_up()
            append = partial(journal.append, "mine", _EVENTS)
            appends[idle] = median([await timed_async(append) for _ in range(300)])
            await journal.catch_up()
            forty = partial(_read_all, journal, "mine", stop=41)
            reads[idle] = median([await timed_async(forty) for _ in range(300)])
    return [
        _times("append with 1,000,000 idle journals vs. 100", appends[1_000_000], appends[100], 1.3),
        _times("read with 1,000,000 idle journals vs. 100", reads[1_000_000], reads[100], 1.3),
    ]


def _insert_idle(path: Path, count: int) -> None:
    """Journals of one event each, as a replicator would have left them."""
    with closing(sqlite3.connect(path)) as db, db:
        db.executemany(
            "INSERT INTO metajournal (topic, id, segment, created_date, partition, offset, segment_size, seq_nr,"
            " created, updated, record_id) VALUES ('orders', ?, 0, '2026-01-01', 0, 0, 10000, 1, 1, 1, 'x')",
            ((f"idle-{number}",) for number in range(count)),
        )
        db.executemany(
            "INSERT INTO journal (topic, id, segment, seq_nr, timestamp, partition, offset, meta_record_id,"
            " payload_type, payload_txt) VALUES ('orders', ?, 0, 1, 1, 0, 0, 'x', 'text', ?)",
            ((f"idle-{number}", "x" * 100) for number in range(count)),
        )


async def _long_journals(folder: Path) -> list[Row]:
    seconds: dict[str, float] = {}
    async with cordwood.connect(folder / "long") as cw:
        journal = cw.journal("orders", partitions=1, replicate=False)
        for key, count in (("short", 1_000), ("long", 1_000_000), ("deleted", 1_000_000), ("new", 100)):
            for at in range(0, count, 1000):
                await journal.append(key, [Event.text("x" * 100) for _ in range(min(1000, count - at))])
        await journal.catch_up()
        await journal.delete("deleted", through=1_000_000)
        await journal.append("deleted", [Event.text("x" * 100) for _ in range(100)])
        await journal.catch_up()
        for key, start in (("short", 991), ("long", 999_991), ("deleted", 1), ("new", 1)):
            times = [await timed_async(partial(_read_all, journal, key, start)) for _ in range(200)]
            seconds[key] = median(times)
    return [
        _times("last 10 events of 1,000,000 vs. of 1,000", seconds["long"], seconds["short"], 1.5),
        _times("100 events after 1,000,000 deleted ones vs. after none", seconds["deleted"], seconds["new"], 1.5),
    ]


async def _replicate(folder: Path) -> Row:
    appends = 10_000
    own, bare = [], []
    for turn in range(3):
        async with cordwood.connect(folder / f"replicate{turn}") as cw:
            journal = cw.journal("orders", partitions=1, replicate=False)
            await _append_all(journal, appends)
            own.append(await timed_async(journal.catch_up))
        bare.append(_write_bare(folder / f"replicate{turn}" / "store.db"))
    what = "replicator into SQLite vs. the bare driver writing the same rows in the same batches: events"
    return Row(what, _per_second(4 * appends, own), _per_second(4 * appends, bare), ratio(bare, own), 0.5)


def _write_bare(path: Path) -> float:
    """Write the rows of a store into an empty one: transactions of 10,000 events, with head rows and a pointer."""
    with closing(sqlite3.connect(path)) as db:
        schema = [row[0] for row in db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")]
        rows = db.execute("SELECT * FROM journal ORDER BY offset").fetchall()
        heads = db.execute("SELECT * FROM metajournal").fetchall()
    with tempfile.TemporaryDirectory(dir=path.parent) as folder, closing(sqlite3.connect(f"{folder}/bare.db")) as db:
        db.execute("PRAGMA page_size=8192")
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        for statement in schema:
            if "sqlite_" not in statement:
                db.execute(statement)
        began = time.perf_counter()
        for at in range(0, len(rows), 10_000):
            with db:
                _insert(db, "journal", rows[at : at + 10_000])
                _insert(db, "metajournal", heads)
                db.execute("INSERT OR REPLACE INTO pointer2 VALUES ('orders', 0, ?, 1, 1, NULL)", (at,))
        return time.perf_counter() - began


def _insert(db: sqlite3.Connection, table: str, rows: list[tuple[object, ...]]) -> None:
    db.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({','.join('?' * len(rows[0]))})", rows)


def memory(folder: Path) -> list[Row]:
    """Memory over the start of a read of replicated events, with an empty head."""
    return [
        asyncio.run(_memory(folder / "many", 1_000_000, 1024, "memory of reading 1 M events of 1 KiB, over start")),
        asyncio.run(_memory(folder / "big", 1_000, 1 << 20, "memory of reading 1,000 events of 1 MiB, over start")),
    ]


async def _memory(path: Path, events: int, size: int, what: str) -> Row:
    async with cordwood.connect(path) as cw:
        journal = cw.journal("orders", partitions=1, replicate=True, keep=timedelta(days=1))
        each = max(1, (1 << 20) // size)
        for at in range(0, events, each):
            await journal.append("key", [Event.binary(bytes(size)) for _ in range(min(each, events - at))])
        await journal.catch_up()
    async with cordwood.connect(path) as cw:
        journal = cw.journal("orders", partitions=1, replicate=False)
        await journal.pointer("key")
        start = rss_bytes()
        peak = start
        async with journal.read("key") as reader:
            at = 0
            async for _ in reader:
                at += 1
                if at % 500 == 0:
                    peak = max(peak, rss_bytes())
    over = (max(peak, rss_bytes()) - start) / (1 << 20)
    return Row(what, f"{over:.0f} MiB", "64 MiB", over, 64, at_most=True)


async def _in_flight(count: int, one: Callable[[int], Awaitable[object]]) -> None:
    numbers = iter(range(count))

    async def worker() -> None:
        for at in numbers:
            await one(at)

    await asyncio.gather(*(worker() for _ in range(_IN_FLIGHT)))


async def _append_all(journal: Journal, count: int) -> None:
    await _in_flight(count, lambda at: journal.append(_KEYS[at % len(_KEYS)], _EVENTS))


async def _read_all(journal: Journal, key: str, start: int = 1, stop: int | None = None) -> None:
    async with journal.read(key, start, stop) as reader:
        async for _ in reader:
            pass


def _times(what: str, own: float, peer: float, asked: float) -> Row:
    return Row(what, f"{own * 1e3:.2f} ms", f"{peer * 1e3:.2f} ms", own / peer, asked, at_most=True)


def _per_second(count: int, seconds: list[float]) -> str:
    return f"{count / median(seconds) / 1000:.1f}k/s"


def _ms(seconds: list[float]) -> str:
    return f"{median(seconds) * 1e3:.2f} ms"
