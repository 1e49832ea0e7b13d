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
OTHER_KEYSPACE = "rebuilt"

TABLES = {
    "journal": ("id", "topic", "segment"),
    "metajournal": ("topic", "segment"),
    "pointer2": ("topic", "partition"),
    "setting": ("key",),
    "cordwood_snapshot": ("topic", "id"),
    "cordwood_dead_letter": ("topic", "partition"),
}
"""The tables with rows of topics, and their partition keys."""


class Keyspaces:
    """The keyspaces of one node that its tests share, each made at its first use."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._sessions: dict[str, Session] = {}

    def session(self, keyspace: str) -> "Session":
        """An open keyspace."""
        # The driver is loaded where it is used: it takes a moment.
        from cordwood.store.cassandra.schema import LockTimes
        from cordwood.store.cassandra.session import Session
        from cordwood.store.cassandra.settings import parse_settings

        found = self._sessions.get(keyspace)
        if found is None:
            settings = parse_settings(CassandraUrl((self._node.address,), keyspace), {})
            found = Session(settings, read_only=False, timeout=60, lock=LockTimes())
            self._sessions[keyspace] = found
        return found

    @property
    def url(self) -> str:
        """The url of the keyspace of the test."""
        return self.session(KEYSPACE).name

    @property
    def link(self) -> "Link":
        """Connections to look at all tables."""
        return self.session(KEYSPACE).link

    def other_url(self) -> str:
        """The url of another keyspace, without a row."""
        session = self.session(OTHER_KEYSPACE)
        clean(session.link, OTHER_KEYSPACE)
        return session.name

    def clean(self) -> None:
        """Delete the rows of the test."""
        clean(self.link, KEYSPACE)

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()


@pytest.fixture(scope="session")
def keyspaces(cassandra: Node) -> Iterator[Keyspaces]:
    """The keyspaces of the node of this process."""
    keyspaces = Keyspaces(cassandra)
    yield keyspaces
    asyncio.run(keyspaces.close())


@pytest.fixture
def clean_keyspaces(keyspaces: Keyspaces) -> Iterator[Keyspaces]:
    """The keyspaces, with no row of any topic; the test leaves none."""
    keyspaces.clean()
    yield keyspaces
    keyspaces.clean()


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
