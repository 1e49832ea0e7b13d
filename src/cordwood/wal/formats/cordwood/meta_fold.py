"""Folding the records of a meta log: its owner, all marks, and the last snapshot. No I/O."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from cordwood.wal.formats.cordwood.meta_record import DROPPED, Marks, MetaOwner, MetaRecord, SnapshotPart
from cordwood.wal.record import NOBODY
from cordwood.wal.state.state import RegionState


@dataclass(slots=True)
class MetaFold:
    """Fed with the records of a meta log in their order, from the first one that is kept."""

    owner: int = NOBODY
    """The highest owner's id so far."""
    who: str = "somebody"
    marks: dict[int, int] = field(default_factory=dict)
    """All marks, before and after any snapshot: they fold by maximum, so none can be wrong."""
    drops: dict[int, int] = field(default_factory=dict)
    snapshot: list[SnapshotPart] | None = None
    """The complete one with the highest watermark, of several the one that was made last."""
    outdated: list[SnapshotPart] | None = None
    """The last one of a data log that has lost its end since: its tables were true, its offsets are not."""
    _parts: dict[tuple[int, int], dict[int, SnapshotPart]] = field(default_factory=dict)

    def take(self, record: MetaRecord) -> bool:
        """Take in the next record; whether it counts."""
        if isinstance(record, MetaOwner) and record.anew:
            self.outdated, self.snapshot = self.snapshot or self.outdated, None
            self.owner = NOBODY
        # R12: an owner's id is an offset of the data log, so the higher one is the later one, wherever they meet.
        if record.owner < self.owner:
            return False
        if record.owner > self.owner:
            self.owner = record.owner
            self.who = "somebody"
            self._parts.clear()  # a snapshot that an earlier owner began can't become complete any more
        if isinstance(record, MetaOwner):
            self.who = record.who
        elif isinstance(record, Marks):
            for table, through, dropped in zip(record.tables, record.through, record.dropped, strict=True):
                self.marks[table] = max(through, self.marks.get(table, 0))
                if dropped:
                    self.drops[table] = max(through, self.drops.get(table, 0))
        else:
            self._take_part(record)
        return True

    def _take_part(self, record: SnapshotPart) -> None:
        key = record.owner, record.number
        parts = self._parts.setdefault(key, {})
        parts[record.part] = record
        if len(parts) < record.parts:
            return  # R14: only a complete set counts
        del self._parts[key]
        # R13: the one that has seen most; none may go back below a known watermark. Marks move no watermark: of
        # equal ones it is the one that was made last, not the one that arrived last.
        if self.snapshot is None or _age(record) >= _age(self.snapshot[0]):
            self.snapshot = [parts[part] for part in sorted(parts)]

    async def mark(self, state: RegionState) -> None:
        """Fold all marks into a state, those of the snapshot too: it may be newer than the one that the state is of."""
        for table, through in self.marks.items():
            state.mark(table, through)
        for table, through in self.drops.items():
            state.mark(table, through, dropped=True)
        for part in self.snapshot or self.outdated or ():
            for table, next_, through, high in zip(
                part.tables, part.next_sequences, part.deleted_through, part.high_watermarks, strict=True
            ):
                if high == DROPPED:
                    state.mark(table, next_ - 1, dropped=True)
                elif through:
                    state.mark(table, through)
            await asyncio.sleep(0)  # a part may have thousands of tables


def _age(part: SnapshotPart) -> tuple[int, int, int]:
    return part.high_watermark, part.owner, part.number
