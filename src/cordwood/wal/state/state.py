"""The tables of a region: a state that only records of the data log and marks change.

Every number of a table only grows, and marks fold by maximum: the order in which marks and records are applied does not
matter, and a mark that is applied twice changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from types import MappingProxyType
from typing import Final

from cordwood.errors import Corrupt
from cordwood.wal.record import DataRecord, OwnerRecord
from cordwood.wal.state.fence import Fence

MAPPING_PAIRS_MAX: Final = 64
"""A table's mapping is thinned out beyond this: it says where to begin to read, not where each entry is."""

_number = itemgetter(0)
_offset = itemgetter(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMeta:
    """A table as its region knows it.

    >>> TableMeta(next_sequence=3, deleted_through=1, high_watermark=2, mapping={1: 1}).next_sequence
    3
    """

    next_sequence: int
    """The sequence number of its next entry."""
    deleted_through: int
    """Entries up to this number are marked deleted; 0: none."""
    high_watermark: int
    """One past the offset of its last write."""
    mapping: MappingProxyType[int, int] | dict[int, int]
    """Where live entries are: from this sequence number on, at this offset or later. It has at most 64 pairs, the first
    one at the oldest live entry or before it."""


class TableState:
    """A table while the log is applied."""

    __slots__ = ("deleted_through", "dropped_through", "high_watermark", "mapping", "next_sequence")

    def __init__(self) -> None:
        self.next_sequence = 1
        self.deleted_through = 0
        self.dropped_through = 0
        self.high_watermark = 0
        self.mapping: list[tuple[int, int]] = []

    @property
    def dropped(self) -> bool:
        """Whether it was dropped, and not written since."""
        return self.dropped_through > 0 and self.dropped_through == self.next_sequence - 1

    def mark(self, through: int, dropped: bool) -> None:
        self.deleted_through = max(self.deleted_through, through)
        # R15: also where the writes that had these numbers are lost.
        self.next_sequence = max(self.next_sequence, through + 1)
        if dropped:
            self.dropped_through = max(self.dropped_through, through)
        live = self.deleted_through + 1
        if live == self.next_sequence:
            self.mapping.clear()
        else:
            # Rounded down to a pair: it may name a deleted entry, and no live entry is before it.
            del self.mapping[: max(0, bisect_right(self.mapping, live, key=_number) - 1)]

    def grow(self, first: int, after: int, offset: int) -> None:
        """Entries with the numbers [first, after) are at this offset."""
        if after <= self.deleted_through + 1:  # its mark was applied before it
            self.next_sequence = max(self.next_sequence, after)
            return
        self.next_sequence = after
        mapping = self.mapping
        mapping.append((first, offset))
        if len(mapping) > MAPPING_PAIRS_MAX:
            self.mapping = thinned(mapping, _offset)

    def meta(self) -> TableMeta:
        return TableMeta(
            next_sequence=self.next_sequence,
            deleted_through=self.deleted_through,
            high_watermark=self.high_watermark,
            mapping=MappingProxyType(dict(self.mapping)),
        )


@dataclass(slots=True)
class RegionState:
    """The tables, the owner, and up to which offset the data log is applied.

    It begins where the data log does, or with what a snapshot said of an offset.
    """

    next_offset: int = 0
    """The first offset that is not applied yet."""
    fence: Fence = field(default_factory=Fence)
    last_counted: int = 0
    """The offset of the last record that counts; after a snapshot, of one that counts and may not be the last."""
    forgetful: bool = False
    """Whether there may have been tables that nothing is known of."""
    writes: int = 0
    """How many records were applied, and their bytes: since the region began, as far as is known."""
    bytes: int = 0
    positions: list[tuple[int, int]] = field(default_factory=list)
    """(offset, bytes before it), by which the size of a part is estimated; thinned out as mappings are."""
    deleted: dict[int, int] = field(default_factory=dict)
    """The last deleted number of each table that has one."""
    table_states: dict[int, TableState] = field(default_factory=dict)
    before_change: Callable[[int], None] | None = None
    """R13: called with each table that is about to change, while a snapshot is made."""

    def apply(self, offset: int, record: DataRecord) -> bool:
        """Take in the next record of the data log; whether it counts."""
        if isinstance(record, OwnerRecord):
            self.next_offset = offset + 1
            counts = self.fence.take_owner(offset, record)
            if counts:
                self.last_counted = offset
            return counts
        return self.apply_write(offset, record.owner, record.running_count, record.table, record.first, record.length)

    def apply_write(self, offset: int, owner: int, running_count: int, table: int, first: int, count: int) -> bool:
        """As `apply`, for a write whose numbers are known: an owner does not read its own writes back."""
        self.next_offset = offset + 1
        if not self.fence.take_write(owner, running_count, count):
            return False
        self.last_counted = offset
        if self.before_change is not None:
            self.before_change(table)
        meta = self.table_of(table)
        meta.high_watermark = offset + 1
        if meta.deleted_through + 1 < first < meta.next_sequence:
            raise Corrupt(f"table {table} goes back to {first} at offset {offset}, from {meta.next_sequence}")
        meta.grow(first, first + count, offset)
        return True

    def pass_over(self, offset: int) -> None:
        """Take in that the next record of the data log cannot be decoded (R45)."""
        self.next_offset = offset + 1
        self.fence.pass_over(offset)

    def note_growth(self, writes: int, size: int) -> None:
        """After records were applied: how many, and of how many bytes."""
        self.writes += writes
        self.bytes += size
        self.positions.append((self.next_offset, self.bytes))
        if len(self.positions) > MAPPING_PAIRS_MAX:
            self.positions = thinned(self.positions, _number)

    def mark(self, table: int, through: int, *, dropped: bool = False) -> None:
        """Delete the entries of a table up to this number; `dropped`: and the table."""
        if self.before_change is not None:
            self.before_change(table)
        meta = self.table_of(table)
        meta.mark(through, dropped)
        self.deleted[table] = meta.deleted_through

    def table_of(self, table: int) -> TableState:
        """The table, made if it is new."""
        meta = self.table_states.get(table)
        if meta is None:
            meta = self.table_states[table] = TableState()
        return meta

    def next_sequence(self, table: int) -> int:
        meta = self.table_states.get(table)
        if meta is not None:
            return meta.next_sequence
        # R15: a table of which nothing is left may have had any number up to the running count.
        return self.fence.running_count + 1 if self.forgetful else 1

    @property
    def last_number(self) -> int:
        """The highest sequence number that an entry of any table has had."""
        return max((meta.next_sequence for meta in self.table_states.values()), default=1) - 1

    def known(self, table: int) -> TableState | None:
        """The table, unless it was never written or is dropped."""
        meta = self.table_states.get(table)
        return None if meta is None or meta.dropped else meta

    def offset_of(self, table: int, sequence: int) -> int | None:
        """The offset from which to look for this entry of a table; None: the table has none from there on."""
        meta = self.table_states.get(table)
        if meta is None or sequence >= meta.next_sequence or not meta.mapping:
            return None
        return meta.mapping[max(0, bisect_right(meta.mapping, sequence, key=_number) - 1)][1]

    def holders(self) -> Iterator[tuple[int, int]]:
        """(offset of its oldest live entry, table) of each table that has one."""
        return ((meta.mapping[0][1], table) for table, meta in self.table_states.items() if meta.mapping)

    @property
    def oldest_live(self) -> int | None:
        """No live entry is before this offset, and a write that counts is there; None: there are no live entries."""
        return min((meta.mapping[0][1] for meta in self.table_states.values() if meta.mapping), default=None)

    @property
    def trim_target(self) -> int:
        """No record before this offset is needed any more."""
        return trim_target(self.oldest_live, self.last_counted)

    def bytes_from(self, offset: int) -> int:
        """An estimate of the bytes from that offset on, never too low."""
        place = bisect_right(self.positions, offset, key=_number)
        return self.bytes - (self.positions[place - 1][1] if place else 0)

    def offset_of_last(self, size: int) -> int:
        """The offset from which on there are about this many bytes, and not more; 0: the start."""
        if self.bytes <= size:
            return 0
        place = bisect_left(self.positions, self.bytes - size, key=_offset)
        return self.positions[place][0] if place < len(self.positions) else self.next_offset

    def prune(self, before: int) -> None:
        """Forget positions before this offset: the estimates for the rest become more exact."""
        del self.positions[: max(0, bisect_right(self.positions, before, key=_number) - 1)]

    def tables(self) -> dict[int, TableMeta]:
        return {table: meta.meta() for table, meta in self.all_tables() if not meta.dropped}

    def all_tables(self) -> Iterator[tuple[int, TableState]]:
        """Dropped ones too, by id."""
        return iter(sorted(self.table_states.items()))


def trim_target(oldest_live: int | None, last_counted: int) -> int:
    """The oldest live entry is needed, and so is the last record that counts: R15, it carries the running count.

    A record that does not count carries an old count, and readers would believe it at the start of a log.
    """
    return last_counted if oldest_live is None else oldest_live


def thinned(pairs: list[tuple[int, int]], place: itemgetter[int]) -> list[tuple[int, int]]:
    """About half of them, the first and the last among them, evenly spread by what `place` gives.

    No gap becomes wider than a sixteenth of the whole. The result depends on the pairs alone, so that it is the same
    after a recovery.
    """
    places = list(map(place, pairs))
    gap = (places[-1] - places[0]) // (MAPPING_PAIRS_MAX // 4)
    kept = pairs[:1]
    reached = places[0]
    for index in range(1, len(pairs) - 1):
        if places[index + 1] - reached > gap:
            kept.append(pairs[index])
            reached = places[index]
    kept.append(pairs[-1])
    return kept
