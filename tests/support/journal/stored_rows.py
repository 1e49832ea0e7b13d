"""The rows of a store as they are in its tables, without the code that reads them."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from cordwood.store.url import CassandraUrl, SqliteUrl, parse_store_url
from tests.support.journal.journals import TOPIC, Journals

TABLES = ("journal", "metajournal", "pointer2", "setting", "cordwood_snapshot", "cordwood_dead_letter")
Row = dict[str, Any]


def rows(journals: Journals, table: str) -> list[Row]:
    """Every row of a table, by column; times in ms and days as texts, whatever the store."""
    url = parse_store_url(journals.kind.store_url)
    if isinstance(url, SqliteUrl):
        with closing(sqlite3.connect(url.path)) as db:
            db.row_factory = sqlite3.Row
            return [dict(row) for row in db.execute(f"SELECT * FROM {table}")]
    return _cassandra_rows(journals, url, table)


def _cassandra_rows(journals: Journals, url: CassandraUrl, table: str) -> list[Row]:
    link = journals.kind.link
    assert link is not None
    found = [json.loads(text) for (text,) in link.run(f"SELECT JSON * FROM {url.keyspace}.{table}")]
    decoded = [{name: _DECODERS.get(name, _as_is)(value) for name, value in row.items()} for row in found]
    # In no order that the tables of SQLite have.
    return sorted(
        decoded, key=lambda row: [str(row.get(name)).zfill(20) for name in ("topic", "id", "seq_nr", "offset")]
    )


def _as_is(value: Any) -> Any:
    return value


def _ms(value: str | int | None) -> str | int | None:
    if not isinstance(value, str):
        return value  # a time of our own tables
    if value.startswith(("+", "-")):
        return value  # beyond the calendar
    return round(datetime.strptime(value, "%Y-%m-%d %H:%M:%S.%fZ").replace(tzinfo=UTC).timestamp() * 1000)


def _blob(value: str | None) -> bytes | str | None:
    return bytes.fromhex(value[2:]) if value is not None and value.startswith("0x") else value


_DECODERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("timestamp", "created", "updated"), _ms),
    **dict.fromkeys(("payload_bin", "payload", "key", "header", "value"), _blob),
}


def _of(journals: Journals, table: str, key: str, topic: str) -> list[Row]:
    found = [row for row in rows(journals, table) if (row["topic"], row["id"]) == (topic, key)]
    return sorted(found, key=lambda row: row["seq_nr"])


def head_row(journals: Journals, key: str, topic: str = TOPIC) -> Row | None:
    """The row of a journal in `metajournal`."""
    found = _of(journals, "metajournal", key, topic)
    return found[0] if found else None


def places(journals: Journals, key: str, topic: str = TOPIC) -> list[tuple[int, int]]:
    """The number and the segment of each event row."""
    return [(row["seq_nr"], row["segment"]) for row in _of(journals, "journal", key, topic)]


def snapshot_numbers(journals: Journals, key: str, topic: str = TOPIC) -> list[int]:
    return [row["seq_nr"] for row in _of(journals, "cordwood_snapshot", key, topic)]


def tables(journals: Journals) -> dict[str, list[Row]]:
    """Every row of every table."""
    return {table: rows(journals, table) for table in TABLES}


def rows_of_log(journals: Journals) -> dict[str, list[Row]]:
    """The rows that follow from the log alone (R27)."""
    found = tables(journals)
    return {name: found[name] for name in ("journal", "metajournal", "cordwood_dead_letter")}


async def rebuilt_rows(journals: Journals, **options: Any) -> dict[str, list[Row]]:
    """The rows of a new store that gets the whole log at once: what every store of that log must have."""
    other = Journals(replace(journals.kind, store_url=journals.kind.new_store_url()))
    try:
        journal = await other.open(**options)
        await journal.catch_up()
        return rows_of_log(other)
    finally:
        await other.close()
