"""The one place where an exception of SQLite, or of a value that it cannot take, becomes an error of Cordwood."""

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from cordwood.errors import CordwoodError, Corrupt, InvalidInput, NotFound, Reason, TooLarge, Unavailable

_REASONS: Final[Mapping[int, Reason]] = {
    sqlite3.SQLITE_BUSY: "busy",
    sqlite3.SQLITE_LOCKED: "busy",
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_PERM: "permission",
    sqlite3.SQLITE_READONLY: "permission",
    sqlite3.SQLITE_CANTOPEN: "permission",
    sqlite3.SQLITE_AUTH: "permission",
    sqlite3.SQLITE_IOERR: "failed",
    sqlite3.SQLITE_NOMEM: "failed",
    sqlite3.SQLITE_INTERRUPT: "failed",
    sqlite3.SQLITE_PROTOCOL: "failed",
    sqlite3.SQLITE_NOLFS: "failed",
}
"""The codes that say nothing about the bytes of the file. Any other is damage: no statement here is wrong."""

_REMEDIES: Final[Mapping[Reason, str]] = {
    "busy": "another program holds its write lock: let it finish, or stop it",
    "full": "the disk is full: make room",
    "permission": "check that this user may read and write the file and its folder",
    "failed": "check the disk, and try again",
}


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise the errors of the block as errors of Cordwood."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, path) from error
    except (msgspec.DecodeError, UnicodeDecodeError, Damage) as error:
        raise damaged(path, str(error)) from error
    except OverflowError as error:
        raise InvalidInput(f"{path}: a number is beyond 64 bits, which a store cannot keep: {error}") from error
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{path}: a text has a lone surrogate in it, which is no character: {error}") from error


class Damage(Exception):
    """What a row shows of damage: the statements raise it, who do not know the path of their file."""


def code_of(error: BaseException) -> int:
    """SQLite's extended code; an error of Python's own, for example of decoding, has none."""
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code


def is_busy(error: BaseException) -> bool:
    """Whether another connection held the lock for the whole time."""
    return code_of(error) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def translate(error: sqlite3.Error, path: Path) -> CordwoodError | TypeError:
    """The error to raise instead of one of SQLite's."""
    code = code_of(error)
    if isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError):
        return _of_a_value(error, path)
    if code & 0xFF == sqlite3.SQLITE_TOOBIG or isinstance(error, sqlite3.DataError):
        return TooLarge(f"{path}: {error}: a value in a store has at most 1 GB")
    if isinstance(error, sqlite3.IntegrityError):
        return InvalidInput(f"{path}: {error}: the row lacks a value")
    if code in (sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS):
        return damaged(path, str(error))
    if code == sqlite3.SQLITE_READONLY and os.access(path, os.W_OK):
        # No connection that may only read writes. To SQLite the file is one of a later version.
        return damaged(path, str(error))
    reason = _REASONS.get(code & 0xFF)
    if reason is None:
        return damaged(path, str(error))
    if code & 0xFF == sqlite3.SQLITE_CANTOPEN and not path.parent.is_dir():
        return NotFound(f"{path}: the folder {path.parent} does not exist: create it")
    if path.is_dir():
        return InvalidInput(f"{path} is a folder, and a store is a file: name another path")
    return Unavailable(f"{path}: {error}: {_REMEDIES[reason]}", reason=reason)


def damaged(path: Path, why: str) -> Corrupt:
    """The error for a file whose bytes are wrong."""
    why = " ".join(why.split())  # SQLite's reports have several lines
    return Corrupt(f"{path}: {why}: restore the file from a copy, or rebuild the store from its logs")


def _of_a_value(error: sqlite3.Error, path: Path) -> CordwoodError | TypeError:
    if "closed database" in str(error):
        return Unavailable(f"{path}: the store is closed: open it again", reason="closed")
    return TypeError(f"{path}: a value has the wrong type: {error}")
