"""Memory that is used again, and never while somebody looks at it."""

import gc

import pyarrow as pa

from cordwood.log.native.world.buffers import BUFFER_BYTES, POOL_BYTES_MAX, BufferPool

SIZE = 1 << 20


def test_a_buffer_that_nobody_views_is_used_again() -> None:
    pool = BufferPool()
    view = pool.take(SIZE)
    buffer = view.obj
    del view
    assert pool.take(SIZE).obj is buffer


def test_a_buffer_is_not_used_again_while_any_view_of_it_lives() -> None:
    pool = BufferPool()
    view = pool.take(SIZE)
    view[:4] = b"kept"
    part = view[:4].cast("B")
    del view
    other = pool.take(SIZE)
    other[:4] = b"new!"
    assert (part.obj is other.obj, bytes(part)) == (False, b"kept")


def test_a_column_of_arrow_keeps_its_buffer() -> None:
    pool = BufferPool()
    view = pool.take(SIZE)
    view[:4] = b"kept"
    column = pa.py_buffer(view[:4])
    del view
    gc.collect()
    pool.take(SIZE)[:4] = b"new!"
    assert column.to_pybytes() == b"kept"


def test_the_pool_has_a_limit_and_beyond_it_memory_is_fresh() -> None:
    pool = BufferPool()
    views = [pool.take(SIZE) for _ in range(POOL_BYTES_MAX // BUFFER_BYTES + 5)]
    assert len({id(view.obj) for view in views}) == len(views)
    assert len(pool._buffers) == POOL_BYTES_MAX // BUFFER_BYTES


def test_small_and_huge_reads_do_not_take_a_buffer_of_the_pool() -> None:
    pool = BufferPool()
    assert (len(pool.take(100)), len(pool.take(BUFFER_BYTES + 1))) == (100, BUFFER_BYTES + 1)
    assert pool._buffers == []
