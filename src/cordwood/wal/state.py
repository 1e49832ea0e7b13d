"""What the owner of a region knows of its tables: made by applying the data log, and by nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from cordwood.errors import Corrupt
from cordwood.wal.codec import DataRecord, OwnerRecord
from cordwood.wal.fence import Fence

MAPPING_ENTRIES_MAX: Final = 64
"""A table's mapping is thinned out beyond this: it says where to begin to read, not where each log is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMeta:
    """A table as its region knows it.

    >>> TableMeta(next_sequence=3, high_watermark=2, mapping={1: 1}).next_sequence
    3
    """

    next_sequence: int
    """The number that its next log gets."""
    high_watermark: int
    """One past the offset of its last write."""
    mapping: MappingProxyType[int, int] | dict[int, int]
    """Where logs lie: from this sequence number on, at this offset or behind; at most 64 entries, the first exact."""


class _Table:
    __slots__ = ("high_watermark", "mapping", "next_sequence")

    def __init__(self) -> None:
        self.next_sequence = 1
        self.high_watermark = 0
        self.mapping: list[tuple[int, int]] = []


@dataclass(slots=True)
class RegionState:
    """The tables, who owns the region, and how far the data log has been applied.

    It begins where the data log does, or with what a snapshot said of an offset.
    """

    next_offset: int = 0
    """The first offset that is not applied yet."""
    fence: Fence = field(default_factory=Fence)
    _tables: dict[int, _Table] = field(default_factory=dict)

    def apply(self, offset: int, record: DataRecord) -> bool:
        """Take in the next record of the data log; whether it counts."""
        if isinstance(record, OwnerRecord):
            self.next_offset = offset + 1
            return self.fence.takes_owner(offset, record)
        return self.apply_write(offset, record.owner, record.logs, record.table, record.first, record.length)

    def apply_write(self, offset: int, owner: int, logs: int, table: int, first: int, count: int) -> bool:
        """As `apply`, for a write whose numbers are known: its owner does not read what it has just written."""
        self.next_offset = offset + 1
        if not self.fence.takes_write(owner, logs, count):
            return False
        meta = self._tables.get(table)
        if meta is None:
            meta = self._tables[table] = _Table()
        if first < meta.next_sequence:
            raise Corrupt(f"table {table} goes back to {first} at offset {offset}, from {meta.next_sequence}")
        meta.next_sequence = first + count
        meta.high_watermark = offset + 1
        mapping = meta.mapping
        mapping.append((first, offset))
        if len(mapping) > MAPPING_ENTRIES_MAX:
            del mapping[1::2]
        return True

    def next_sequence(self, table: int) -> int:
        meta = self._tables.get(table)
        if meta is not None:
            return meta.next_sequence
        # R15: a table of which nothing is left may have had any number up to the running count.
        return self.fence.logs + 1 if self.fence.start else 1

    def offset_of(self, table: int, sequence: int) -> int | None:
        """Where to begin to look for this log of a table; None: there is nothing of it from there on."""
        meta = self._tables.get(table)
        if meta is None or sequence >= meta.next_sequence:
            return None
        return next((offset for first, offset in reversed(meta.mapping) if first <= sequence), meta.mapping[0][1])

    def tables(self) -> dict[int, TableMeta]:
        return {
            table: TableMeta(
                next_sequence=meta.next_sequence,
                high_watermark=meta.high_watermark,
                mapping=MappingProxyType(dict(meta.mapping)),
            )
            for table, meta in sorted(self._tables.items())
        }
