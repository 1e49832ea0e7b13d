"""A file that is open on the simulated disk."""

import errno
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cordwood.log.native.env.disk import Buffer
from cordwood.simulation.faults import Operation, os_error
from cordwood.simulation.storage import StoredFile

if TYPE_CHECKING:
    from cordwood.simulation.disk import SimulatedDisk


class SimulatedFile:
    def __init__(self, disk: "SimulatedDisk", name: str, node: StoredFile, *, writable: bool) -> None:
        self.name = name
        self._disk = disk
        self._faults = disk._faults
        self._lock = disk._lock
        self._node = node
        self._writable = writable
        self._open = True

    def write(self, buffers: Sequence[Buffer], position: int, size: int | None = None) -> None:
        data = b"".join(buffers)
        assert size is None or size == len(data)
        with self._lock:
            self._check(write=True)
            if position < 0:
                raise os_error(errno.EINVAL, self.name)
            if not data:
                return
            fault = self._faults.count("write", self.name, f" {position}+{len(data)}")
            if fault is not None:
                self._put(data[: fault.written], position)
                self._faults.stop(fault.error, self.name)
            self._disk._take_space(position + len(data) - len(self._node.current), self.name)
            if self._faults.operations == self._faults.crash_at:
                data = data[: self._faults.crash_written]
            self._put(data, position)
            self._faults.check_power()

    def _put(self, data: bytes, position: int) -> None:
        if data:
            self._node.write(position, data)

    def read(self, size: int, position: int) -> memoryview:
        with self._lock:
            self._check()
            if position < 0:
                raise os_error(errno.EINVAL, self.name)
            fault = self._faults.meet("read", self.name)
            if fault is not None:
                raise os_error(fault.error, self.name)
            return memoryview(self._node.current[position : position + size])

    def begin_read(self) -> None:
        with self._lock:
            self._check()

    def begin_sync(self, position: int, length: int) -> None:
        # A hint may bring data to the disk early; a power cut may keep the same data of an unsynced write anyway.
        with self._lock:
            self._check()

    def sync(self) -> None:
        with self._lock:
            self._check()
            try:
                self._faults.begin("sync", self.name)
            except OSError:
                self._node.fail_sync()
                raise
            self._faults.check_power()
            self._node.sync()

    def allocate(self, size: int) -> None:
        with self._lock:
            self._check()
            if size <= len(self._node.current):
                return
            self._check(write=True)
            self._resize("allocate", size)

    def truncate(self, size: int) -> None:
        with self._lock:
            self._check()
            if size < 0 or not self._writable:
                raise os_error(errno.EINVAL, self.name)
            if size != len(self._node.current):
                self._resize("truncate", size)

    def _resize(self, operation: Operation, size: int) -> None:
        self._faults.begin(operation, self.name, f" {size}")
        self._disk._take_space(size - len(self._node.current), self.name)
        self._node.resize(size)
        self._faults.check_power()

    def size(self) -> int:
        with self._lock:
            self._check()
            return len(self._node.current)

    def close(self) -> None:
        with self._lock:
            if self._open:
                self._open = False
                self._disk._forget(self._node)

    def _check(self, *, write: bool = False) -> None:
        self._faults.check_power()
        if not self._open or (write and not self._writable):
            raise os_error(errno.EBADF, self.name)
