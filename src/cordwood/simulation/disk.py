"""A disk in memory that can lose power, fail, fill up and rot, and does so the same way every time.

It keeps the promises of `cordwood.log.native.env.disk` and not one more (R2). A test runs the engine on it, cuts the
power at any operation, and opens the engine again on the disk that is left:

    disk = SimulatedDisk()
    disk.crash_at(17)
    ...                                   # raises PowerCut at the 17th operation
    found = disk.power_cut(Random(seed))
"""

import builtins
import copy
import errno
from random import Random
from threading import Lock
from typing import Literal

from cordwood.log.native.env.disk import check_one_folder, split_name
from cordwood.simulation.faults import Fault, Faults, Operation, os_error
from cordwood.simulation.file import SimulatedFile
from cordwood.simulation.power import Chooser, chooser
from cordwood.simulation.storage import StoredFile, StoredFolder


class SimulatedDisk:
    def __init__(self, *, capacity: int | None = None) -> None:
        # The limit for the sum of all sizes, holes included; beyond it calls raise ENOSPC. It may be changed at any
        # time.
        self.capacity = capacity
        self._lock = Lock()
        self._root = StoredFolder()
        self._opened: dict[StoredFile, int] = {}
        self._faults = Faults()

    def create(self, name: str) -> SimulatedFile:
        with self._lock:
            self._faults.check_power()
            folder, last = self._parent(name)
            if last in folder.current:
                raise os_error(errno.EEXIST, name)
            self._faults.begin("create", name)
            node = StoredFile()
            folder.add(f"create {name}", last, node)
            self._faults.check_power()
            return self._handle(name, node, writable=True)

    def open(self, name: str, *, write: bool = False) -> SimulatedFile:
        with self._lock:
            self._faults.check_power()
            return self._handle(name, self._file(name), writable=write)

    def remove(self, name: str) -> None:
        with self._lock:
            self._faults.check_power()
            try:
                self._file(name)
            except FileNotFoundError:
                return
            folder, last = self._parent(name)
            self._faults.begin("remove", name)
            folder.change(f"remove {name}", gone=last)
            self._faults.check_power()

    def replace(self, source: str, target: str) -> None:
        check_one_folder(source, target)
        with self._lock:
            self._faults.check_power()
            self._file(source)
            folder, last = self._parent(target)
            if isinstance(folder.current.get(last), StoredFolder):
                raise os_error(errno.EISDIR, target)
            detail = f" {source}"
            self._faults.begin("replace", target, detail)
            folder.change(f"replace {target}{detail}", gone=split_name(source)[1], come=last)
            self._faults.check_power()

    def list(self, folder: str) -> builtins.list[str]:
        with self._lock:
            self._faults.check_power()
            try:
                entries = self._folder(folder).current.items()
            except FileNotFoundError:
                return []
            return sorted(last for last, node in entries if isinstance(node, StoredFile))

    def make_folder(self, name: str) -> None:
        with self._lock:
            self._faults.check_power()
            if not name:
                return
            folder, last = self._parent(name)
            if isinstance(folder.current.get(last), StoredFile):
                raise os_error(errno.EEXIST, name)
            if last in folder.current:
                return
            self._faults.begin("make_folder", name)
            folder.add(f"make_folder {name}", last, StoredFolder())
            self._faults.check_power()

    def remove_folder(self, name: str) -> None:
        with self._lock:
            self._faults.check_power()
            try:
                if self._folder(name).current:
                    return
            except FileNotFoundError:
                return
            folder, last = self._parent(name)
            self._faults.begin("remove", name)
            folder.change(f"remove {name}", gone=last)
            self._faults.check_power()

    def sync_folder(self, name: str) -> None:
        with self._lock:
            self._faults.check_power()
            folder = self._folder(name)
            try:
                self._faults.begin("sync_folder", name)
            except OSError:
                folder.fail_sync()
                raise
            self._faults.check_power()
            folder.sync()

    def power_cut(self, choose: Random | Chooser | Literal["none", "all"]) -> "SimulatedDisk":
        """The disk after a power cut now: everything that was synced, and the chosen part of the rest.

        This disk stays as it is, so that a test can make many cuts of one history.
        """
        with self._lock:
            return self._another(self._root.after_cut("", chooser(choose)))

    def killed(self) -> "SimulatedDisk":
        """The disk as the next process finds it after a kill -9 now: all of it, and nothing more durable."""
        with self._lock:
            return self._another(copy.deepcopy(self._root))

    def crash_at(self, operation: int, *, written: int | None = None) -> None:
        """Cut the power during an operation, counted from 1: it and all later calls raise PowerCut.

        The operation itself was under way: its change may be on the disk, or not. Of a write, the disk had accepted
        `written` bytes by then; all of them if that is None.
        """
        with self._lock:
            self._faults.crash_at = operation
            self._faults.crash_written = written

    def fail(
        self,
        operation: Operation,
        *,
        name_contains: str = "",
        error: int = errno.EIO,
        times: int = 1,
        after: int = 0,
        written: int = 0,
    ) -> None:
        """Make an operation raise OSError, `times` times, after the first `after` that match have succeeded.

        Of a failing write, the disk has accepted `written` bytes. A failed sync, of a file or a folder, leaves its
        changes undecided, even if a second sync succeeds.
        """
        with self._lock:
            self._faults.waiting.append(Fault(operation, name_contains, error, times, after, written))

    def faults_left(self) -> int:
        """How many more times an operation will fail."""
        with self._lock:
            return sum(fault.times for fault in self._faults.waiting)

    def forget_faults(self) -> None:
        """Remove all faults that are left."""
        with self._lock:
            self._faults.waiting.clear()

    def step(self, operation: Operation, name: str) -> None:
        """Count an operation of a part other than the files, and fail or lose power there if that is due.

        Only its caller is in doubt about it: its earlier operations are done.
        """
        with self._lock:
            self._faults.check_power()
            self._faults.begin(operation, name)
            self._faults.check_power()

    def check_power(self) -> None:
        """Raise PowerCut if the power has failed."""
        with self._lock:
            self._faults.check_power()

    def flip_bit(self, name: str, bit: int) -> None:
        """Damage a file in place, in memory and on the disk; bit 0 is the lowest of the first byte."""
        with self._lock:
            self._file(name).flip_bit(bit)

    def contents(self, name: str) -> bytes:
        with self._lock:
            return bytes(self._file(name).current)

    def names(self) -> builtins.list[str]:
        """The names of all files, sorted."""
        with self._lock:
            return sorted(self._root.files())

    def open_files(self) -> builtins.list[str]:
        """The names of the files that are open, sorted."""
        with self._lock:
            return sorted(name for name, node in self._root.files().items() if node in self._opened)

    @property
    def operations(self) -> int:
        """How many mutating operations have begun; those that had nothing to do are not counted."""
        return self._faults.operations

    @property
    def history(self) -> builtins.list[str]:
        """The latest operations, such as "17 write plogs/1 0+512"."""
        with self._lock:
            return [*self._faults.history]

    @property
    def used(self) -> int:
        """The bytes that count against the capacity. A removed file counts while a handle has it open."""
        with self._lock:
            return self._used()

    def _another(self, root: StoredFolder) -> "SimulatedDisk":
        disk = SimulatedDisk(capacity=self.capacity)
        disk._root = root
        return disk

    def _handle(self, name: str, node: StoredFile, *, writable: bool) -> SimulatedFile:
        self._opened[node] = self._opened.get(node, 0) + 1
        return SimulatedFile(self, name, node, writable=writable)

    def _forget(self, node: StoredFile) -> None:
        self._opened[node] -= 1
        if not self._opened[node]:
            del self._opened[node]

    def _folder(self, name: str) -> StoredFolder:
        if name:
            split_name(name)
        folder = self._root
        for part in name.split("/") if name else ():
            node = folder.current.get(part)
            if node is None:
                raise os_error(errno.ENOENT, name)
            if isinstance(node, StoredFile):
                raise os_error(errno.ENOTDIR, name)
            folder = node
        return folder

    def _parent(self, name: str) -> tuple[StoredFolder, str]:
        folder, last = split_name(name)
        return self._folder(folder), last

    def _file(self, name: str) -> StoredFile:
        folder, last = self._parent(name)
        node = folder.current.get(last)
        if node is None:
            raise os_error(errno.ENOENT, name)
        if isinstance(node, StoredFolder):
            raise os_error(errno.EISDIR, name)
        return node

    def _used(self) -> int:
        nodes = {*self._root.files().values(), *self._opened}
        return sum(len(node.current) for node in nodes)

    def _take_space(self, growth: int, name: str) -> None:
        if growth > 0 and self.capacity is not None and self._used() + growth > self.capacity:
            self._faults.stop(errno.ENOSPC, name)
