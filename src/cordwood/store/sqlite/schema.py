"""The tables of a store, their version, and how a file gets them.

A new file gets all tables in one transaction before it changes to WAL mode. So the main file of a store has its
`application_id` from its first byte on, and a file without it is not a store.
"""

import os
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from cordwood.errors import Corrupt, NotFound, Unavailable

from .connection import connect
from .errors import code_of, damaged, is_busy
from .wal_file import check_wal

APPLICATION_ID: Final = 0x43776473
"""`Cwds`, in the header of every store."""

PAGE_BYTES: Final = 8192
"""With SQLite's 4,096, rows of 1 KiB spill to overflow pages: a quarter of the speed, four times the size."""

# The columns of the first four are those of the Scala library. Times are milliseconds UTC, days ISO texts, durations
# nanoseconds, sets and maps JSON. The payload comes last: SQLite walks through a long column to reach a later one.
_TABLES = """
CREATE TABLE journal (
  topic TEXT NOT NULL, id TEXT NOT NULL, seq_nr INTEGER NOT NULL, timestamp INTEGER NOT NULL, segment INTEGER NOT NULL,
  partition INTEGER NOT NULL, offset INTEGER NOT NULL, origin TEXT, version TEXT, meta_record_id TEXT, tags TEXT,
  headers TEXT, metadata TEXT, payload_type TEXT, payload_txt TEXT, payload_bin BLOB,
  PRIMARY KEY (topic, id, seq_nr, timestamp)) WITHOUT ROWID;
CREATE TABLE metajournal (
  topic TEXT NOT NULL, id TEXT NOT NULL, segment INTEGER NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL,
  segment_size INTEGER NOT NULL, seq_nr INTEGER NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL,
  delete_to INTEGER, record_id TEXT, expire_after INTEGER, expire_on TEXT, origin TEXT, append_id TEXT,
  closed_partition INTEGER, closed_offset INTEGER, created_date TEXT, properties TEXT, metadata TEXT,
  PRIMARY KEY (topic, id)) WITHOUT ROWID;
CREATE INDEX metajournal_created_date_idx ON metajournal (topic, created_date);
CREATE INDEX metajournal_expire_on_idx ON metajournal (topic, expire_on) WHERE expire_on IS NOT NULL;
CREATE TABLE pointer2 (
  topic TEXT NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL, created INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  PRIMARY KEY (topic, partition)) WITHOUT ROWID;
CREATE TABLE setting (
  key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL, timestamp INTEGER NOT NULL, origin TEXT, metadata TEXT
  ) WITHOUT ROWID;
CREATE TABLE cordwood_snapshot (
  topic TEXT NOT NULL, id TEXT NOT NULL, life TEXT NOT NULL, seq_nr INTEGER NOT NULL, partition INTEGER NOT NULL,
  offset INTEGER NOT NULL, timestamp INTEGER NOT NULL, payload BLOB NOT NULL, metadata TEXT,
  PRIMARY KEY (topic, id, life, seq_nr)) WITHOUT ROWID;
CREATE TABLE cordwood_dead_letter (
  topic TEXT NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL, through INTEGER, id TEXT,
  reason TEXT NOT NULL, timestamp INTEGER NOT NULL, key BLOB, header BLOB, value BLOB, skipped INTEGER,
  PRIMARY KEY (topic, partition, offset)) WITHOUT ROWID;
CREATE INDEX cordwood_dead_letter_id_idx ON cordwood_dead_letter (topic, id) WHERE id IS NOT NULL;
"""

