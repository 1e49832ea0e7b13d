"""Dividing a region: its data log among tasks, and its entries among buckets. No I/O."""

from bisect import bisect_left
from collections.abc import Collection
from itertools import pairwise

from cordwood.wal.state.state import RegionState

TASK_BYTES = 64 * 1024 * 1024
"""About as much of the data log as a task reads."""
BUCKET_BYTES = 32 * 1024 * 1024
"""About as much as a task sorts."""


def ranges(state: RegionState) -> list[tuple[int, int]]:
    """The offsets [start, stop) of each task. R45: each begins at a write that counts, as every mapping names them."""
    start, stop = state.oldest_live, state.next_offset
    if start is None:
        return []
    pieces = -(-state.bytes_from(start) // TASK_BYTES) or 1
    known = sorted({offset for table in state.table_states.values() for _, offset in table.mapping})
    cuts = {start}
    for piece in range(1, pieces):
        at = bisect_left(known, start + (stop - start) * piece // pieces)
        if at < len(known):
            cuts.add(known[at])
    return list(pairwise([*sorted(cuts), stop]))


def bucket_count(state: RegionState) -> int:
    """Into how many buckets the live entries go."""
    start = state.oldest_live
    return 1 if start is None else -(-state.bytes_from(start) // BUCKET_BYTES) or 1


def bucket_starts(state: RegionState, tables: Collection[int] | None, count: int) -> list[tuple[int, int]]:
    """The (table, sequence) at which each bucket but the first begins: all buckets have as many numbers.

    A large table is in several buckets, and a bucket may have many tables.
    """
    live = [
        (table, meta.deleted_through + 1, meta.next_sequence - 1 - meta.deleted_through)
        for table, meta in state.all_tables()
        if tables is None or table in tables
    ]
    total = sum(numbers for *_, numbers in live)
    starts: list[tuple[int, int]] = []
    passed = 0
    for table, first, numbers in live:
        while len(starts) < count - 1 and (place := total * (len(starts) + 1) // count) < passed + numbers:
            starts.append((table, first + place - passed))
        passed += numbers
    return starts
