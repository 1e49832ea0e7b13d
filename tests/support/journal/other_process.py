"""A program that uses the store of a journal whose log another process writes; at one point it may stop itself.

replicate TOPIC: replicates until it is killed.       opened
catch_up TOPIC: replicates to the end.                opened | done | failed <error>
snapshot TOPIC: saves a snapshot of A at 1.           opened | done | failed <error>
"""

import asyncio
import os
import signal
import sqlite3
import sys

import cordwood
from cordwood import CordwoodError
from cordwood.journal import Journal
from cordwood.journal.opening import journal_config
from cordwood.store import EventStore, PartitionChanges, SnapshotGuard, SnapshotRow
from cordwood.store.cassandra import store as cassandra_store
from cordwood.store.cassandra.session import Call
from cordwood.store.sqlite import writing
from cordwood.store.sqlite.store import SqliteStore, open_sqlite
from cordwood.store.url import SqliteUrl, parse_store_url
from cordwood.url import parse_url
from tests.support.crash.traced_values import say

POINTS = ("before its write", "inside its transaction", "amid its statements", "never")


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def write_and_stop(db: sqlite3.Connection, changes: PartitionChanges, now: int) -> bool:
    written = writing.write(db, changes, now)
    stop()
    return written


class Pausing(EventStore):
    """A store that stops its process once, at a point."""

    point = "never"

    async def write(self, changes: PartitionChanges) -> bool:
        point, self.point = self.point, "never"
        if point == "inside its transaction":
            assert isinstance(self, SqliteStore)
            return await self._session.write(write_and_stop, changes, 1)
        if point == "amid its statements":
            stop_amid()
        if point == "before its write":
            stop()
        return await super().write(changes)  # type: ignore[safe-super]  # of the store that it is mixed into

    async def save_snapshot(
        self, topic: str, id: str, snapshot: SnapshotRow, newest: int, guard: SnapshotGuard
    ) -> bool:
        point, self.point = self.point, "never"
        if point == "before its write":
            stop()
        return await super().save_snapshot(topic, id, snapshot, newest, guard)  # type: ignore[safe-super]


class PausingSqlite(Pausing, SqliteStore):
    """On SQLite."""


class PausingCassandra(Pausing, cassandra_store.CassandraStore):
    """On Cassandra."""


def stop_amid() -> None:
    """Stop between the event rows and the head rows of the next batch."""
    send_all = Call.send_all
    steps = 0

    async def counting(self: Call, *args: object) -> None:
        nonlocal steps
        steps += 1
        if steps == 5:  # letters, hidden rows, tombstones, event rows, head rows
            stop()
        await send_all(self, *args)  # type: ignore[arg-type]

    Call.send_all = counting  # type: ignore[assignment,method-assign]


async def open_pausing(store_url: str) -> Pausing:
    url = parse_store_url(store_url)
    if isinstance(url, SqliteUrl):
        return PausingSqlite(url, (await open_sqlite(url))._session)
    return PausingCassandra(url, (await cassandra_store.open_cassandra(url, {}))._session)


async def main(log_url: str, store_url: str, what: str, topic: str, segment_size: str, point: str) -> None:
    store = await open_pausing(store_url)
    store.point = point
    async with cordwood.connect(log_url, read_only=True) as cw:
        config = journal_config(
            parse_url(log_url),
            store=store_url,
            store_config={},
            partitions=1,
            fence="watermark",
            replicate=what == "replicate",
            single_writer=False,
            keep=None,
            segment_size=int(segment_size),
            head_bytes_max=1 << 20,
            read_only=False,
        )
        # It writes the store alone: the log has another writer.
        journal = Journal(
            cw._engine, topic, config, timeout=30, read_only=False, check=lambda: None, on_open=cw._journals.add
        )
        journal._store = store
        await journal._open()
        say("opened")
        try:
            if what == "replicate":
                await asyncio.Event().wait()
            elif what == "catch_up":
                await journal.catch_up()
            else:
                await journal.save_snapshot("A", 1, b"late")
        except CordwoodError as error:
            say("failed", type(error).__name__)
        else:
            say("done")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
