"""The coordinator in one SQLite file: for a folder, and for a single coordinator process."""

import os
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path

from cordwood.errors import Conflict, CordwoodError, Corrupt, Fenced, NotFound, Reason, Unavailable
from cordwood.log.topics import TopicConfig

from .interface import LogRow, TopicRow

WAL_BYTES = 512 * 1024
"""Reserved for SQLite's own log of changes while the database is open: about 30 times what a trim writes, and as much
again for a checkpoint that finds no room."""

_FORMAT = 2
_SCHEMA = """
CREATE TABLE topic (
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, partitions INTEGER NOT NULL,
  replication INTEGER NOT NULL, retention_ms INTEGER, retention_bytes INTEGER);
CREATE TABLE log (
  topic_id INTEGER NOT NULL, partition INTEGER NOT NULL, start INTEGER NOT NULL, next_offset INTEGER NOT NULL,
  PRIMARY KEY (topic_id, partition)) WITHOUT ROWID;
CREATE TABLE owner (one INTEGER PRIMARY KEY CHECK (one = 1), epoch INTEGER NOT NULL, metadata_plog TEXT);
INSERT INTO owner VALUES (1, 0, NULL);
CREATE TABLE plan (one INTEGER PRIMARY KEY CHECK (one = 1), plan TEXT NOT NULL);
CREATE TABLE sink (id TEXT PRIMARY KEY, batch INTEGER NOT NULL) WITHOUT ROWID;
"""
# An id has 32 bits where it is published: that leaves two thousand million topics to be made.
_IDS_FROM = 2**31
# Half of what is reserved: a commit goes by pages of 4 KiB and a little.
_CHECKPOINT_PAGES = WAL_BYTES // 2 // 4200
# What format 1 has of it.
_STATEMENTS_OF_1 = 4


