"""One process writes a folder: a POSIX record lock, which a crash gives back and a forked child never has."""

import fcntl
import os
import struct
from pathlib import Path

from cordwood.errors import Unavailable

# struct flock of Linux on 64 bits: type, whence, start, length, pid.
_FLOCK = struct.Struct("hhqqi4x")


class FolderLock:
    """Held until `release`. Closing *any* descriptor of the file in this process drops it: nobody else opens that."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            pid = _holder(self._descriptor)
            os.close(self._descriptor)
            who = f"process {pid}" if pid else "another process"
            raise Unavailable(
                f"{path.parent} is being written by {who}: one process writes a folder;"
                " connect with read_only=True to read"
            ) from error

    def release(self) -> None:
        os.close(self._descriptor)


def is_locked(path: Path) -> bool:
    """Whether a process writes the folder. Must not be asked by that process itself: see `FolderLock`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return _holder(descriptor) is not None
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> int | None:
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else pid
