"""Files, as the engine is given them: the interface, and the disk of this machine.

Contents, sizes and names become durable separately (R2): `File.sync` is for the contents and the size of one file,
`Disk.sync_folder` for the names in one folder. A power cut may leave unsynced changes in any combination of old and
new.
"""

import builtins
import ctypes
import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from .buffers import BufferPool

Buffer = bytes | bytearray | memoryview

# One system call takes no more buffers than this. Linux has always had 1024; other kernels may differ.
_BUFFERS_MAX = os.sysconf("SC_IOV_MAX")

# No process has this descriptor, so the kernel returns EBADF; for -1 Python raises ValueError in some calls.
_CLOSED = (1 << 31) - 1

_ZEROS = bytes(1 << 20)

# The standard library has no name for it. It is a hint: a C library may lack it, and its result is ignored.
_sync_file_range = getattr(ctypes.CDLL(None), "sync_file_range", None)
if _sync_file_range is not None:
    _sync_file_range.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
_SYNC_FILE_RANGE_WRITE = 2
_POOL = BufferPool()
os.register_at_fork(after_in_child=_POOL.mark_forked)


class File(Protocol):
    """An open file. Calls may come from several threads; `close` must not overlap with any of them.

    A closed file raises OSError (EBADF), and so does a write through a file that was opened for reading.
    """

    name: str

    def write(self, buffers: Sequence[Buffer], position: int, size: int | None = None) -> None:
        """Write all bytes of the buffers, one after the other, or raise OSError.

        `size` is their sum, from a caller that knows it: summing a thousand buffers takes as long as a small write.

        After an error any part of the range may have been written. A write beyond the end leaves a hole that reads as
        zeros. A memoryview must be contiguous and of single bytes.
        """
        ...

    def begin_read(self) -> None:
        """Ask the disk to begin reading the file now, for a later reader. A hint."""
        ...

    def read(self, size: int, position: int) -> memoryview:
        """Read into a buffer that is the caller's while a view of it lives; fewer bytes only at the end of the file."""
        ...

    def begin_sync(self, position: int, length: int) -> None:
        """Ask the disk to begin writing this range now. A hint: it promises nothing, and `sync` is needed as before."""
        ...

    def sync(self) -> None:
        """Make contents and size durable, but not the name.

        After an error the contents of the disk are unknown. A second sync that succeeds does not change that: the
        kernel has dropped the pages that it could not write.
        """
        ...

    def allocate(self, size: int) -> None:
        """Make the file at least `size` bytes long, filled with zeros, and reserve the new space.

        Writes into it can then not run out of space. On an error the file keeps its size.
        """
        ...

    def truncate(self, size: int) -> None: ...

    def size(self) -> int: ...

    def close(self) -> None:
        """Close the file; a second call does nothing. Closing makes nothing durable."""
        ...


class Disk(Protocol):
    """A folder and everything below it. Names are relative, with "/" between parts; "" is the folder itself.

    A name that could lead out of the folder raises ValueError.
    """

    def create(self, name: str) -> File:
        """Create a file, open for reading and writing; FileExistsError if the name is taken."""
        ...

    def open(self, name: str, *, write: bool = False) -> File: ...

    def remove(self, name: str) -> None:
        """Remove a file's name; a missing one is ignored. Handles that have the file open can still use it."""
        ...

    def replace(self, source: str, target: str) -> None:
        """Rename atomically, over any file that has the name `target`.

        Both names are in one folder, so that a single `sync_folder` makes the change durable.
        """
        ...

    def list(self, folder: str) -> builtins.list[str]:
        """The names of the plain files in a folder, sorted; a missing folder is empty."""
        ...

    def make_folder(self, name: str) -> None:
        """Create a folder whose parent exists; an existing one is fine.

        It is durable once its parent was synced. The disk's own folder, "", has no parent that a caller could name: it
        is created with all its parents, durably.
        """
        ...

    def remove_folder(self, name: str) -> None:
        """Remove an empty folder; a missing or non-empty one stays as it is."""
        ...

    def sync_folder(self, name: str) -> None:
        """Make the names in a folder durable: all that were created, removed and replaced."""
        ...


def make_durable_folder(disk: Disk, name: str) -> None:
    """Make a folder and its name durable; its parent is the disk's own folder."""
    disk.make_folder(name)
    try:
        disk.sync_folder("")
    except OSError:
        # R2: whether the name is durable is unknown, and a later successful sync does not tell. So it is removed, to be
        # created again.
        disk.remove_folder(name)
        raise


