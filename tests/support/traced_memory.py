"""The memory of Python objects that a part of a test allocates."""

import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager


class TracedMemory:
    """Bytes since the trace began."""

    @property
    def held(self) -> int:
        return tracemalloc.get_traced_memory()[0]

    @property
    def peak(self) -> int:
        return tracemalloc.get_traced_memory()[1]


@contextmanager
def traced() -> Iterator[TracedMemory]:
    """Trace what is allocated in this block."""
    gc.collect()
    tracemalloc.start()
    try:
        yield TracedMemory()
    finally:
        tracemalloc.stop()
