"""The rows of a store as they are in its tables, without the code that reads them."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import Any

from tests.support.journal.journals import TOPIC, Journals


def query(journals: Journals, sql: str, *values: object) -> list[dict[str, Any]]:
    """Rows of the store's tables, by column."""
    scheme, _, path = journals.kind.store_url.partition(":")
    assert scheme == "sqlite", f"no tables of {scheme} are known here"
    with closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute(sql, values)]


def head_row(journals: Journals, key: str, topic: str = TOPIC) -> dict[str, Any] | None:
    """The row of a journal in `metajournal`."""
    rows = query(journals, "SELECT * FROM metajournal WHERE topic = ? AND id = ?", topic, key)
    return rows[0] if rows else None


def places(journals: Journals, key: str, topic: str = TOPIC) -> list[tuple[int, int]]:
    """The number and the segment of each event row."""
    rows = query(journals, "SELECT * FROM journal WHERE topic = ? AND id = ? ORDER BY seq_nr", topic, key)
    return [(row["seq_nr"], row["segment"]) for row in rows]


def snapshot_numbers(journals: Journals, key: str, topic: str = TOPIC) -> list[int]:
    rows = query(journals, "SELECT * FROM cordwood_snapshot WHERE topic = ? AND id = ? ORDER BY seq_nr", topic, key)
    return [row["seq_nr"] for row in rows]


def tables(journals: Journals) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table."""
    names = query(journals, "SELECT name FROM sqlite_master WHERE type = 'table'")
    return {row["name"]: query(journals, f"SELECT * FROM {row['name']}") for row in names}


def rows_of_log(journals: Journals) -> dict[str, list[dict[str, Any]]]:
    """The rows that follow from the log alone (R27)."""
    found = tables(journals)
    return {name: found[name] for name in ("journal", "metajournal", "cordwood_dead_letter")}


async def rebuilt_rows(journals: Journals, **options: Any) -> dict[str, list[dict[str, Any]]]:
    """The rows of a new store that gets the whole log at once: what every store of that log must have."""
    url = journals.kind.store_url.removesuffix(".db")
    other = Journals(replace(journals.kind, store_url=f"{url}-rebuilt.db"))
    try:
        journal = await other.open(**options)
        await journal.catch_up()
        return rows_of_log(other)
    finally:
        await other.close()
