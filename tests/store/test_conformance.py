import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cordwood.store import EventStore
from cordwood.testing import EventStoreConformance
from tests.support.store.keyspaces import Keyspaces, rows_with


class TestSqlite(EventStoreConformance):
    @pytest.fixture
    def url(self, tmp_path: Path) -> Iterator[str]:
        self.path = tmp_path / "store.db"
        yield f"sqlite:{self.path}"
        with closing(sqlite3.connect(self.path)) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

    async def traces(self, store: EventStore, topic: str, id: str) -> list[object]:
        """Every row of every table that has the id in any column."""
        with closing(sqlite3.connect(self.path)) as db:
            tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            rows = [row for table in tables for row in db.execute(f"SELECT * FROM {table}")]
        return [row for row in rows if id in row or id.encode() in row]


@pytest.mark.timeout(300)  # a hundred scans of a server
class TestCassandra(EventStoreConformance):
    guarded = False

    @pytest.fixture
    def url(self, keyspaces: Keyspaces, request: pytest.FixtureRequest) -> Iterator[str]:
        # Of its own: other tests expect theirs to be clean.
        session = keyspaces.session("conformance")
        self.link = session.link
        yield session.name
        if "many" in request.fixturenames:
            # Scans read the keys of all topics: thousands of one test would slow the next one down.
            for table in ("journal", "metajournal"):
                self.link.run(f"TRUNCATE conformance.{table}")

    async def traces(self, store: EventStore, topic: str, id: str) -> list[object]:
        """Every row of every table that has the id in any column."""
        return list(rows_with(self.link, "conformance", topic, id))
