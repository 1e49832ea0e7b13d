"""One connection to a SQLite file, with the settings that all of them have."""

import sqlite3
from datetime import date
from pathlib import Path
from typing import Literal

import msgspec

from .errors import Damage

Mode = Literal["rwc", "ro"]


def connect(path: Path, mode: Mode, seconds: float) -> sqlite3.Connection:
    """A connection that any thread may use, one at a time; it waits so many seconds for a lock."""
    return sqlite3.connect(
        f"{path.as_uri()}?mode={mode}",
        uri=True,
        timeout=seconds,
        isolation_level=None,
        check_same_thread=False,
        detect_types=sqlite3.PARSE_COLNAMES,
    )


def set_up_reader(db: sqlite3.Connection) -> None:
    """Settings of a connection that only reads."""
    db.execute("PRAGMA cell_size_check=ON")
    db.execute("PRAGMA cache_size=-4096")  # KiB


def set_up_writer(db: sqlite3.Connection) -> None:
    """Settings of the connection that writes: an ack means that SQLite has synced its log of changes."""
    db.execute("PRAGMA synchronous=FULL")
    db.execute("PRAGMA cell_size_check=ON")
    db.execute("PRAGMA cache_size=-16384")  # KiB
    # Else the free space of a page keeps older rows, whole and with their checksums, for a damaged page to point at.
    db.execute("PRAGMA secure_delete=FAST")
    db.execute(f"PRAGMA journal_size_limit={64 << 20}")


def _decode_day(text: bytes) -> date:
    try:
        return date.fromisoformat(text.decode())
    except ValueError:
        raise Damage(f"{text!r} is no day") from None


# SQLite's library calls them for the columns that name them, and only for values that are not null.
sqlite3.register_converter("cordwood_tags", msgspec.json.Decoder(tuple[str, ...]).decode)
sqlite3.register_converter("cordwood_headers", msgspec.json.Decoder(dict[str, str]).decode)
sqlite3.register_converter("cordwood_day", _decode_day)
