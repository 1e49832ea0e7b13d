"""One process writes a folder: two locks on one file. A crash releases them, and a forked child closes its copies.

A record lock shows others the pid of its holder. But a process loses its record locks on a file when it closes any
descriptor of that file, for example while it copies the folder. So the process also holds a lock of the open file.

Lock: `_files_lock` is held while a lock file is opened or closed; a fork waits for it.
"""

import errno
import fcntl
import os
import struct
from pathlib import Path

from cordwood.errors import Unavailable
from cordwood.locks import new_lock

# struct flock of Linux on 64 bits: type, whence, start, length, pid.
_FLOCK = struct.Struct("hhqqi4x")

# Each kind of lock has its own byte of the file: two kinds on one byte would conflict.
_RECORD, _OPEN_FILE, _ANNOUNCED = 0, 1, 2


class FolderLock:
    """Held until `release` (R8): without it, this process could ack records that the next writer has truncated."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _files_lock:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                _take(descriptor, fcntl.F_SETLK, _RECORD)
                _take(descriptor, fcntl.F_OFD_SETLK, _OPEN_FILE)
            except OSError as error:
                pid = _holder(descriptor)
                os.close(descriptor)
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
                who = f"process {pid}" if pid else "another process, or by this one under another name"
                raise Unavailable(
                    f"{path.parent} is being written by {who}: one process writes a folder; try again when that one has"
                    " closed it. Reading works meanwhile: with read_only=True, or by a command that reads",
                    reason="busy",
                    pid=pid or None,  # 0: in another pid namespace
                ) from error
            self._descriptor: int | None = descriptor
            self.announced = False
            _held[path] = self

    def announce(self) -> None:
        """Mark the published files as this process's own; until then readers treat them as the last writer's."""
        assert self._descriptor is not None
        _take(self._descriptor, fcntl.F_OFD_SETLK, _ANNOUNCED)
        self.announced = True

    def release(self) -> None:
        with _files_lock:
            self._let_go()
            _held.pop(self.path, None)

    def _let_go(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def is_written(path: Path) -> bool:
    """Whether a process writes the folder, this one or another, and has begun to announce."""
    with _files_lock:
        # The holder must not open the file: closing it again would lose the record lock.
        if path in _held:
            return _held[path].announced
    # Without the lock, which a fork waits for: the file system may be slow.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return _ask(descriptor, fcntl.F_OFD_GETLK, _ANNOUNCED)[0] != fcntl.F_UNLCK
    finally:
        os.close(descriptor)


def _take(descriptor: int, command: int, byte: int) -> None:
    fcntl.fcntl(descriptor, command, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0))


def _ask(descriptor: int, command: int, byte: int) -> tuple[int, int]:
    """Kind and pid of a lock that conflicts with one on that byte."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, command, asked))
    return kind, pid


def _holder(descriptor: int) -> int | None:
    kind, pid = _ask(descriptor, fcntl.F_GETLK, _RECORD)
    return None if kind == fcntl.F_UNLCK else pid


# The locks of this process by path, and the lock for opening and closing their files. A fork waits for that lock too: a
# child must know which descriptors are locks and close its copies, or they would outlive this process.
_held: dict[Path, FolderLock] = {}
_files_lock = new_lock("folder.lock_files")


def _after_fork_in_child() -> None:
    for lock in _held.values():
        lock._let_go()
    _held.clear()
    _files_lock.release()


os.register_at_fork(
    before=_files_lock.acquire, after_in_parent=_files_lock.release, after_in_child=_after_fork_in_child
)
