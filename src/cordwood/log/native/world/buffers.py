"""Memory for large reads, used again.

A fresh buffer of a megabyte costs more than filling it: the allocator gives such blocks back to the kernel, and each
new page of the next one is a fault. Reading a log from the page cache is three times as fast into memory that is warm.
"""

import threading

BUFFER_BYTES = 4 * 1024 * 1024 + 4096
"""One read of a reader: several frames, and the header of the next."""

POOL_BYTES_MAX = 48 * 1024 * 1024

_SMALL_BYTES = 64 * 1024


class BufferPool:
    """Buffers that are taken without being given back: one is free again when no view of it is left."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._buffers: list[bytearray] = []

    def take(self, size: int) -> memoryview:
        """A view of `size` bytes with any content."""
        if _SMALL_BYTES < size <= BUFFER_BYTES:
            with self._lock:
                for buffer in self._buffers:
                    if _is_free(buffer):
                        return memoryview(buffer)[:size]
                if (len(self._buffers) + 1) * BUFFER_BYTES <= POOL_BYTES_MAX:
                    buffer = bytearray(BUFFER_BYTES)
                    self._buffers.append(buffer)
                    return memoryview(buffer)[:size]
        return memoryview(bytearray(size))

    def forked(self) -> None:
        """In a forked child: a thread of the parent may have held the lock, which nobody gives back here.

        And it may have been about to look whether a buffer is free. Those that somebody has views of live on with them.
        """
        self._lock = threading.Lock()
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
