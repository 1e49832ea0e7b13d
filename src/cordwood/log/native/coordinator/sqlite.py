"""The coordinator in one SQLite file: for a folder, and for a single coordinator process.

SQLite checks its own log of changes, but treats a damaged one as one that ends earlier; it does not check its pages. So
every change also stores the number of changes and a sum of all rows: an open reads all rows, and compares (R1).

Lock: `_lock` is held for a whole transaction, which waits for the disk.
"""

import fcntl
import json
import os
import secrets
import sqlite3
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from cordwood.errors import Conflict, CordwoodError, Corrupt, Fenced, InvalidInput, NotFound, Reason, Unavailable
from cordwood.locks import new_lock
from cordwood.log.topics import TopicConfig, checked_topic_name

from .interface import LogRow, Stamp, TopicRow

WAL_BYTES = 512 * 1024
"""The space reserved for SQLite's own log of changes while the database is open.

It is about 30 times the size of a trim, and as much again for a checkpoint that finds no room.
"""

_FORMAT = 3
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
CREATE TABLE stamp (
  one INTEGER PRIMARY KEY CHECK (one = 1), changes INTEGER NOT NULL, rows INTEGER NOT NULL, digest INTEGER NOT NULL,
  checksum INTEGER NOT NULL);
"""
# How many of its statements each format has.
_STATEMENTS = {0: 0, 1: 4, 2: 6, _FORMAT: 7}
# A published id has 32 bits: that leaves two thousand million topics to be created.
_IDS_FROM = 2**31
# Half of the reserved space: a commit writes pages of 4 KiB and a little.
_CHECKPOINT_PAGES = WAL_BYTES // 2 // 4200

# The columns that the digest covers. A plan has a checksum of its own, so that an operator may give it up.
_COLUMNS = {
    "topic": "id, name, partitions, replication, retention_ms, retention_bytes",
    "log": "topic_id, partition, start, next_offset",
    "plan": "one",
    "sink": "id, batch",
    "owner": "one, epoch, metadata_plog",
    "sqlite_sequence": "name, seq",
    "sqlite_master": "type, name, tbl_name, sql",
}
_COUNTED = ("topic", "log", "plan", "sink")
_NEVER_CHANGED = Stamp(0, 0, 0)

# SQLite's codes for errors that may pass by the next try. All others are damage: no statement here is wrong.
_PASSING = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
}
# Where SQLite locks a database that it uses: see its file os.h. A lock of the open file conflicts with its own.
_SHARED_FIRST, _SHARED_SIZE = 0x40000002, 510
_FLOCK = struct.Struct("hhqqi4x")


class _Part(NamedTuple):
    """Rows of a table: all of them, or those `where`."""

    table: str
    where: str = "1"
    values: Sequence[int | str] = ()


_ALL = [_Part(table) for table in _COLUMNS]
_OWNER = _Part("owner")


def _believe(stamp: Stamp) -> None:
    """Accept any stamp: there is no witness."""


class SqliteCoordinator:
    """Usable from every thread; calls take turns. R2: `synchronous=FULL`, so a commit survives a power cut."""

    def __init__(self, path: Path, check: Callable[[Stamp], None] = _believe) -> None:
        """`check` gets the stored stamp, and may raise `Corrupt`. Until it returns, the files stay unchanged."""
        self._path = path
        self._lock = new_lock("coordinator")
        self._closed = False
        try:
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=5)
        except sqlite3.Error as error:
            raise _translate(error, path) from error
        try:
            check(self._look())
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
            self._prepare()
            self._reserve()
        except BaseException as error:
            self._close_as_it_is()
            if isinstance(error, sqlite3.Error):
                raise _translate(error, path) from error
            raise

    def _look(self) -> Stamp:
        """Read all of it, before anything is written; `Corrupt` if it differs from the committed state."""
        try:
            self._db.execute("BEGIN")
            stamp = self._checked()
            self._db.execute("COMMIT")
        except CordwoodError:
            raise
        except sqlite3.Error as error:
            raise _translate(error, self._path) from error
        except (ValueError, TypeError) as error:
            # Decoding failed: invalid text, also in SQLite's own messages, or a value of another type.
            raise _damaged(self._path, str(error)) from error
        return stamp

    def _checked(self) -> Stamp:
        version = self._version()
        if version not in _STATEMENTS:
            raise Corrupt(
                f"{self._path} has format {version}; this version of cordwood reads format {_FORMAT}:"
                " use the one that wrote it, or a newer one; if this one wrote it, restore the folder from a copy"
            )
        found = self._db.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise _damaged(self._path, str(found))
        if version == 0:
            if self._db.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise _damaged(self._path, "it has tables, but no format")
            return _NEVER_CHANGED
        self._check_rows()
        if version < _FORMAT:
            return _NEVER_CHANGED
        stamp = self._stored_stamp()
        rows, digest = self._sum(_ALL)
        if (stamp.rows, stamp.digest) != (rows, digest):
            raise _damaged(
                self._path, f"its {rows} rows have the sum {digest:x}, not {stamp.digest:x} of {stamp.rows} rows"
            )
        return stamp

    def _check_rows(self) -> None:
        """Check the rules for all rows, independent of their sum: an older format has no sum."""
        topics = {row.id: row for row in self._topics()}
        (last_id,) = self._db.execute("SELECT max(seq) FROM sqlite_sequence WHERE name = 'topic'").fetchone()
        for topic in topics.values():
            try:
                checked_topic_name(topic.name)
            except InvalidInput as error:
                raise _damaged(self._path, str(error)) from error
            if not 0 < topic.id <= last_id or topic.partitions < 1 or topic.replication < 1:
                raise _damaged(self._path, f"{topic} cannot be: the last id is {last_id}")
        for log in self._logs():
            if log.topic_id in topics and not 0 <= log.partition < topics[log.topic_id].partitions:
                raise _damaged(self._path, f"{log} cannot be: {topics[log.topic_id]}")
            if not 0 <= log.start <= log.next_offset:
                raise _damaged(self._path, f"{log} cannot be: it begins after its end")

    def _sum(self, parts: Sequence[_Part]) -> tuple[int, int]:
        """The number and the digest of these rows."""
        rows = digest = 0
        for table, where, values in parts:
            for row in self._db.execute(f"SELECT {_COLUMNS[table]} FROM {table} WHERE {where}", values):
                rows += table in _COUNTED
                digest ^= _hashed(table, row)
        return rows, digest

    def _stored_stamp(self) -> Stamp:
        (*stamp, checksum) = self._db.execute("SELECT changes, rows, digest, checksum FROM stamp").fetchone()
        if checksum != _hashed("stamp", stamp):
            raise _damaged(self._path, f"the stamp {stamp} has another checksum than {checksum:x}")
        return Stamp(*stamp)

    def _put_stamp(self, stamp: Stamp) -> None:
        self._db.execute("INSERT OR REPLACE INTO stamp VALUES (1, ?, ?, ?, ?)", (*stamp, _hashed("stamp", stamp)))

    def _version(self) -> int:
        version: int = self._db.execute("PRAGMA user_version").fetchone()[0]
        return version

    def _prepare(self) -> None:
        version = self._version()
        if version == _FORMAT:
            return
        with self._transaction():
            for statement in _SCHEMA.split(";\n")[_STATEMENTS[version] :]:
                self._db.execute(statement)
            if version == 0:
                # If a folder is removed and created again, its topics get other ids, so a caller with an old id
                # notices.
                self._db.execute("INSERT INTO sqlite_sequence VALUES ('topic', ?)", (secrets.randbelow(_IDS_FROM),))
            self._db.execute(f"PRAGMA user_version={_FORMAT}")
            self._put_stamp(Stamp(1, *self._sum(_ALL)))

    def _reserve(self) -> None:
        """A trim and a delete must be possible on a full disk, since they make room on it."""
        self._db.execute("PRAGMA wal_checkpoint(RESTART)")
        file = os.open(f"{self._path}-wal", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.posix_fallocate(file, 0, WAL_BYTES)
        except OSError:
            pass  # no room any more; the next change will raise
        finally:
            os.close(file)

    def _close_as_it_is(self) -> None:
        """Close without SQLite's last-close work, which would delete a log of changes that it could not read."""
        with suppress(OSError):
            file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                with suppress(OSError):
                    lock = _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, _SHARED_FIRST, _SHARED_SIZE, 0)
                    fcntl.fcntl(file, fcntl.F_OFD_SETLK, lock)
                self._db.close()
            finally:
                # Not earlier: this process would lose SQLite's locks.
                os.close(file)
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._closed:
                raise Unavailable(f"{self._path} is closed: connect again", outcome="not_written", reason="closed")
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield self._db
                self._db.execute("COMMIT")
            except sqlite3.Error as error:
                self._roll_back()
                raise _translate(error, self._path) from error
            except UnicodeError as error:
                self._roll_back()
                raise _damaged(self._path, str(error)) from error
            except BaseException:
                self._roll_back()
                raise

    @contextmanager
    def _change(self, *parts: _Part) -> Iterator[sqlite3.Connection]:
        """A transaction that changes no other rows than these."""
        with self._transaction() as db:
            stamp = self._stored_stamp()
            rows_before, digest_before = self._sum(parts)
            yield db
            rows, digest = self._sum(parts)
            self._put_stamp(
                Stamp(stamp.changes + 1, stamp.rows - rows_before + rows, stamp.digest ^ digest_before ^ digest)
            )

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def stamp(self) -> Stamp:
        with self._transaction():
            return self._stored_stamp()

    def take_over(self) -> int:
        with self._change(_OWNER) as db:
            epoch: int = db.execute("UPDATE owner SET epoch = epoch + 1 RETURNING epoch").fetchone()[0]
            return epoch

    def create_topic(self, name: str, config: TopicConfig) -> TopicRow:
        with self._change(_Part("topic", "name = ?", (name,)), _Part("sqlite_sequence")) as db:
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
        with self._change(_Part("topic", "id = ?", (row.id,))) as db:
            limits = (row.retention_ms, row.retention_bytes, row.id)
            if not db.execute("UPDATE topic SET retention_ms = ?, retention_bytes = ? WHERE id = ?", limits).rowcount:
                raise NotFound(f"no topic has the id {row.id}")

    def delete_topic(self, id: int) -> None:
        with self._change(_Part("topic", "id = ?", (id,)), _Part("log", "topic_id = ?", (id,))) as db:
            if not db.execute("DELETE FROM topic WHERE id = ?", (id,)).rowcount:
                raise NotFound(f"no topic has the id {id}")
            db.execute("DELETE FROM log WHERE topic_id = ?", (id,))

    def topics(self) -> list[TopicRow]:
        with self._transaction():
            return self._topics()

    def _topics(self) -> list[TopicRow]:
        return [TopicRow(*row) for row in self._db.execute(f"SELECT {_COLUMNS['topic']} FROM topic ORDER BY name")]

    def logs(self) -> list[LogRow]:
        with self._transaction():
            return self._logs()

    def _logs(self) -> list[LogRow]:
        return [LogRow(*row) for row in self._db.execute(f"SELECT {_COLUMNS['log']} FROM log")]

    def trim(self, topic_id: int, partition: int, start: int, next_offset: int) -> None:
        with self._change(_Part("log", "topic_id = ? AND partition = ?", (topic_id, partition))) as db:
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
        with self._change(_OWNER) as db:
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
        with self._change(_Part("plan")) as db:
            if db.execute("SELECT 1 FROM plan").fetchone():
                raise Conflict(f"{self._path} has a commit that is not finished yet")
            db.execute("INSERT INTO plan VALUES (1, ?)", (plan,))

    def finish(self, sink: str, batch: int | None) -> None:
        with self._change(_Part("plan"), _Part("sink", "id = ?", (sink,))) as db:
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


def _reason_of(code: int) -> Reason:
    # An extended code has the primary one in its lowest byte.
    return _REASONS.get(code & 0xFF, "failed")


def _hashed(table: str, row: Sequence[Any]) -> int:
    """64 bits of a row and its table, as SQLite keeps them. A value that is no number and no text is a TypeError."""
    text = json.dumps([table, *row])
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def _damaged(path: Path, reason: str) -> Corrupt:
    reason = " ".join(reason.split())  # SQLite's reports have several lines
    return Corrupt(f"{path}: {reason}; restore the folder from a copy, or read it with read_only=True")


def _translate(error: sqlite3.Error, path: Path) -> CordwoodError:
    # An error of Python's own, for example of decoding, has no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    passing = code & 0xFF in _PASSING and code != sqlite3.SQLITE_IOERR_SHORT_READ
    if code & 0xFF == sqlite3.SQLITE_READONLY:
        # A database that claims to be read-only, though its file is writable, is damaged.
        passing = not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))
    if passing:
        return Unavailable(
            f"{path}: {error}; check that the disk has room and the folder may be written", reason=_reason_of(code)
        )
    return _damaged(path, str(error))