def split_name(name: str) -> tuple[str, str]:
    """The folder and the last part of a name, which is checked to stay below the root."""
    for part in name.split("/"):
        if part in ("", ".", "..") or "\0" in part:
            raise ValueError(f"not a name inside the disk: {name!r}")
    folder, _, last = name.rpartition("/")
    return folder, last


def check_one_folder(source: str, target: str) -> None:
    if split_name(source)[0] != split_name(target)[0]:
        raise ValueError(f"a replace stays in its folder: {source!r} to {target!r}")


class RealFile:
    """A file of this machine: plain system calls at positions, so that threads share no file offset."""

    __slots__ = ("_fd", "name")

    def __init__(self, name: str, fd: int) -> None:
        self.name = name
        self._fd = fd

    def write(self, buffers: Sequence[Buffer], position: int, size: int | None = None) -> None:
        if position < 0:
            # The kernel treats -1 as the descriptor's own position.
            raise OSError(errno.EINVAL, "a position below zero", self.name)
        if len(buffers) <= _BUFFERS_MAX:
            written = os.pwritev(self._fd, buffers, position)
            if written == (sum(map(len, buffers)) if size is None else size):
                return
        else:
            written = 0
        self._write_rest(buffers, position, written)

    def _write_rest(self, buffers: Sequence[Buffer], position: int, written: int) -> None:
        rest = [memoryview(buffer).cast("B") for buffer in buffers]
        first = 0
        skip = written
        position += written
        while True:
            while first < len(rest) and skip >= len(rest[first]):
                skip -= len(rest[first])
                first += 1
            if first == len(rest):
                return
            rest[first] = rest[first][skip:]
            skip = os.pwritev(self._fd, rest[first : first + _BUFFERS_MAX], position)
            if skip == 0:
                raise OSError(errno.EIO, "a write made no progress", self.name)
            position += skip

    def begin_read(self) -> None:
        os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_WILLNEED)

    def read(self, size: int, position: int) -> memoryview:
        if position < 0:
            raise OSError(errno.EINVAL, "a position below zero", self.name)
        view = _POOL.take(size, position)
        done = count = os.preadv(self._fd, (view,), position)
        # One call may return less in the middle of a file (it stops at 2 GiB); only zero bytes mean the end.
        while count and done < size:
            count = os.preadv(self._fd, (view[done:],), position + done)
            done += count
        return view[:done]

    def begin_sync(self, position: int, length: int) -> None:
        if _sync_file_range is not None:
            _sync_file_range(self._fd, position, length, _SYNC_FILE_RANGE_WRITE)

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def allocate(self, size: int) -> None:
        current = self.size()
        if size <= current:
            return
        try:
            self._reserve(current, size)
        except OSError:
            # A file system that runs out of space half-way may leave the file longer than it was.
            os.ftruncate(self._fd, current)
            raise

    def _reserve(self, start: int, end: int) -> None:
        try:
            os.posix_fallocate(self._fd, start, end - start)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
            # The file system cannot reserve: zeros that are really written occupy the space as well.
            for position in range(start, end, len(_ZEROS)):
                self.write([memoryview(_ZEROS)[: end - position]], position)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        fd, self._fd = self._fd, _CLOSED
        if fd != _CLOSED:
            os.close(fd)


class RealDisk:
    """A folder of this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def create(self, name: str) -> RealFile:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return RealFile(name, os.open(self._path(name), flags, 0o666))

    def open(self, name: str, *, write: bool = False) -> RealFile:
        flags = (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC
        return RealFile(name, os.open(self._path(name), flags))

    def remove(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def replace(self, source: str, target: str) -> None:
        check_one_folder(source, target)
        self._path(source).replace(self._path(target))

    def list(self, folder: str) -> builtins.list[str]:
        try:
            with os.scandir(self._folder(folder)) as entries:
                return sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
        except FileNotFoundError:
            return []

    def make_folder(self, name: str) -> None:
        if name:
            self._path(name).mkdir(exist_ok=True)
        else:
            _make_folder_and_parents(self.root.absolute())

    def remove_folder(self, name: str) -> None:
        try:
            self._path(name).rmdir()
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise

    def sync_folder(self, name: str) -> None:
        _sync_folder(self._folder(name))

    def _path(self, name: str) -> Path:
        split_name(name)
        return self.root / name

    def _folder(self, name: str) -> Path:
        return self._path(name) if name else self.root


def _make_folder_and_parents(path: Path) -> None:
    if not path.parent.exists():
        _make_folder_and_parents(path.parent)
    path.mkdir(exist_ok=True)
    # Also if the folder exists: its creator may have been killed before this line. If this process may not read the
    # parent, it did not write it either: then the folder's creator is responsible for its name.
    with suppress(PermissionError):
        _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