# A row's checksum, null for a row of version 1. What has `copy` in its name is a second tree with the keys of a table:
# damage of one page, which can hide rows, never hides them in both. The index that it drops was never read.
_LEASES_AND_CHECKSUMS = """
CREATE TABLE cordwood_lease (
  topic TEXT NOT NULL, partition INTEGER NOT NULL, owner TEXT NOT NULL, until INTEGER NOT NULL, crc INTEGER,
  PRIMARY KEY (topic, partition)) WITHOUT ROWID;
ALTER TABLE journal ADD COLUMN crc INTEGER;
ALTER TABLE metajournal ADD COLUMN crc INTEGER;
ALTER TABLE pointer2 ADD COLUMN crc INTEGER;
ALTER TABLE setting ADD COLUMN crc INTEGER;
ALTER TABLE cordwood_snapshot ADD COLUMN crc INTEGER;
ALTER TABLE cordwood_dead_letter ADD COLUMN crc INTEGER;
DROP INDEX metajournal_created_date_idx;
CREATE INDEX metajournal_copy_idx ON metajournal (topic, id);
CREATE INDEX metajournal_expire_on_copy_idx ON metajournal (topic, expire_on) WHERE expire_on IS NOT NULL;
CREATE INDEX pointer2_copy_idx ON pointer2 (topic, partition);
CREATE INDEX setting_copy_idx ON setting (key);
CREATE INDEX cordwood_snapshot_copy_idx ON cordwood_snapshot (topic, id, life, seq_nr);
CREATE INDEX cordwood_dead_letter_copy_idx ON cordwood_dead_letter (topic, id, partition, offset);
"""

STEPS: Final[Sequence[str]] = (_TABLES, _LEASES_AND_CHECKSUMS)
"""How a store of each version becomes one of the next: a change of the schema adds a step, and changes no other."""


def prepare_for_writing(path: Path, seconds: float, steps: Sequence[str] = STEPS) -> sqlite3.Connection:
    """Open a store with a connection that may write; create it, or upgrade it in one transaction, where needed."""
    until = time.monotonic() + seconds
    if _size(path):
        _check_before_use(path, seconds)
    db = connect(path, "rwc", seconds)
    try:
        # It has an effect on a new file only.
        db.execute(f"PRAGMA page_size={PAGE_BYTES}")
        if _version(db) != len(steps) or _application(db) != APPLICATION_ID:
            _upgrade(db, path, steps)
        _check_form(db, path, steps)
        _turn_on_wal(db, path, until)
    except BaseException:
        db.close()
        raise
    return db


def prepare_for_reading(path: Path, seconds: float, steps: Sequence[str] = STEPS) -> sqlite3.Connection:
    """Open a store with a connection that cannot write; never upgrades."""
    if not _size(path):
        raise _no_store(path)
    try:
        db = connect(path, "ro", seconds)
        try:
            _check_readable(db, path, steps)
        except BaseException:
            db.close()
            raise
    except sqlite3.OperationalError as error:
        if code_of(error) == sqlite3.SQLITE_READONLY_ROLLBACK:  # a crash cut its creation short
            raise _no_store(path) from error
        if _is_refused(error) and os.access(path, os.R_OK) and not path.is_dir():
            raise _without_shared_memory(path, error) from error
        raise
    return db


def _no_store(path: Path) -> NotFound:
    return NotFound(f"{path}: there is no store here: check the path, or open it once for writing")


def _check_readable(db: sqlite3.Connection, path: Path, steps: Sequence[str]) -> None:
    _check_application(db, path)
    check_wal(path)
    version = _version(db)
    _check_not_newer(db, version, path, steps)
    if version < len(steps):
        raise Unavailable(
            f"{path} has schema version {version}, and this program reads {len(steps)}: open it once for writing",
            reason="version",
        )
    _check_form(db, path, steps)


def _without_shared_memory(path: Path, error: sqlite3.Error) -> Unavailable:
    return Unavailable(
        f"{path}: {error}: a reader needs SQLite's shared memory, {path}-shm, which cannot be created or written here:"
        " allow this user to write the folder, or keep a writer running",
        reason="permission",
    )


def _size(path: Path) -> int:
    """0 for a file that does not exist: either is a store that is still to be created."""
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}: check the rights on its folders", reason="permission") from error


def _check_before_use(path: Path, seconds: float) -> None:
    """Refuse a foreign file through a connection that changes nothing: the last one that may write would."""
    try:
        with closing(connect(path, "ro", seconds)) as db:
            _check_application(db, path)
            check_wal(path)
    except sqlite3.OperationalError as error:
        # A crash cut its creation short, for example: only a connection that may write can tell.
        if not _is_refused(error):
            raise


