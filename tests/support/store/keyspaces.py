"""The keyspace that tests share: making one takes seconds. It stays open, so that stores share its connections."""

import asyncio
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from cordwood.store.url import CassandraUrl
from cordwood.testing.cassandra import Node

if TYPE_CHECKING:
    from cordwood.store.cassandra.driver import Link
    from cordwood.store.cassandra.session import Session

KEYSPACE = "journal"

TABLES = {
    "journal": ("id", "topic", "segment"),
    "metajournal": ("topic", "segment"),
    "pointer2": ("topic", "partition"),
    "setting": ("key",),
    "cordwood_snapshot": ("topic", "id"),
    "cordwood_dead_letter": ("topic", "partition"),
}
"""The tables with rows of topics, and their partition keys."""


@pytest.fixture(scope="session")
def cassandra_session(cassandra: Node) -> "Iterator[Session]":
    """An open keyspace, for all tests of this process."""
    # The driver is loaded where it is used: it takes a moment.
    from cordwood.store.cassandra.schema import LockTimes
    from cordwood.store.cassandra.session import Session
    from cordwood.store.cassandra.settings import parse_settings

    settings = parse_settings(CassandraUrl((cassandra.address,), KEYSPACE), {})
    session = Session(settings, read_only=False, timeout=60, lock=LockTimes())
    yield session
    asyncio.run(session.close())


@pytest.fixture
def clean_cassandra_url(cassandra_session: "Session") -> Iterator[str]:
    """The url of the shared keyspace, with no row of any topic; the test leaves none."""
    clean(cassandra_session.link, KEYSPACE)
    yield cassandra_session.name
    clean(cassandra_session.link, KEYSPACE)


def clean(link: "Link", keyspace: str) -> None:
    """Delete all rows of all topics.

    Truncating takes a quarter of a second a table. A topic that is bound later has later write times than these.
    """
    for table, keys in TABLES.items():
        names = ", ".join(keys)
        where = " AND ".join(f"{key} = ?" for key in keys)
        delete = link.prepare(f"DELETE FROM {keyspace}.{table} USING TIMESTAMP ? WHERE {where}")
        for row in link.run(f"SELECT DISTINCT {names} FROM {keyspace}.{table}"):
            if table == "setting" and not row[0].startswith("cordwood/"):
                continue
            link.run_bound(delete.bind((time.time_ns() // 1000, *row)))


def rows_with(link: "Link", keyspace: str, topic: str, id: str) -> list[list[str | bytes]]:
    """Every row of every table that has the topic and the id in any column."""
    found = []
    for table in TABLES:
        for row in link.run(f"SELECT * FROM {keyspace}.{table}"):
            # A map of the driver is equal to nothing but maps: it raises.
            texts = [value for value in row if isinstance(value, str | bytes)]
            if topic in texts and (id in texts or id.encode() in texts):
                found.append(texts)
    return found
