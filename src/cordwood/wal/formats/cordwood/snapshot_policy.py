"""When a snapshot of a region is due. Pure: the meta writer asks after each change, and makes the snapshot."""

from __future__ import annotations

from typing import Final, NamedTuple

SNAPSHOT_BYTES: Final = 64 * 1024 * 1024
SNAPSHOT_WRITES: Final = 10_000
SNAPSHOT_MARKS: Final = 10_000
"""R14: a snapshot is due after so many bytes, writes or marks: an open never reads more than that. In a region with
more tables, it is due after as many writes or marks as there are tables: it holds all of them, and would cost more than
it saves."""
TABLES_PER_DROP: Final = 64
"""A drop makes a snapshot due at once in a region of so many tables; in a larger one, a drop for every so many."""


class Growth(NamedTuple):
    """What a region has taken in since its last snapshot, and how many tables it has."""

    writes: int
    bytes: int
    marks: int
    """Drops among them."""
    tables: int


def is_due(since: Growth) -> bool:
    """
    >>> is_due(Growth(writes=9_999, bytes=0, marks=0, tables=10)), is_due(Growth(10_000, 0, 0, 10))
    (False, True)
    >>> is_due(Growth(writes=10_000, bytes=0, marks=0, tables=100_000))
    False
    """
    return (
        since.writes >= max(SNAPSHOT_WRITES, since.tables)
        or since.bytes >= SNAPSHOT_BYTES
        or since.marks >= max(SNAPSHOT_MARKS, since.tables)
    )


def is_due_after_drop(since: Growth) -> bool:
    """Whether the marks since the last snapshot pay for one, when a table was dropped.

    >>> is_due_after_drop(Growth(0, 0, marks=1, tables=64)), is_due_after_drop(Growth(0, 0, marks=1, tables=65))
    (True, False)
    """
    return since.marks * TABLES_PER_DROP >= since.tables


def is_due_on_close(*, next_offset: int, snapshot_offset: int, marks: int) -> bool:
    """Whether the next open would read anything that a snapshot spares it; `marks`: also those that still wait.

    >>> is_due_on_close(next_offset=7, snapshot_offset=7, marks=0)
    False
    """
    return marks > 0 or next_offset != snapshot_offset
