"""Whether SQLite loses transactions of its log of changes, `PATH-wal`, to damage.

SQLite takes the first frame with a wrong checksum for the end of the log, and drops the rest without a word. A crash
can leave such a frame, but only in the last transaction, since each one is synced before the next begins. So two
commits from there on are damage. The layout is SQLite's: https://sqlite.org/fileformat2.html#walformat.

Only this file is opened here. A close of the database, or of its shared memory, would drop the locks that other
connections of this process have on it.
"""

import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

from .errors import Damage

_HEADER: Final = struct.Struct(">8I")
"""Magic, version, page size, checkpoints, two salts, two checksums."""
_FRAME_HEADER_BYTES: Final = 24
"""Page number, pages after a commit or 0, two salts, two checksums."""
_COMMITS_MAX: Final = 1
"""Commits from the first wrong frame on: a crash tears one, and another process may be writing one."""
_READ_BYTES: Final = 1 << 20

_Sums = tuple[int, int]


def check_wal(path: Path) -> None:
    """Raise `Damage` if the log has commits that SQLite would not use."""
    # Twice: another process may write the log meanwhile, and what it has written is sound then.
    damaged = _first_damaged(path)
    if damaged is not None and damaged == _first_damaged(path):
        what = f"a damaged frame, {damaged}, before changes that were confirmed" if damaged else "a damaged header"
        raise Damage(f"{path.name}-wal has {what}")


def _first_damaged(path: Path) -> int | None:
    """The number of the first damaged frame, 0 for the header; None if there is none, or it may be torn."""
    with suppress(FileNotFoundError), open(f"{path}-wal", "rb", buffering=_READ_BYTES) as wal:
        header = wal.read(_HEADER.size)
        if len(header) < _HEADER.size or os.fstat(wal.fileno()).st_size <= _HEADER.size + _FRAME_HEADER_BYTES:
            return None
        magic, version, page_bytes, *_, first, second = _HEADER.unpack(header)
        pairs = struct.Struct(">II" if magic & 1 else "<II")
        sums = _add((0, 0), header[:24], pairs)
        if (magic & ~1, version) != (0x377F0682, 3007000) or sums != (first, second):
            return 0
        damaged: int | None = None
        commits = number = 0
        frame_bytes = _FRAME_HEADER_BYTES + page_bytes
        while len(frame := wal.read(frame_bytes)) == frame_bytes:
            number += 1
            if damaged is None:
                sums = _add(_add(sums, frame[:8], pairs), frame[_FRAME_HEADER_BYTES:], pairs)
                if frame[8:16] != header[16:24] or sums != struct.unpack_from(">II", frame, 16):
                    damaged = number
            if damaged is not None:
                commits += _is_commit(frame, header)
        return damaged if commits > _COMMITS_MAX else None
    return None


def _add(sums: _Sums, data: bytes, pairs: struct.Struct) -> _Sums:
    """SQLite's checksum of these bytes, continued."""
    first, second = sums
    for left, right in pairs.iter_unpack(data):
        first = (first + left + second) & 0xFFFFFFFF
        second = (second + right + first) & 0xFFFFFFFF
    return first, second


def _is_commit(frame: bytes, header: bytes) -> bool:
    """Whether a frame is a commit of this log, but for a bit: the damaged one may be in its salts.

    Frames of an earlier log differ in many bits, since one of the salts is a random number.
    """
    differing = int.from_bytes(frame[8:16]) ^ int.from_bytes(header[16:24])
    return any(frame[4:8]) and differing.bit_count() <= 1
