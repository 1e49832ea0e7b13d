"""All plogs of one disk.

Lock: `_lock` guards the number of open plogs and is never held during I/O.
"""

import errno
import re
from collections.abc import Callable
from typing import TypeVar

from cordwood.errors import Conflict, NotFound
from cordwood.locks import new_lock
from cordwood.log.native.env.disk import Disk, File, make_durable_folder

from .id import PlogId
from .plog import Plog
from .seal import SEAL_BYTES

T = TypeVar("T")

OPEN_PLOGS_MAX = 256

_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)

_FOLDER = "plogs"
_SUFFIX = ".plog"
_FILE_NAME = re.compile(r"[0-9a-f]{16}\.plog")


class PlogStore:
    """Creates, opens and deletes plogs in one folder of a disk.

    When the process or the machine has no descriptor left, it calls `close_others`, and tries once more.
    """

    def __init__(
        self,
        disk: Disk,
        open_plogs_max: int = OPEN_PLOGS_MAX,
        close_others: Callable[[], None] = lambda: None,
    ) -> None:
        self._disk = disk
        self._close_others = close_others
        self._lock = new_lock("plog.store")
        self._open_plogs = 0
        self._open_plogs_max = open_plogs_max

    @property
    def crowded(self) -> bool:
        """Whether too many plogs hold a file open for writing: a process has a thousand descriptors, or fewer."""
        return self._open_plogs > self._open_plogs_max

    def prepare(self) -> None:
        """Make the folder, durably: once, by the writing process."""
        make_durable_folder(self._disk, _FOLDER)

    def create(self, id: PlogId, size: int) -> Plog:
        """A new plog with its space reserved. A full disk raises OSError, and leaves no file."""
        return self._with_descriptor(lambda: self._create(id, size))

    def open_file(self, id: PlogId, *, write: bool = False) -> File:
        try:
            return self._with_descriptor(lambda: self._disk.open(self._path(id), write=write))
        except FileNotFoundError as error:
            raise NotFound(f"plog {id} is gone") from error

    def begin_read(self, id: PlogId) -> None:
        """Ask the disk to read this plog ahead; a missing plog is ignored."""
        try:
            file = self._disk.open(self._path(id))
        except OSError:
            return
        try:
            file.begin_read()
        finally:
            file.close()

    def resume(self, id: PlogId, end: int) -> Plog:
        """A handle on a plog whose end is known and synced, to seal it."""
        plog = self._count_open(Plog(id, self.open_file(id, write=True), end, self._closed))
        plog.end = plog.synced_end = end
        return plog

    def reopen(self, plog: Plog) -> None:
        """Reopen the file of a handle that was closed while its log was idle."""
        plog.attach(self.open_file(plog.id, write=True))
        self._count_open(plog)

    def delete(self, id: PlogId) -> None:
        """Remove the file of a plog that no chain has. If that fails now, the next open sweeps it away."""
        self.delete_file(id.random)

    def files(self) -> set[int]:
        """The random parts of the ids of all plogs on this disk."""
        # Foreign files are not ours to read or to sweep away.
        names = filter(_FILE_NAME.fullmatch, self._disk.list(_FOLDER))
        return {int(name.removesuffix(_SUFFIX), 16) for name in names}

    def delete_file(self, random: int) -> None:
        try:
            self._disk.remove(f"{_FOLDER}/{random:016x}{_SUFFIX}")
        except OSError:
            # It only occupies space. An error here would look like one of the call that made the plog superfluous.
            return

    def _create(self, id: PlogId, size: int) -> Plog:
        path = self._path(id)
        try:
            file = self._disk.create(path)
        except FileExistsError as error:
            raise Conflict(f"plog {id} exists already") from error
        try:
            # Room for the seal too, so that sealing works on a full disk.
            file.allocate(size + SEAL_BYTES)
            file.sync()
            # R2: a synced file whose name is not durable is lost with the name.
            self._disk.sync_folder(_FOLDER)
        except OSError:
            file.close()
            self._disk.remove(path)
            raise
        return self._count_open(Plog(id, file, size, self._closed))

    def _with_descriptor(self, open_file: Callable[[], T]) -> T:
        try:
            return open_file()
        except OSError as error:
            if error.errno not in _NO_DESCRIPTOR:
                raise
        self._close_others()
        return open_file()

    def _count_open(self, plog: Plog) -> Plog:
        with self._lock:
            self._open_plogs += 1
        return plog

    def _closed(self) -> None:
        with self._lock:
            self._open_plogs -= 1

    def _path(self, id: PlogId) -> str:
        return f"{_FOLDER}/{id.file_name}"
