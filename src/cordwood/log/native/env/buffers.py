"""Memory for large reads, used again.

A fresh buffer of a megabyte costs more than filling it: the allocator gives such blocks back to the kernel, and each
new page of the next one is a fault. Reading a log from the page cache is three times as fast into memory that is warm.

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
    """Buffers that are taken without being given back: one is free again when no view of it is left."""

    def __init__(self) -> None:
        self._lock = new_lock("env.buffers")
        self._buffers: list[_Buffer] = []

    def take(self, size: int, position: int) -> memoryview:
        """A view of `size` bytes with any content, to be filled with what stands at `position` of a file.

        It begins where that does in its page. A copy to a few bytes behind there takes two to six times as long: the
        processor takes what it loads for what it has just stored. Large blocks begin at byte 16 of a page, plogs at 0.
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
        """In a forked child: a thread of the parent may have held the lock, which nobody gives back here.

        And it may have been about to look whether a buffer is free. Those that somebody has views of live on with them.
        """
        self._lock = new_lock("env.buffers")
        self._buffers = []


def _is_free(buffer: bytearray) -> bool:
    """Whether nobody has a view of it: a bytearray of which there is one refuses to change its size.

    A memoryview, and whatever was made of it, a column of Arrow too, keeps the buffer from being resized as long as it
    lives.
    """
    try:
        buffer.pop()
    except BufferError:
        return False
    buffer.append(0)
    return True
