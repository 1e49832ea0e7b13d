"""Memory for large reads, used again.

A fresh buffer of a megabyte costs more than filling it: the allocator gives such blocks back to the kernel, and each
new page of the next one is a fault. Reading a log from the page cache is three times as fast into memory that is warm.
"""

import sys
import threading

BUFFER_BYTES = 2 * 1024 * 1024 + 4096
"""A whole frame, and the header of the next."""

POOL_BYTES_MAX = 32 * 1024 * 1024

_SMALL_BYTES = 64 * 1024
# What sees a buffer that nobody else has: the pool's list, the variable here, and getrefcount's argument.
_REFERENCES_OF_A_FREE_ONE = 3


class BufferPool:
    """Buffers that are taken without being given back: one is free again when no view of it is left.

    A memoryview, and whatever was made of it, keeps a reference to the buffer it views; so a buffer that only the pool
    refers to cannot be seen by anybody.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._buffers: list[bytearray] = []

    def take(self, size: int) -> memoryview:
        """A view of `size` bytes with any content."""
        if _SMALL_BYTES < size <= BUFFER_BYTES:
            with self._lock:
                for buffer in self._buffers:
                    if sys.getrefcount(buffer) == _REFERENCES_OF_A_FREE_ONE:
                        return memoryview(buffer)[:size]
                if (len(self._buffers) + 1) * BUFFER_BYTES <= POOL_BYTES_MAX:
                    buffer = bytearray(BUFFER_BYTES)
                    self._buffers.append(buffer)
                    return memoryview(buffer)[:size]
        return memoryview(bytearray(size))
