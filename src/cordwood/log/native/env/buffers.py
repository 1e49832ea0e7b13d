"""Memory for large reads, reused.

A fresh buffer of a megabyte costs more than filling it. The allocator returns such blocks to the kernel, and each new
page of the next one is a fault. Reading a log from the page cache is three times as fast into warm memory.

Lock: `_lock` guards the free buffers and is never held during I/O.
"""

import ctypes
from mmap import PAGESIZE
from typing import NamedTuple

from cordwood.locks import new_lock

BUFFER_BYTES = 4 * 1024 * 1024 + 4096
"""One read of a reader: several frames, and the header of the next."""

POOL_BYTES_MAX = 48 * 1024 * 1024

_SMALL_BYTES = 64 * 1024


class _Buffer(NamedTuple):
    memory: bytearray
    address: int

    def extent(self, size: int, position: int) -> memoryview:
        first = (position - self.address) % PAGESIZE
        return memoryview(self.memory)[first : first + size]


class BufferPool:
    """Buffers that are taken and never returned: a buffer is free again when no view of it is left."""

    def __init__(self) -> None:
        self._lock = new_lock("env.buffers")
        self._buffers: list[_Buffer] = []

    def take(self, size: int, position: int) -> memoryview:
        """A view of `size` bytes with any content, for data from `position` of a file.

        It has the same offset within a page as `position` has in the file. Otherwise 4 KiB aliasing makes the copy 2–6×
        slower: the processor mistakes its loads for recent stores. Large blocks begin at byte 16 of a page, plogs at 0.
        """
        if _SMALL_BYTES < size <= BUFFER_BYTES:
            with self._lock:
                for buffer in self._buffers:
                    if _is_free(buffer.memory):
                        return buffer.extent(size, position)
                if (len(self._buffers) + 1) * BUFFER_BYTES <= POOL_BYTES_MAX:
                    memory = bytearray(BUFFER_BYTES + PAGESIZE)
                    buffer = _Buffer(memory, ctypes.addressof(ctypes.c_char.from_buffer(memory)))
                    self._buffers.append(buffer)
                    return buffer.extent(size, position)
        return memoryview(bytearray(size))

    def mark_forked(self) -> None:
        """In a forked child: a thread of the parent may have held the lock, and no thread here would release it.

        That thread may also have been about to check whether a buffer is free. Buffers with views live on with those
        views.
        """
        self._lock = new_lock("env.buffers")
        self._buffers = []


def _is_free(buffer: bytearray) -> bool:
    """Whether it has no view: a bytearray with a view refuses to change its size.

    A memoryview, and everything made from it, an Arrow column too, keeps the buffer from being resized as long as it
    lives.
    """
    try:
        buffer.pop()
    except BufferError:
        return False
    buffer.append(0)
    return True
