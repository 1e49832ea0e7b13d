"""The SQLite file: its form, damage, versions, foreign files, locks, forks, and a disk without room."""

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, suppress
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from cordwood.errors import CordwoodError, Corrupt, NotFound, Timeout, TooLarge, Unavailable
from cordwood.store import EventStore, KeyChanges, ScanPart, open_store
from cordwood.store.rows import Place
from cordwood.store.sqlite import SqliteStore, schema
from cordwood.store.sqlite.connection import connect, set_up_writer
from cordwood.store.sqlite.errors import translate
from cordwood.store.sqlite.schema import APPLICATION_ID, PAGE_BYTES, STEPS, prepare_for_reading, prepare_for_writing
from cordwood.testing.store.under_test import (
    LIFE,
    appended,
    batch,
    behind,
    bound,
    event,
    events,
    events_of,
    head,
    head_of,
    ids_of,
    letter,
    rows_of,
    snapshot,
    write,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


async def fill(path: Path, journals: int = 40) -> None:
    """A store with something in every table."""
    async with await open_store(f"sqlite:{path}") as store:
        await store.bind("orders", bound())
        keys = [
            KeyChanges(f"order-{number}", head(25, expire_on=date(2024, 1, 1 + number % 28)), events(1, 25))
            for number in range(journals)
        ]
        await write(store, batch("orders", None, 25, *keys, dead_letters=[letter("orders", 25, "order-x")]))
        assert await store.save_snapshot("orders", "order-1", snapshot(3, payload=bytes(20_000)), 1, behind(25))
        await store.set_expired_through("orders", date(2024, 1, 1))


async def use(store: EventStore) -> None:
    """Every call that reads, and one that writes."""
    await store.topics()
    await store.binding("orders")
    await store.expired_through("orders")
    await store.dead_letters("orders")
    await store.snapshots("orders", "order-1")
    for id in await ids_of(store, "orders"):
        if await head_of(store, "orders", id) is not None:
            await events_of(store, "orders", id)
    async for _ in store.expired("orders", None, date.max):
        pass
    await rows_of(store, "orders", ScanPart(None, None))
    await store.write(batch("orders", 25, 26, appended("order-1", 26, 26)))


def content(path: Path) -> bytes:
    return path.read_bytes()


def put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def pragma(path: Path, name: str) -> object:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(f"PRAGMA {name}").fetchone()[0]


# --- the form of the file


async def test_a_new_store_has_the_form_that_the_page_says(path: Path) -> None:
    await fill(path)
    assert pragma(path, "page_size") == PAGE_BYTES == 8192
    assert pragma(path, "journal_mode") == "wal"
    assert pragma(path, "application_id") == APPLICATION_ID
    assert pragma(path, "user_version") == len(STEPS) == 2


def test_the_writer_syncs_before_it_acks(path: Path) -> None:
    with closing(prepare_for_writing(path, 5)) as db:
        set_up_writer(db)
        assert db.execute("PRAGMA synchronous").fetchone() == (2,), "not FULL"


async def test_a_closed_store_is_one_file(path: Path) -> None:
    await fill(path)
    async with await open_store(f"sqlite:{path}") as store:
        await use(store)
    assert os.listdir(path.parent) == ["store.db"]


async def test_many_stores_of_one_new_file_are_opened_at_once(path: Path) -> None:
    stores = await asyncio.gather(*(open_store(f"sqlite:{path}") for _ in range(8)))
    for partition, store in enumerate(stores):
        await write(store, batch("orders", None, 1, partition=partition))
    for store in stores:
        assert len(await store.pointers("orders")) == 8
        await store.close()


async def test_an_empty_file_becomes_a_store(path: Path) -> None:
    put(path, b"")
    await fill(path)
    assert pragma(path, "page_size") == 8192


def cut_creation_short(path: Path) -> None:
    """Leave the files of a creation that is killed in the middle of its transaction."""
    with closing(sqlite3.connect(f"{path}.begun", isolation_level=None)) as db:
        db.execute("PRAGMA cache_size=1")  # so that changed pages are in the file before the commit
        db.execute("BEGIN IMMEDIATE")
        db.execute("CREATE TABLE journal (payload BLOB)")
        for _ in range(50):
            db.execute("INSERT INTO journal VALUES (zeroblob(20000))")
        shutil.copy(f"{path}.begun", path)
        shutil.copy(f"{path}.begun-journal", f"{path}-journal")


async def test_a_creation_that_was_cut_short_is_begun_again(path: Path) -> None:
    cut_creation_short(path)
    assert len(content(path)) > 0
    with pytest.raises(NotFound, match="there is no store here"):
        await open_store(f"sqlite:{path}", read_only=True)
    await fill(path)
    assert pragma(path, "page_size") == 8192
    async with await open_store(f"sqlite:{path}") as store:
        await use(store)


class BusyOnce(sqlite3.Connection):
    """A connection for which the change to WAL mode fails once: SQLite does not always wait for that lock."""

    refused = 0

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        if "journal_mode=WAL" in sql and not self.refused:
            self.refused += 1
            raise raised(sqlite3.SQLITE_BUSY)
        return super().execute(sql, *args)


def test_an_opening_tries_to_turn_on_the_wal_mode_again(path: Path) -> None:
    with closing(sqlite3.connect(path, factory=BusyOnce)) as db:
        schema._turn_on_wal(db, path, time.monotonic() + 30)
        assert db.refused == 1
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_parts_are_of_equal_size(path: Path) -> None:
    await fill(path, journals=10)
    async with await open_store(f"sqlite:{path}") as store:
        for count, sizes in ((1, [10]), (2, [5, 5]), (3, [4, 4, 2]), (4, [3, 3, 3, 1]), (10, [1] * 10), (20, [1] * 10)):
            parts = await store.parts("orders", count)
            found = [[row async for page in store.scan_heads("orders", part) for row in page] for part in parts]
            assert list(map(len, found)) == sizes


# --- foreign files


def make_text(path: Path) -> None:
    path.write_text("these are the notes of a person\n" * 500)


def make_other_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE notes (text TEXT)")
        db.execute("PRAGMA user_version=1")


def make_other_database_in_wal_mode(path: Path) -> None:
    """As a program leaves it that is killed: with changes that are in the log of changes alone."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE notes (text TEXT)")
        for name in ("", "-wal"):
            shutil.copy(f"{path}{name}", f"{path}.copy{name}")
    for name in ("", "-wal"):
        os.replace(f"{path}.copy{name}", f"{path}{name}")


def make_empty_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("VACUUM")


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("make", [make_text, make_other_database, make_other_database_in_wal_mode, make_empty_database])
async def test_a_file_that_is_no_store_is_corrupt_and_stays_untouched(
    path: Path, make: Callable[[Path], None], read_only: bool
) -> None:
    make(path)
    files = [file for file in (path, Path(f"{path}-wal")) if file.exists()]
    before = [file.read_bytes() for file in files]
    with pytest.raises(Corrupt, match=str(path)):
        await open_store(f"sqlite:{path}", read_only=read_only)
    assert [file.read_bytes() for file in files] == before


# --- damage


async def test_a_zeroed_page_is_damage_or_makes_no_difference(path: Path) -> None:
    await fill(path)
    sound = content(path)
    noticed = 0
    for at in range(0, len(sound), PAGE_BYTES):
        put(path, sound[:at] + bytes(PAGE_BYTES) + sound[at + PAGE_BYTES :])
        with suppress(Corrupt):
            noticed += 1
            async with await open_store(f"sqlite:{path}") as store:
                await use(store)
            noticed -= 1
    pages = len(sound) // PAGE_BYTES
    assert noticed > pages // 2, f"{noticed} of {pages}"


async def test_a_file_that_was_cut_is_damaged(path: Path) -> None:
    await fill(path)
    sound = content(path)
    for size in (50, 1000, PAGE_BYTES, len(sound) // 2, len(sound) - PAGE_BYTES):
        put(path, sound[:size])
        for read_only in (False, True):
            with pytest.raises(Corrupt, match=str(path)):
                async with await open_store(f"sqlite:{path}", read_only=read_only) as store:
                    await use(store)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE journal SET tags = 'no json' WHERE seq_nr = 3",
        "UPDATE journal SET headers = '[1]' WHERE seq_nr = 3",
        "UPDATE journal SET payload_txt = CAST(x'ff' AS TEXT) WHERE seq_nr = 3",
        "UPDATE metajournal SET expire_on = 'someday' WHERE id = 'order-3'",
        "UPDATE setting SET value = 'no json' WHERE key = 'cordwood/orders'",
        "UPDATE setting SET value = 'someday' WHERE key LIKE '%expired%'",
        "DROP TABLE pointer2",
    ],
)
async def test_a_row_that_cannot_be_decoded_is_damage(path: Path, statement: str) -> None:
    await fill(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement)
    with pytest.raises(Corrupt):
        async with await open_store(f"sqlite:{path}") as store:
            await use(store)


Call = Callable[[EventStore], Awaitable[object]]
EVENTS: list[Call] = [
    lambda store: events_of(store, "orders", "order-3"),
    lambda store: store.first_events("orders", "order-3", 2, 5),
    lambda store: rows_of(store, "orders", ScanPart("order-3", "order-4")),
]
HEADS: list[Call] = [
    lambda store: store.heads("orders", ["order-3"]),
    lambda store: store.first_events("orders", "order-3", 1, 2),
    lambda store: ids_of(store, "orders"),
    lambda store: anext(aiter(store.scan_heads("orders", ScanPart(None, None)))),
    lambda store: anext(aiter(store.expired("orders", None, date.max))),
]
POINTERS: list[Call] = [lambda store: store.pointers("orders"), lambda store: store.topics()]
SETTINGS: list[Call] = [lambda store: store.binding("orders"), lambda store: store.topics()]
DAYS: list[Call] = [lambda store: store.expired_through("orders"), lambda store: store.topics()]
SNAPSHOTS: list[Call] = [lambda store: store.snapshots("orders", "order-1")]
LETTERS: list[Call] = [lambda store: store.dead_letters("orders")]
CHANGES: dict[str, tuple[str, list[Call]]] = {
    "a payload": ("UPDATE journal SET payload_txt = 'x' WHERE id = 'order-3' AND seq_nr = 3", EVENTS),
    "a number": ("UPDATE journal SET seq_nr = 3, timestamp = 1 WHERE id = 'order-3' AND seq_nr = 4", EVENTS),
    "an id": ("UPDATE journal SET id = 'order-3', timestamp = 1 WHERE id = 'order-4' AND seq_nr = 3", EVENTS),
    "a checksum": ("UPDATE journal SET crc = crc + 1 WHERE id = 'order-3' AND seq_nr = 3", EVENTS),
    "a head row": ("UPDATE metajournal SET seq_nr = 24 WHERE id = 'order-3'", HEADS),
    "a closed key": ("UPDATE metajournal SET closed_partition = 0, closed_offset = 0", HEADS),
    "a pointer": ("UPDATE pointer2 SET offset = 24", POINTERS),
    "the time of a pointer": ("UPDATE pointer2 SET updated = 24", POINTERS),
    "a binding": ("UPDATE setting SET value = replace(value, 'a-topic', 'b-topic') WHERE key LIKE '%s'", SETTINGS),
    "a day": ("UPDATE setting SET value = '2025-01-01' WHERE key LIKE '%expired%'", DAYS),
    "the number of a snapshot": ("UPDATE cordwood_snapshot SET seq_nr = 4", SNAPSHOTS),
    "a snapshot": ("UPDATE cordwood_snapshot SET payload = x'00'", SNAPSHOTS),
    "the place of a snapshot": ("UPDATE cordwood_snapshot SET offset = 1", SNAPSHOTS),
    "a dead letter": ("UPDATE cordwood_dead_letter SET skipped = 1", LETTERS),
}


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("change", CHANGES)
async def test_a_row_that_does_not_match_its_checksum_is_damage(path: Path, change: str, read_only: bool) -> None:
    await fill(path)
    statement, calls = CHANGES[change]
    with closing(sqlite3.connect(path)) as db, db:
        assert db.execute(statement).rowcount > 0
    async with await open_store(f"sqlite:{path}", read_only=read_only) as store:
        for call in calls:
            with pytest.raises(Corrupt, match=f"{path}: .*checksum.*: restore the file"):
                await call(store)


async def test_what_a_write_decides_by_must_be_sound(path: Path) -> None:
    await fill(path)
    purge = batch("orders", 25, 26, KeyChanges("order-1", None, purge=26))
    other = snapshot(4, life="another")
    cases: list[tuple[str, str, list[Call]]] = [
        (
            "UPDATE cordwood_snapshot SET offset = offset + 1",
            "UPDATE cordwood_snapshot SET offset = offset - 1",
            [
                lambda store: store.write(purge),
                lambda store: store.save_snapshot("orders", "order-1", snapshot(4), 1, behind(25)),
                lambda store: store.delete_snapshots("orders", "order-1", LIFE, 3, behind(25)),
            ],
        ),
        (
            "UPDATE metajournal SET record_id = 'another' WHERE id = 'order-1'",
            f"UPDATE metajournal SET record_id = '{LIFE}' WHERE id = 'order-1'",
            [lambda store: store.save_snapshot("orders", "order-1", other, 1, behind(25))],
        ),
        (
            "UPDATE cordwood_dead_letter SET reason = 'x', id = 'order-1'",
            "UPDATE cordwood_dead_letter SET reason = 'the header is not JSON', id = 'order-x'",
            [lambda store: store.write(purge), lambda store: store.skip("orders", 0, 25, 1)],
        ),
        (
            "UPDATE pointer2 SET offset = 24",
            "UPDATE pointer2 SET offset = 25",
            [lambda store: store.write(batch("orders", 24, 26))],
        ),
    ]
    for statement, undo, calls in cases:
        with closing(sqlite3.connect(path)) as db, db:
            assert db.execute(statement).rowcount > 0
        async with await open_store(f"sqlite:{path}") as store:
            for call in calls:
                with pytest.raises(Corrupt, match="checksum") as caught:
                    await call(store)
                assert caught.value.outcome == "not_written"
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(undo)
    async with await open_store(f"sqlite:{path}") as store:
        assert await store.write(purge)


HIDDEN = {
    "metajournal": "id = 'order-3'",
    "pointer2": "topic = 'orders'",
    "setting": "key = 'cordwood/orders'",
    "cordwood_snapshot": "id = 'order-1'",
    "cordwood_dead_letter": "offset = 25",
}
"""Tables, and the row that damage hides."""


def hide(path: Path, table: str, *, from_copy: bool, copy_index: str | None = None) -> None:
    """Take a row out of one of its two trees: SQLite changes the table while it does not know the other one."""
    copy_index = copy_index or f"{table}_copy_idx"
    take_out = f"DELETE FROM {table} WHERE {HIDDEN[table]}"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA writable_schema=ON")
        rows = db.execute(f"SELECT * FROM {table} WHERE {HIDDEN[table]}").fetchall()
        copy = db.execute("SELECT * FROM sqlite_master WHERE name = ?", (copy_index,)).fetchone()
        if from_copy:
            db.execute(take_out)
        db.execute("DELETE FROM sqlite_master WHERE name = ?", (copy_index,))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA writable_schema=ON")
        if from_copy:
            db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        else:
            db.execute(take_out)
        db.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", copy)


@pytest.mark.parametrize("from_copy", [False, True])
@pytest.mark.parametrize("table", HIDDEN)
async def test_a_row_that_is_missing_in_one_of_two_trees_is_damage(path: Path, table: str, from_copy: bool) -> None:
    await fill(path)
    hide(path, table, from_copy=from_copy)
    async with await open_store(f"sqlite:{path}") as store:
        with pytest.raises(Corrupt, match=f"{path}: .*: restore the file"):
            await everything(store)
        if table == "metajournal" and not from_copy:
            with pytest.raises(Corrupt, match="the head row of journal 'order-3' of 'orders' is missing"):
                await store.heads("orders", ["order-3", "order-4"])
        if table == "cordwood_dead_letter":
            with pytest.raises(Corrupt):
                await store.skip("orders", 0, 25, 1)


@pytest.mark.parametrize("index", ["metajournal_expire_on_idx", "metajournal_expire_on_copy_idx"])
async def test_a_journal_that_is_missing_by_its_day_is_damage(path: Path, index: str) -> None:
    await fill(path)
    hide(path, "metajournal", from_copy=True, copy_index=index)
    async with await open_store(f"sqlite:{path}") as store:
        with pytest.raises(Corrupt, match="by their last day"):
            await anext(aiter(store.expired("orders", None, date.max)))


@pytest.mark.parametrize("index", ["cordwood_dead_letter_id_idx", "cordwood_dead_letter_copy_idx"])
async def test_a_key_is_not_opened_while_a_dead_letter_is_missing(path: Path, index: str) -> None:
    await fill(path)
    async with await open_store(f"sqlite:{path}") as store:
        await write(store, batch("orders", 25, 30, dead_letters=[letter("orders", 30, "order-x")]))
    hide(path, "cordwood_dead_letter", from_copy=True, copy_index=index)
    async with await open_store(f"sqlite:{path}") as store:
        await write(store, batch("orders", 30, 31, KeyChanges("order-x", head(0, 30, closed=Place(0, 25)))))
        with pytest.raises(Corrupt, match="the dead letters of journal 'order-x'"):
            await store.skip("orders", 0, 30, 1)


async def test_a_write_that_meets_damage_writes_nothing(path: Path) -> None:
    await fill(path)
    hide(path, "pointer2", from_copy=False)
    async with await open_store(f"sqlite:{path}") as store:
        with pytest.raises(Corrupt) as caught:
            await store.write(batch("orders", None, 26, appended("order-1", 26, 26)))
        assert caught.value.outcome == "not_written"
        assert await head_of(store, "orders", "order-1") == head(25, expire_on=date(2024, 1, 2))


async def test_a_damaged_lease_is_none(path: Path) -> None:
    await fill(path)
    async with await open_store(f"sqlite:{path}") as store:
        assert await store.take_leases("orders", [0], "first", 60) == {0}
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("UPDATE cordwood_lease SET until = until + (1 << 50)")
        assert await store.leases("orders") == {}
        assert await store.take_leases("orders", [0], "second", 60) == {0}


def break_form(path: Path, old: str, new: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA writable_schema=ON")
        assert db.execute("UPDATE sqlite_master SET sql = replace(sql, ?, ?)", (old, new)).rowcount > 0


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    ("old", "new"), [("id TEXT NOT NULL", "id TEXU NOT NULL"), ("(topic, id)", "(topic, offset)"), ("seq_nr", "seq_nv")]
)
async def test_a_table_that_is_not_what_it_was_made_as_is_damage(
    path: Path, old: str, new: str, read_only: bool
) -> None:
    await fill(path)
    break_form(path, old, new)
    with pytest.raises(Corrupt, match=str(path)):
        await open_store(f"sqlite:{path}", read_only=read_only)


async def test_a_table_of_another_program_does_no_harm(path: Path) -> None:
    await fill(path)
    with closing(sqlite3.connect(path)) as db:
        db.executescript("CREATE TABLE notes (text TEXT); CREATE INDEX by_origin ON metajournal (origin)")
    async with await open_store(f"sqlite:{path}") as store:
        await use(store)


# --- the log of changes


async def killed(path: Path, batches: int) -> Path:
    """A copy of a store that holds so many batches in its log of changes."""
    copy = path.with_name("killed")
    copy.mkdir()
    async with await open_store(f"sqlite:{path}") as store:
        for turn in range(batches):
            await write(store, batch("orders", turn or None, turn + 1, appended("order-1", turn + 1, turn + 1)))
        for name in ("store.db", "store.db-wal"):
            shutil.copy(path.with_name(name), copy / name)
    return copy / "store.db"


def damage_frame(path: Path, number: int, *, at: int = 100) -> None:
    """Flip a bit in this commit's last frame; commits count from the end."""
    wal = path.with_name("store.db-wal")
    data = bytearray(wal.read_bytes())
    commits = [at for at in range(32, len(data), 24 + PAGE_BYTES) if any(data[at + 4 : at + 8])]
    data[commits[-number] + at] ^= 4
    wal.write_bytes(data)


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_damaged_frame_before_the_last_batch_is_damage(path: Path, read_only: bool) -> None:
    copy = await killed(path, 5)
    sound = content(copy.with_name("store.db-wal"))
    for number in (2, 3, 5):
        for at in (0, 9, 17, 100):
            damage_frame(copy, number, at=at)
            for _ in range(2):  # the refusal changes nothing
                with pytest.raises(Corrupt, match=f"{copy}: store.db-wal has a damaged frame.*restore the file"):
                    await open_store(f"sqlite:{copy}", read_only=read_only)
            put(copy.with_name("store.db-wal"), sound)
    async with await open_store(f"sqlite:{copy}", read_only=read_only) as store:
        assert await store.pointers("orders") == {0: 5}


async def test_a_damaged_header_of_the_log_of_changes_is_damage(path: Path) -> None:
    copy = await killed(path, 5)
    for at in range(32):
        data = bytearray(sound := content(copy.with_name("store.db-wal")))
        data[at] ^= 16
        put(copy.with_name("store.db-wal"), bytes(data))
        with pytest.raises(Corrupt, match=str(copy)):
            await open_store(f"sqlite:{copy}")
        put(copy.with_name("store.db-wal"), sound)


async def test_a_torn_last_batch_is_rolled_back(path: Path) -> None:
    copy = await killed(path, 5)
    damage_frame(copy, 1)
    async with await open_store(f"sqlite:{copy}") as store:
        assert await store.pointers("orders") == {0: 4}
        assert await store.write(batch("orders", 4, 5, appended("order-1", 5, 5)))


async def test_a_log_of_changes_that_is_used_again_is_sound(path: Path) -> None:
    # Frames of before the checkpoint are behind those in use.
    async with await open_store(f"sqlite:{path}") as store:
        for turn in range(20):
            await write(store, batch("orders", turn or None, turn + 1, appended("order-1", turn + 1, turn + 1)))
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA wal_checkpoint(RESTART)")
        await write(store, batch("orders", 20, 21, appended("order-1", 21, 21)))
        for read_only in (False, True):
            async with await open_store(f"sqlite:{path}", read_only=read_only) as other:
                assert await other.pointers("orders") == {0: 21}


# --- versions


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_newer_store_is_refused_by_name(path: Path, read_only: bool) -> None:
    await fill(path)
    prepare_for_writing(path, 5, (*STEPS, NEXT_STEP)).close()
    with pytest.raises(Unavailable, match="schema version 3, and this program knows 2") as caught:
        await open_store(f"sqlite:{path}", read_only=read_only)
    assert caught.value.reason == "version"
    assert pragma(path, "user_version") == 3


@pytest.mark.parametrize("version", [0, 1, 3])
async def test_a_version_that_is_not_that_of_its_tables_is_damage(path: Path, version: int) -> None:
    await fill(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version={version}")
    with pytest.raises(Corrupt, match=str(path)):
        await open_store(f"sqlite:{path}")


NEXT_STEP = "CREATE TABLE cordwood_next (id TEXT);\nALTER TABLE setting ADD COLUMN next TEXT;\n"


async def test_an_older_store_is_upgraded_and_keeps_its_rows(path: Path) -> None:
    await fill(path)
    for _ in range(2):  # the second time there is nothing to do
        with closing(prepare_for_writing(path, 5, (*STEPS, NEXT_STEP))) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (3,)
            assert db.execute("SELECT count(*) FROM journal").fetchone() == (1000,)
            assert db.execute("SELECT next FROM setting").fetchall() == [(None,), (None,)]


async def test_an_upgrade_that_fails_changes_nothing(path: Path) -> None:
    await fill(path)
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        prepare_for_writing(path, 5, (*STEPS, NEXT_STEP, "ALTER TABLE missing ADD COLUMN next TEXT;\n"))
    assert pragma(path, "user_version") == 2
    async with await open_store(f"sqlite:{path}") as store:
        await use(store)


def make_version_1(path: Path) -> None:
    """The same rows, in the tables of version 1."""
    with closing(prepare_for_writing(path.with_name("old.db"), 5, STEPS[:1])) as db:
        db.execute("ATTACH ? AS new", (str(path),))
        for (table,) in db.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'").fetchall():
            columns = ", ".join(
                name for (name,) in db.execute("SELECT name FROM pragma_table_info(?, 'main')", (table,))
            )
            db.execute(f"INSERT INTO main.{table} SELECT {columns} FROM new.{table}")
        db.execute("DETACH new")
    path.unlink()
    path.with_name("old.db").rename(path)


async def everything(store: EventStore) -> list[object]:
    """What every call that reads returns."""
    ids = await ids_of(store, "orders")
    return [
        await store.topics(),
        await store.binding("orders"),
        await store.expired_through("orders"),
        await store.dead_letters("orders"),
        await store.snapshots("orders", "order-1"),
        ids,
        await store.heads("orders", ids),
        [await events_of(store, "orders", id) for id in ids],
        [page async for page in store.expired("orders", None, date.max)],
        await rows_of(store, "orders", ScanPart(None, None)),
    ]


async def test_a_store_of_version_1_keeps_its_rows_and_has_no_checksums(path: Path) -> None:
    await fill(path)
    async with await open_store(f"sqlite:{path}") as store:
        before = await everything(store)
    make_version_1(path)
    assert pragma(path, "user_version") == 1
    with pytest.raises(Unavailable, match="open it once for writing"):
        await open_store(f"sqlite:{path}", read_only=True)
    async with await open_store(f"sqlite:{path}") as store:
        assert await everything(store) == before
        assert await store.take_leases("orders", [0], "first", 60) == {0}
        await use(store)
    with closing(sqlite3.connect(path)) as db:
        # `use` has written one event.
        assert db.execute("SELECT count(*), count(crc) FROM journal").fetchone() == (1001, 1)
        assert db.execute("SELECT count(*), count(crc) FROM metajournal").fetchone() == (40, 1)


async def test_a_row_of_version_1_with_a_value_of_a_wrong_type_is_damage(path: Path) -> None:
    await fill(path)
    make_version_1(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE journal SET payload_txt = x'00' WHERE seq_nr = 3")
    with pytest.raises(Corrupt, match="event 3 of journal 'order-0'"):
        async with await open_store(f"sqlite:{path}") as store:
            await use(store)


async def test_an_upgrade_waits_for_no_reader_and_a_reader_never_upgrades(path: Path) -> None:
    await fill(path)
    with pytest.raises(Unavailable, match="open it once for writing") as caught:
        prepare_for_reading(path, 5, (*STEPS, NEXT_STEP))
    assert caught.value.reason == "version"
    async with await open_store(f"sqlite:{path}", read_only=True) as reader:
        prepare_for_writing(path, 5, (*STEPS, NEXT_STEP)).close()
        assert await reader.pointers("orders") == {0: 25}


# --- locks


async def test_a_locked_store_is_busy_for_writers_alone(path: Path) -> None:
    await fill(path)
    async with await open_store(f"sqlite:{path}", timeout=2) as store:
        with closing(connect(path, "rwc", 5)) as other:
            other.execute("BEGIN IMMEDIATE")
            calls = [store.write(batch("orders", 25, 26)) for _ in range(3)]
            for error in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(error, Unavailable)
                assert (error.reason, error.outcome, error.retryable) == ("busy", "not_written", True)
            assert await store.pointers("orders") == {0: 25}
            other.execute("ROLLBACK")
        assert await store.write(batch("orders", 25, 26))


async def test_a_writer_waits_for_a_lock_that_is_released(path: Path) -> None:
    await fill(path)
    async with await open_store(f"sqlite:{path}") as store:
        with closing(connect(path, "rwc", 5)) as other:
            other.execute("BEGIN IMMEDIATE")
            writing = asyncio.ensure_future(store.write(batch("orders", 25, 26)))
            await asyncio.sleep(0)  # the call has its thread
            other.execute("COMMIT")
            assert await writing


async def test_a_call_that_times_out_has_an_unknown_outcome(path: Path) -> None:
    await fill(path)
    url = f"sqlite:{path}"
    async with await open_store(url) as store:
        assert isinstance(store, SqliteStore)
        session = store._session
        session.timeout = 0.2  # less than the time for which SQLite waits
        with closing(connect(path, "rwc", 5)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(Timeout) as caught:
                await store.write(batch("orders", 25, 26))
            assert caught.value.outcome == "unknown"
            other.execute("ROLLBACK")
        session.timeout = 30
    # It continued by itself.
    async with await open_store(url) as store:
        assert await store.pointers("orders") == {0: 26}


# --- room


async def test_a_full_disk_refuses_a_write_and_works_again(path: Path) -> None:
    await fill(path)
    async with await open_store(f"sqlite:{path}") as store:
        writer = store._session._writer  # type: ignore[attr-defined]  # SQLite's own limit stands for the disk's
        (pages,) = writer.execute("PRAGMA page_count").fetchone()
        writer.execute(f"PRAGMA max_page_count={pages + 4}")
        rows = [event(number, payload_txt="x" * 100_000) for number in range(26, 40)]
        changes = batch("orders", 25, 39, KeyChanges("order-1", head(39), rows))
        with pytest.raises(Unavailable, match="make room") as caught:
            await store.write(changes)
        assert (caught.value.reason, caught.value.outcome, caught.value.retryable) == ("full", "not_written", True)
        assert await store.pointers("orders") == {0: 25}
        assert len(await events_of(store, "orders", "order-1")) == 25
        writer.execute(f"PRAGMA max_page_count={pages + 10_000}")
        assert await store.write(changes)
        assert len(await events_of(store, "orders", "order-1")) == 39


LIMITED = """
import asyncio, resource, sys
from cordwood.errors import Unavailable
from cordwood.store import KeyChanges, open_store
from cordwood.testing.store.under_test import batch, event, events_of, head

async def main():
    async with await open_store(sys.argv[1]) as store:
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, limits[1]))
        number = refused = 0
        while refused < 3:
            row = event(number + 1, payload_txt="x" * 100_000)
            changes = batch("orders", number or None, number + 1, KeyChanges("order-1", head(number + 1), [row]))
            try:
                assert await store.write(changes)
                number += 1
            except Unavailable as error:
                refused += 1
                assert error.reason in ("full", "failed"), error.reason
        assert 0 < number < 5, number
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert await store.pointers("orders") == {0: number}
        assert await store.write(changes)
        assert len(await events_of(store, "orders", "order-1")) == number + 1

asyncio.run(main())
"""


def run(script: str, *arguments: object) -> None:
    # Python 3.12 and newer warn of every fork of a process with threads.
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.processes
def test_a_file_system_that_takes_no_larger_files_refuses_and_works_again(path: Path) -> None:
    run(LIMITED, f"sqlite:{path}")


# --- rights

AS_NOBODY = """
import asyncio, os, sys
from cordwood.errors import Unavailable
from cordwood.store import open_store
import cordwood.store.sqlite
from cordwood.testing.store.under_test import events_of

if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)

async def main(url, read_only, expected):
    try:
        async with await open_store(url, read_only=read_only) as store:
            assert len(await events_of(store, "orders", "order-1")) == 25
        said = "read"
    except Unavailable as error:
        said = f"{error.reason} {error}"
    assert expected in said, said

asyncio.run(main(sys.argv[1], sys.argv[2] == "True", sys.argv[3]))
"""


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that other users may read, but not write."""
    folder = Path(tempfile.mkdtemp(prefix="cordwood-store-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.processes
def test_a_folder_without_rights_is_unavailable(shared: Path) -> None:
    os.chmod(shared, 0o555)
    run(AS_NOBODY, f"sqlite:{shared}/store.db", False, "permission")
    os.chmod(shared, 0o000)
    run(AS_NOBODY, f"sqlite:{shared}/store.db", True, "permission")


@pytest.mark.processes
async def test_a_store_that_may_only_be_read_is_unavailable_for_writing(shared: Path) -> None:
    path = shared / "store.db"
    await fill(path)
    os.chmod(path, 0o444)
    os.chmod(shared, 0o555)
    await asyncio.to_thread(run, AS_NOBODY, f"sqlite:{path}", False, "permission")


@pytest.mark.processes
async def test_a_store_that_may_not_be_read_is_unavailable(shared: Path) -> None:
    path = shared / "store.db"
    await fill(path)
    os.chmod(path, 0o000)
    for read_only in (False, True):
        await asyncio.to_thread(run, AS_NOBODY, f"sqlite:{path}", read_only, "check that this user may read")


@pytest.mark.processes
async def test_a_reader_that_cannot_share_memory_names_the_file(shared: Path) -> None:
    path = shared / "store.db"
    await fill(path)
    os.chmod(path, 0o444)
    os.chmod(shared, 0o555)
    await asyncio.to_thread(run, AS_NOBODY, f"sqlite:{path}", True, f"{path}-shm")


@pytest.mark.processes
async def test_a_reader_without_rights_reads_next_to_a_writer(shared: Path) -> None:
    path = shared / "store.db"
    await fill(path)
    async with await open_store(f"sqlite:{path}"):
        os.chmod(shared, 0o555)
        await asyncio.to_thread(run, AS_NOBODY, f"sqlite:{path}", True, "read")


# --- forks

FORKING = """
import asyncio, os, sys
from cordwood.errors import Unavailable
from cordwood.store import open_store
from cordwood.testing.store.under_test import batch

async def in_child(url, store):
    for call in (store.pointers("orders"), store.write(batch("orders", 1, 2)), store.topics()):
        try:
            await call
        except Unavailable as error:
            assert error.reason == "forked", error.reason
            assert "open it again in the child" in str(error)
        else:
            raise AssertionError("an inherited store was used")
    await store.close()
    async with await open_store(url) as own:
        assert await own.write(batch("orders", 1, 2))

async def before(url):
    store = await open_store(url)
    assert await store.write(batch("orders", None, 1))
    return store

async def after(store):
    assert await store.pointers("orders") == {0: 2}
    assert await store.write(batch("orders", 2, 3))
    await store.close()

url = sys.argv[1]
store = asyncio.run(before(url))
child = os.fork()
if child == 0:
    asyncio.run(in_child(url, store))
    del store
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
asyncio.run(after(store))
"""


@pytest.mark.processes
def test_a_forked_child_opens_a_store_of_its_own(path: Path) -> None:
    run(FORKING, f"sqlite:{path}")
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("SELECT offset FROM pointer2").fetchall() == [(3,)]


OUTLIVING = """
import asyncio, gc, os, signal, sys
from cordwood.store import open_store
from cordwood.testing.store.under_test import batch

async def first(url):
    store = await open_store(url)
    assert await store.write(batch("orders", None, 1))
    return store

async def second(url, store):
    await store.close()
    store = await open_store(url)
    assert await store.write(batch("orders", 1, 2))
    os.kill(os.getpid(), signal.SIGKILL)

url = sys.argv[1]
store = asyncio.run(first(url))
reading, writing = os.pipe()
if os.fork() == 0:
    os.close(writing)
    os.read(reading, 1)  # until the parent is dead
    del store
    gc.collect()
    print("freed", flush=True)
    sys.exit(0)
os.close(reading)
asyncio.run(second(url, store))
"""


@pytest.mark.processes
async def test_a_child_that_outlives_its_parent_takes_no_batch_back(path: Path) -> None:
    # If it closed the inherited connection, SQLite would remove the log of changes that the parent has begun since.
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", OUTLIVING, f"sqlite:{path}"]
    # The child has the pipe, too, so that the output ends with the child.
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGKILL, "freed\n", "")
    async with await open_store(f"sqlite:{path}") as store:
        assert await store.pointers("orders") == {0: 2}


# --- one place for SQLite's errors


def raised(code: int, kind: type[sqlite3.Error] = sqlite3.OperationalError) -> sqlite3.Error:
    error = kind("said SQLite")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (raised(sqlite3.SQLITE_BUSY), Unavailable, "busy"),
        (raised(sqlite3.SQLITE_BUSY_RECOVERY), Unavailable, "busy"),
        (raised(sqlite3.SQLITE_FULL), Unavailable, "full"),
        (raised(sqlite3.SQLITE_IOERR_FSYNC), Unavailable, "failed"),
        (raised(sqlite3.SQLITE_READONLY_DIRECTORY), Unavailable, "permission"),
        (raised(sqlite3.SQLITE_CANTOPEN), Unavailable, "permission"),
        (raised(sqlite3.SQLITE_CORRUPT, sqlite3.DatabaseError), Corrupt, None),
        (raised(sqlite3.SQLITE_NOTADB, sqlite3.DatabaseError), Corrupt, None),
        (raised(sqlite3.SQLITE_IOERR_SHORT_READ), Corrupt, None),
        (raised(sqlite3.SQLITE_ERROR), Corrupt, None),
        (raised(sqlite3.SQLITE_TOOBIG, sqlite3.DataError), TooLarge, None),
    ],
    ids=lambda value: getattr(value, "sqlite_errorcode", None),
)
def test_each_error_of_sqlite_has_a_kind_and_a_reason(
    path: Path, error: sqlite3.Error, kind: type[CordwoodError], reason: str | None
) -> None:
    translated = translate(error, path)
    assert type(translated) is kind
    assert getattr(translated, "reason", None) == reason
    assert "said SQLite" in str(translated)
    assert str(path) in str(translated)
