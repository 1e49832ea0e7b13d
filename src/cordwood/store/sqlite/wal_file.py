"""Whether SQLite has lost transactions of its log of changes, `PATH-wal`, to damage.

SQLite takes the first frame with a wrong checksum for the end of the log, and drops the rest without a word. A crash
can leave such a frame, but only in the last transaction, since each one is synced before the next begins. So two
commits after it are damage. The layout of both files is SQLite's: https://sqlite.org/walformat.html.
"""

import os
import sqlite3
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

from .errors import Damage

_WAL_HEADER: Final = struct.Struct(">8I")
"""Magic, version, page size, checkpoints, two salts, two checksums."""
_FRAME_HEADER: Final = struct.Struct(">2I8s8x")
"""Page number, pages after a commit or 0, salts, checksum."""
_INDEX_HEADER: Final = struct.Struct("=16xI12x8s")
"""Of the shared memory: how many frames SQLite uses, and their salts."""
_COMMITS_MAX: Final = 1
"""Commits after the frames in use: the one that a crash has torn, or that another process is just syncing."""


def check_wal(db: sqlite3.Connection, path: Path) -> None:
    """Raise `Damage` if the log has commits that SQLite does not use; the connection changes no file.

    A transaction of the connection keeps other processes from beginning the log anew meanwhile.
    """
    with suppress(FileNotFoundError), open(f"{path}-wal", "rb", buffering=0) as wal:
        header = wal.read(_WAL_HEADER.size)
        size = os.fstat(wal.fileno()).st_size
        if len(header) < _WAL_HEADER.size or size <= _WAL_HEADER.size + _FRAME_HEADER.size:
            return
        db.execute("BEGIN")
        try:
            db.execute("SELECT 1 FROM sqlite_master").fetchone()
            with open(f"{path}-shm", "rb", buffering=0) as index:
                used, salts = _INDEX_HEADER.unpack(index.read(_INDEX_HEADER.size))
        finally:
            db.execute("ROLLBACK")
        page_bytes = _WAL_HEADER.unpack(header)[2]
        if _is_sound(header):
            if header[16:24] == salts and _commits_after(wal.fileno(), used, size, page_bytes, salts) > _COMMITS_MAX:
                raise Damage(f"{path.name}-wal has a damaged frame, {used + 1}, before changes that were confirmed")
        elif used == 0:
            raise Damage(f"the header of {path.name}-wal is damaged")


def _commits_after(file: int, used: int, size: int, page_bytes: int, salts: bytes) -> int:
    commits = 0
    for start in range(_WAL_HEADER.size + used * (_FRAME_HEADER.size + page_bytes), size, 24 + page_bytes):
        frame = os.pread(file, _FRAME_HEADER.size, start)
        if len(frame) == _FRAME_HEADER.size:
            _, pages, salted = _FRAME_HEADER.unpack(frame)
            commits += pages > 0 and _same_but_a_bit(salted, salts)
    return commits


def _same_but_a_bit(salted: bytes, salts: bytes) -> bool:
    """The damaged bit may be here. Frames of an earlier log differ in many: one of the salts is a random number."""
    return (int.from_bytes(salted) ^ int.from_bytes(salts)).bit_count() <= 1


def _is_sound(header: bytes) -> bool:
    """SQLite's checksum, whose byte order the last bit of the magic tells."""
    words = struct.unpack(">6I" if header[3] & 1 else "<6I", header[:24])
    first = second = 0
    for left, right in zip(words[::2], words[1::2], strict=True):
        first = (first + left + second) & 0xFFFFFFFF
        second = (second + right + first) & 0xFFFFFFFF
    magic, version = struct.unpack(">2I", header[:8])
    return magic & ~1 == 0x377F0682 and version == 3007000 and (first, second) == struct.unpack(">2I", header[24:])
