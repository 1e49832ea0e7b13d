"""Pages of event rows: by bytes, over gaps, without a transaction between them."""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.store import EventRow, EventStore, KeyChanges, ScanPart, open_store
from cordwood.store.sqlite import reading, writing
from cordwood.store.sqlite.connection import connect
from cordwood.store.sqlite.schema import prepare_for_writing
from cordwood.testing.store.under_test import batch, event, events, head, write

MIB = 1 << 20


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EventStore]:
    async with await open_store(f"sqlite:{tmp_path}/store.db") as store:
        yield store


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path = tmp_path_factory.mktemp("pages") / "store.db"
    with closing(prepare_for_writing(path, 5)) as db:
        db.execute("PRAGMA synchronous=OFF")
        yield db


ROWS = st.lists(
    st.tuples(st.integers(1, 40), st.integers(0, 3), st.sampled_from(["", "x" * 10, "€" * 100, "x" * 3000])),
    max_size=40,
    unique_by=lambda row: row[:2],
)


@given(ROWS, st.integers(1, 45), st.integers(0, 50), st.sampled_from([1, 200, 1000, 5000, MIB]))
def test_pages_have_every_row_of_the_range_once(
    db: sqlite3.Connection, found: list[tuple[int, int, str]], start: int, length: int, bytes_max: int
) -> None:
    stop = start + length
    rows = [event(number, offset, payload_txt=text) for number, offset, text in sorted(found)]
    db.execute("BEGIN")
    try:
        assert writing.write(db, batch("orders", None, 1, KeyChanges("order-1", head(40), rows)), now=1)
        assert read_all(db, start, stop, bytes_max) == [row for row in rows if start <= row.seq_nr < stop]
    finally:
        db.execute("ROLLBACK")


def read_all(db: sqlite3.Connection, start: int, stop: int, bytes_max: int) -> list[EventRow]:
    rows: list[EventRow] = []
    at: int | None = start
    while at is not None:
        page = reading.events(db, "orders", "order-1", at, stop, bytes_max)
        sizes = [reading.ROW_BYTES + len((row.payload_txt or "").encode()) for row in page.rows]
        # Rows with one number are on one page, so the rest of the last number may be over the limit.
        counts = [len(list(group)) for _, group in groupby(page.rows, lambda row: row.seq_nr)]
        assert len(counts) <= 1 or sum(sizes[: len(sizes) - counts[-1] + 1]) <= bytes_max
        rows += page.rows
        at = page.next
    return rows


def bytes_read() -> int:
    """How many bytes this process has read from files so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


async def test_a_page_is_read_without_the_rows_after_it(store: EventStore) -> None:
    rows = [event(number, payload_txt="x" * MIB) for number in range(1, 33)]
    await write(store, batch("orders", None, 32, KeyChanges("order-1", head(32), rows)))
    before = bytes_read()
    page = await store.events("orders", "order-1", head(32), 3, 33, 4 * MIB)
    assert (len(page.rows), page.next) == (3, 6)
    # Three rows and the one that is too many, of 32. SQLite reads a row that spills twice: to compare its key, too.
    assert bytes_read() - before < 12 * MIB


async def test_no_transaction_lasts_from_page_to_page(store: EventStore, tmp_path: Path) -> None:
    rows = events(1, 200, payload_txt="x" * 1000)
    await write(store, batch("orders", None, 200, KeyChanges("order-1", head(200), rows)))
    page = await store.events("orders", "order-1", head(200), 1, 201, 10_000)
    scan = store.scan_events("orders", ScanPart(None, None), 10_000)
    await anext(scan)
    assert page.next is not None
    with closing(connect(tmp_path / "store.db", "rwc", 5)) as other:
        # It waits for every reader, and says so if one holds it back.
        (busy, *_) = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert busy == 0
    await scan.aclose()  # type: ignore[attr-defined]  # it is a generator