class SqliteCoordinator:
    """Usable from every thread; calls take turns. R2: `synchronous=FULL`, so a commit survives a power cut."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._closed = False
        try:
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=5)
        except sqlite3.DatabaseError as error:
            raise _translate(error, path) from error
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
            self._prepare()
            self._reserve()
        except BaseException as error:
            self._db.close()
            if isinstance(error, sqlite3.DatabaseError):
                raise _translate(error, path) from error
            raise

    def _prepare(self) -> None:
        with self._transaction():
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version in (0, 1):
                for statement in _SCHEMA.split(";\n")[version * _STATEMENTS_OF_1 :]:
                    self._db.execute(statement)
                if version == 0:
                    # Topics of a folder that was removed and made anew have other ids: who remembers one notices.
                    self._db.execute("INSERT INTO sqlite_sequence VALUES ('topic', ?)", (secrets.randbelow(_IDS_FROM),))
                self._db.execute(f"PRAGMA user_version={_FORMAT}")
            elif version != _FORMAT:
                raise Corrupt(
                    f"{self._path} has format {version}; this version of cordwood reads format {_FORMAT}:"
                    " use the one that wrote it, or a newer one"
                )

    def _reserve(self) -> None:
        """A trim and a delete must be possible on a full disk, since it is they that make room on it."""
        self._db.execute("PRAGMA wal_checkpoint(RESTART)")
        file = os.open(f"{self._path}-wal", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.posix_fallocate(file, 0, WAL_BYTES)
        except OSError:
            pass  # no room any more; what is asked of it will say so
        finally:
            os.close(file)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._closed:
                raise Unavailable(f"{self._path} is closed: connect again", outcome="not_written", reason="closed")
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield self._db
                self._db.execute("COMMIT")
            except sqlite3.DatabaseError as error:
                self._roll_back()
                raise _translate(error, self._path) from error
            except BaseException:
                self._roll_back()
                raise

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def take_over(self) -> int:
        with self._transaction() as db:
            epoch: int = db.execute("UPDATE owner SET epoch = epoch + 1 RETURNING epoch").fetchone()[0]
            return epoch

    def create_topic(self, name: str, config: TopicConfig) -> TopicRow:
        with self._transaction() as db:
            if db.execute("SELECT 1 FROM topic WHERE name = ?", (name,)).fetchone():
                raise Conflict(f"topic {name!r} exists already; pass exist_ok=True to use it as it is")
            _, *columns = astuple(TopicRow.new(0, name, config))
            row = db.execute(
                "INSERT INTO topic (name, partitions, replication, retention_ms, retention_bytes)"
                " VALUES (?, ?, ?, ?, ?) RETURNING id",
                columns,
            ).fetchone()
            return TopicRow(row[0], *columns)

    def alter_topic(self, row: TopicRow) -> None:
        with self._transaction() as db:
            limits = (row.retention_ms, row.retention_bytes, row.id)
            if not db.execute("UPDATE topic SET retention_ms = ?, retention_bytes = ? WHERE id = ?", limits).rowcount:
                raise NotFound(f"no topic has the id {row.id}")

    def delete_topic(self, id: int) -> None:
        with self._transaction() as db:
            if not db.execute("DELETE FROM topic WHERE id = ?", (id,)).rowcount:
                raise NotFound(f"no topic has the id {id}")
            db.execute("DELETE FROM log WHERE topic_id = ?", (id,))

    def topics(self) -> list[TopicRow]:
        with self._transaction() as db:
            rows = db.execute(
                "SELECT id, name, partitions, replication, retention_ms, retention_bytes FROM topic ORDER BY name"
            )
            return [TopicRow(*row) for row in rows]

    def logs(self) -> list[LogRow]:
        with self._transaction() as db:
            return [LogRow(*row) for row in db.execute("SELECT topic_id, partition, start, next_offset FROM log")]

    def trim(self, topic_id: int, partition: int, start: int, next_offset: int) -> None:
        with self._transaction() as db:
            if not db.execute("SELECT 1 FROM topic WHERE id = ?", (topic_id,)).fetchone():
                raise NotFound(f"no topic has the id {topic_id}")
            db.execute(
                "INSERT INTO log VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
                " start = max(start, excluded.start), next_offset = max(next_offset, excluded.next_offset)",
                (topic_id, partition, start, next_offset),
            )

    def metadata_plog(self) -> str | None:
        with self._transaction() as db:
            id: str | None = db.execute("SELECT metadata_plog FROM owner").fetchone()[0]
            return id

    def set_metadata_plog(self, epoch: int, expected: str | None, id: str) -> None:
        with self._transaction() as db:
            changed = db.execute(
                "UPDATE owner SET metadata_plog = ? WHERE epoch = ? AND metadata_plog IS ?",
                (id, epoch, expected),
            ).rowcount
            if not changed:
                raise Fenced(f"epoch {epoch} no longer owns {self._path.parent}: another process took it over")

    def plan(self) -> str | None:
        with self._transaction() as db:
            row = db.execute("SELECT plan FROM plan").fetchone()
            return None if row is None else str(row[0])

    def decide(self, plan: str) -> None:
        with self._transaction() as db:
            if db.execute("SELECT 1 FROM plan").fetchone():
                raise Conflict(f"{self._path} has a commit that is not finished yet")
            db.execute("INSERT INTO plan VALUES (1, ?)", (plan,))

    def finish(self, sink: str, batch: int | None) -> None:
        with self._transaction() as db:
            db.execute("DELETE FROM plan")
            if batch is not None:
                db.execute(
                    "INSERT INTO sink VALUES (?, ?) ON CONFLICT DO UPDATE SET batch = max(batch, excluded.batch)",
                    (sink, batch),
                )

    def sink_batch(self, sink: str) -> int | None:
        with self._transaction() as db:
            row = db.execute("SELECT batch FROM sink WHERE id = ?", (sink,)).fetchone()
            return None if row is None else int(row[0])

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._db.close()


_REASONS: Mapping[int, Reason] = {
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_READONLY: "permission",
    sqlite3.SQLITE_CANTOPEN: "permission",
    sqlite3.SQLITE_PERM: "permission",
    sqlite3.SQLITE_BUSY: "busy",
}


def _reason_of(error: sqlite3.OperationalError) -> Reason:
    # An extended code has the primary one in its lowest byte; errors of the module itself have none.
    return _REASONS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, "failed")


def _translate(error: sqlite3.DatabaseError, path: Path) -> CordwoodError:
    if isinstance(error, sqlite3.OperationalError):
        return Unavailable(
            f"{path}: {error}; check that the disk has room and the folder may be written", reason=_reason_of(error)
        )
    return Corrupt(f"{path}: {error}; restore the folder from a copy, or read it with read_only=True")
