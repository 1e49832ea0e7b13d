"""Memory that is used again, and never while somebody looks at it."""

import ctypes
import gc
from mmap import PAGESIZE

import pyarrow as pa
import pytest

from cordwood.log.native.env.buffers import BUFFER_BYTES, POOL_BYTES_MAX, BufferPool

SIZE = 1 << 20


def test_a_buffer_that_nobody_views_is_used_again() -> None:
    pool = BufferPool()
    view = pool.take(SIZE, 0)
    buffer = view.obj
    del view
    assert pool.take(SIZE, 0).obj is buffer


@pytest.mark.parametrize("position", [0, 8, 16, 4088, PAGESIZE, 1_028_248])
def test_a_view_begins_where_the_bytes_of_the_file_do_in_their_page(position: int) -> None:
    pool = BufferPool()
    for _ in ("a new buffer", "the same again"):
        view = pool.take(BUFFER_BYTES, position)
        assert len(view) == BUFFER_BYTES
        assert (ctypes.addressof(ctypes.c_char.from_buffer(view)) - position) % PAGESIZE == 0
        del view
        gc.collect()
    assert len(pool._buffers) == 1


def test_a_buffer_is_not_used_again_while_any_view_of_it_lives() -> None:
    pool = BufferPool()
    view = pool.take(SIZE, 0)
    view[:4] = b"kept"
    part = view[:4].cast("B")
    del view
    other = pool.take(SIZE, 0)
    other[:4] = b"new!"
    assert (part.obj is other.obj, bytes(part)) == (False, b"kept")


def test_a_column_of_arrow_keeps_its_buffer() -> None:
    pool = BufferPool()
    view = pool.take(SIZE, 0)
    view[:4] = b"kept"
    column = pa.py_buffer(view[:4])
    del view
    gc.collect()
    pool.take(SIZE, 0)[:4] = b"new!"
    assert column.to_pybytes() == b"kept"


def test_the_pool_has_a_limit_and_beyond_it_memory_is_fresh() -> None:
    pool = BufferPool()
    views = [pool.take(SIZE, 0) for _ in range(POOL_BYTES_MAX // BUFFER_BYTES + 5)]
    assert len({id(view.obj) for view in views}) == len(views)
    assert len(pool._buffers) == POOL_BYTES_MAX // BUFFER_BYTES


def test_small_and_huge_reads_do_not_take_a_buffer_of_the_pool() -> None:
    pool = BufferPool()
    assert (len(pool.take(100, 0)), len(pool.take(BUFFER_BYTES + 1, 0))) == (100, BUFFER_BYTES + 1)
    assert pool._buffers == []