def _is_refused(error: sqlite3.Error) -> bool:
    """Whether SQLite cannot open or write a file that it needs."""
    return code_of(error) & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


def _check_application(db: sqlite3.Connection, path: Path) -> None:
    application = _application(db)
    if application != APPLICATION_ID:
        raise Corrupt(
            f"{path} is a SQLite file, but no store: its application_id is {application:#x}, not {APPLICATION_ID:#x}:"
            " name another path, or restore the file from a copy"
        )


def _check_not_newer(db: sqlite3.Connection, version: int, path: Path, steps: Sequence[str]) -> None:
    if version > len(steps):
        if any(_form(db) == _form_of(steps[:known]) for known in range(1, len(steps) + 1)):
            # Each version has tables of its own.
            raise damaged(path, f"its schema version is {version}, and its tables are those of an older one")
        raise Unavailable(
            f"{path} has schema version {version}, and this program knows {len(steps)}: use a newer cordwood",
            reason="version",
        )


def _check_form(db: sqlite3.Connection, path: Path, steps: Sequence[str]) -> None:
    """Hold the tables and indexes against those of the version: their text is data, too, and may be damaged."""
    found, expected = _form(db), _form_of(steps)
    for name, form in expected.items():
        if name not in found:
            raise damaged(path, f"the table or index {name} is missing")
        if found[name] != form:
            raise damaged(path, f"the table or index {name} is not what it was made as")
    roots = db.execute("SELECT rootpage FROM sqlite_master WHERE rootpage > 0").fetchall()
    if len(set(roots)) < len(roots):
        raise damaged(path, "two tables have the same place")


_Form: TypeAlias = Mapping[str, Sequence[object]]


def _form(db: sqlite3.Connection) -> _Form:
    """Every table and index with its columns. A program of others may have added more of them."""
    form: dict[str, Sequence[object]] = {}
    for kind, name in db.execute("SELECT type, name FROM sqlite_master").fetchall():
        if kind == "table":
            form[name] = db.execute("SELECT * FROM pragma_table_info(?)", (name,)).fetchall()
            for _, index, *settings in db.execute("SELECT * FROM pragma_index_list(?)", (name,)).fetchall():
                columns = db.execute("SELECT * FROM pragma_index_xinfo(?)", (index,)).fetchall()
                form[index] = [name, *settings, *columns]
    return form


def _form_of(steps: Sequence[str]) -> _Form:
    return _form_of_steps(tuple(steps))


@cache
def _form_of_steps(steps: tuple[str, ...]) -> _Form:
    with closing(sqlite3.connect(":memory:")) as db:
        for step in steps:
            db.executescript(step)
        return _form(db)


def _upgrade(db: sqlite3.Connection, path: Path, steps: Sequence[str]) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        # Only now: another process may have done it meanwhile.
        version = _version(db)
        if version or db.execute("SELECT 1 FROM sqlite_master").fetchone():
            _check_application(db, path)
        _check_not_newer(db, version, path, steps)
        for step in steps[version:]:
            for statement in step.split(";\n"):
                db.execute(statement)
        db.execute(f"PRAGMA application_id={APPLICATION_ID}")
        db.execute(f"PRAGMA user_version={len(steps)}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _turn_on_wal(db: sqlite3.Connection, path: Path, until: float) -> None:
    # SQLite does not always wait for the lock that this change needs: several creators may refuse each other.
    while True:
        try:
            (mode,) = db.execute("PRAGMA journal_mode=WAL").fetchone()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)
            continue
        if mode != "wal":
            raise Unavailable(
                f"{path}: SQLite has no WAL mode on this file system: keep the store on a local disk",
                reason="unsupported",
            )
        return


def _version(db: sqlite3.Connection) -> int:
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    return version


def _application(db: sqlite3.Connection) -> int:
    application: int = db.execute("PRAGMA application_id").fetchone()[0]
    return application
