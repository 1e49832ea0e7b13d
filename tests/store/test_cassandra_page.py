"""`docs/formats/journal-cassandra.md`: its tables are those that are made, its rows those that are written and read."""

import json
import time
from datetime import date

from cordwood.store import EventRow, HeadRow, KeyChanges, open_store
from cordwood.store.cassandra import schema
from cordwood.testing.store.under_test import batch, bound, events_of, write
from tests.support.docs.pages import blocks, page, rows
from tests.support.store.keyspaces import KEYSPACE, Keyspaces

TEXT = page("docs/formats/journal-cassandra.md")
NOW_MS = 1_700_000_000_000
LIFE = "6b29fc40-ca47-1067-b31d-00dd010662da"
DAY_NS = 86_400_000_000_000
METADATA = '{"header":{},"payload":{}}'
HEAD = HeadRow(
    0,
    7,
    10_000,
    2,
    NOW_MS,
    NOW_MS,
    life=LIFE,
    expire_after_ns=DAY_NS * 3 // 2,
    expire_on=date(2023, 11, 16),
    origin="host",
    append_id="command-42",
)
ROWS = [
    EventRow(1, NOW_MS, 0, 7, "host", "1.0", LIFE, METADATA, "json", '{"n":1}', tags=("paid",)),
    EventRow(2, NOW_MS, 0, 7, "host", "1.0", LIFE, METADATA, "text", "hi"),
]


def test_the_page_shows_the_tables() -> None:
    (shown,) = blocks(TEXT, "cql")
    made = {f"CREATE TABLE {table} ({columns})" for table, columns in {**schema._TABLES, **schema._OWN}.items()}
    indexes = {f"CREATE INDEX {name} ON metajournal ({column})" for name, column in schema._INDEXES.items()}
    assert set(shown.splitlines()) == made | indexes
    assert {row[0].strip("`") for row in rows(TEXT) if len(row) == 3} == {*schema._TABLES, *schema._OWN}
    assert TEXT.startswith(
        f"# The Cassandra store of journals, schema versions {schema.SCALA_VERSION} and {len(schema.OWN_STEPS)}\n"
    )


async def test_the_example_is_what_is_written(clean_keyspaces: Keyspaces) -> None:
    (shown,) = blocks(TEXT, "rows")
    async with await open_store(clean_keyspaces.url) as store:
        await store.bind("orders", bound(base_us=time.time_ns() // 1000))
        await write(store, batch("orders", None, 7, KeyChanges("order-1", HEAD, ROWS)))
    found = [
        f"{table} {text}"
        for table in ("journal", "metajournal")
        for (text,) in clean_keyspaces.link.run(f"SELECT JSON * FROM {KEYSPACE}.{table}")
    ]
    assert found == shown.splitlines()


async def test_the_example_is_read_as_the_page_says(clean_keyspaces: Keyspaces) -> None:
    (shown,) = blocks(TEXT, "rows")
    for line in shown.splitlines():
        table, _, columns = line.partition(" ")
        json.loads(columns)
        clean_keyspaces.link.run(f"INSERT INTO {KEYSPACE}.{table} JSON %s", (columns,))
    async with await open_store(clean_keyspaces.url) as store:
        assert await store.heads("orders", ["order-1"]) == {"order-1": HEAD}
        assert await events_of(store, "orders", "order-1") == ROWS
