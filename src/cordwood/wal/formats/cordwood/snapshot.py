"""A region's state as the parts of a snapshot, and back."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Final

from cordwood.wal.formats.cordwood.meta_record import DROPPED, HEADER_BYTES, SnapshotPart
from cordwood.wal.state.fence import Fence
from cordwood.wal.state.state import MAPPING_PAIRS_MAX, RegionState, TableState, trim_target

PART_BYTES_MAX: Final = 256 * 1024
"""A part is no larger, also where a record may be: it is encoded in one go."""
TABLES_PER_TURN: Final = 1000
"""After so many tables the loop has its turn: a region of very many must not hold up other tasks."""

_number = itemgetter(0)
_offset = itemgetter(1)
_TABLE_BYTES = 33
_PAIR_BYTES = 16
_OTHER_BYTES = HEADER_BYTES + 40 + _PAIR_BYTES * MAPPING_PAIRS_MAX + 8


class _Columns:
    """The tables of one part, in arrays: objects for each would have the whole process searched for garbage."""

    def __init__(self) -> None:
        self.tables, self.next_sequences, self.deleted_through = array("q"), array("q"), array("q")
        self.high_watermarks, self.pairs = array("q"), array("B")
        self.firsts, self.offsets = array("q"), array("q")

    def add(self, table: int, meta: TableState) -> None:
        self.tables.append(table)
        self.next_sequences.append(meta.next_sequence)
        self.deleted_through.append(meta.deleted_through)
        # R15: of a dropped table its id and its next number stay.
        self.high_watermarks.append(DROPPED if meta.dropped else meta.high_watermark)
        self.pairs.append(len(meta.mapping))
        self.firsts.extend(map(_number, meta.mapping))
        self.offsets.extend(map(_offset, meta.mapping))


class Snapshot:
    """A region as it is when this is made, though its tables are taken down one after the other.

    The state calls `take` for a table that is about to change before its turn.
    """

    def __init__(self, state: RegionState, owner: int, number: int, record_bytes_max: int) -> None:
        self.high_watermark = state.next_offset  # R13: the applied end, never the end of the log
        self.writes = state.writes
        self.bytes = state.bytes
        self._last_counted = state.last_counted
        self._owner = owner
        self._number = number
        self._running_count = state.fence.running_count
        self._forgetful = state.forgetful
        self._positions = state.positions[:]
        self._bytes_max = min(PART_BYTES_MAX, record_bytes_max - _OTHER_BYTES)
        self._left = state.table_states.copy()
        self._order = iter(list(self._left))
        self._parts = [_Columns()]
        self._size = 0
        self._oldest: int | None = None

    @property
    def trim_target(self) -> int:
        """Up to where the data log is not needed any more; known when all tables are taken down."""
        return trim_target(self._oldest, self._last_counted)

    def take_some(self) -> bool:
        """Take down a few tables; whether there are more."""
        for table in islice(self._order, TABLES_PER_TURN):
            self.take(table)
        return bool(self._left)

    def take(self, table: int) -> None:
        """Take down this one, unless it is new, or was taken down before."""
        meta = self._left.pop(table, None)
        if meta is None:
            return
        mapping = meta.mapping
        if mapping and (self._oldest is None or mapping[0][1] < self._oldest):
            self._oldest = mapping[0][1]
        weight = _TABLE_BYTES + _PAIR_BYTES * len(mapping)
        if self._size and self._size + weight > self._bytes_max:
            self._parts.append(_Columns())
            self._size = 0
        self._size += weight
        self._parts[-1].add(table, meta)

    def parts(self) -> Iterator[SnapshotPart]:
        """One at least, each of a bounded size; when all tables are taken down."""
        for part, columns in enumerate(self._parts):
            positions = self._positions if part == 0 else []
            yield SnapshotPart(
                owner=self._owner,
                number=self._number,
                part=part,
                parts=len(self._parts),
                high_watermark=self.high_watermark,
                trim_target=self.trim_target,
                running_count=self._running_count,
                writes=self.writes,
                bytes=self.bytes,
                forgetful=self._forgetful,
                tables=columns.tables.tolist(),
                next_sequences=columns.next_sequences.tolist(),
                deleted_through=columns.deleted_through.tolist(),
                high_watermarks=columns.high_watermarks.tolist(),
                pairs=columns.pairs.tolist(),
                firsts=columns.firsts.tolist(),
                offsets=columns.offsets.tolist(),
                position_offsets=[offset for offset, _ in positions],
                position_bytes=[before for _, before in positions],
            )


async def snapshot_of(state: RegionState, owner: int, number: int, record_bytes_max: int) -> Snapshot:
    """The state as it is at the call, whatever is applied to it until this returns."""
    snapshot = Snapshot(state, owner, number, record_bytes_max)
    state.before_change = snapshot.take
    try:
        more = True
        while more:
            more = snapshot.take_some()
            await asyncio.sleep(0)
    finally:
        state.before_change = None
    return snapshot


async def state_of(parts: Sequence[SnapshotPart]) -> RegionState:
    """What the region was when the snapshot was made."""
    first = parts[0]
    state = RegionState(
        next_offset=first.high_watermark,
        last_counted=first.trim_target,  # a record that counts is there: the oldest live one, or the last
        fence=Fence(owner=first.owner, running_count=first.running_count),
        forgetful=first.forgetful,
        writes=first.writes,
        bytes=first.bytes,
        positions=list(zip(first.position_offsets, first.position_bytes, strict=True)),
    )
    for part in parts:
        _take_part(state, part)
        await asyncio.sleep(0)
    return state


def _take_part(state: RegionState, part: SnapshotPart) -> None:
    pairs = list(zip(part.firsts, part.offsets, strict=True))
    at = 0
    for table, next_sequence, deleted, high_watermark, count in zip(
        part.tables, part.next_sequences, part.deleted_through, part.high_watermarks, part.pairs, strict=True
    ):
        meta = state.table_states[table] = TableState()
        meta.next_sequence = next_sequence
        meta.deleted_through = deleted
        if high_watermark == DROPPED:
            meta.dropped_through = next_sequence - 1
        else:
            meta.high_watermark = high_watermark
        meta.mapping = pairs[at : at + count]
        at += count
        if deleted:
            state.deleted[table] = deleted
