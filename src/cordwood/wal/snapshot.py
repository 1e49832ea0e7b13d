"""A region's state as the parts of a snapshot, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cordwood.wal.fence import Fence
from cordwood.wal.meta_codec import DROPPED, HEADER_BYTES, SnapshotPart
from cordwood.wal.state import MAPPING_ENTRIES_MAX, RegionState, TableState

PART_BYTES_MAX: Final = 512 * 1024
"""A part is no larger, also where a record may be."""

_TABLE_BYTES = 33
_ENTRY_BYTES = 16
_OTHER_BYTES = HEADER_BYTES + 40 + _ENTRY_BYTES * MAPPING_ENTRIES_MAX + 8


def parts_of(state: RegionState, owner: int, number: int, record_bytes_max: int) -> list[SnapshotPart]:
    """The state as it is now, in parts of a bounded size; one at least."""
    bytes_max = min(PART_BYTES_MAX, record_bytes_max - _OTHER_BYTES)
    groups: list[list[tuple[int, TableState]]] = [[]]
    size = 0
    for table, meta in state.all_tables():
        weight = _TABLE_BYTES + _ENTRY_BYTES * len(meta.mapping)
        if groups[-1] and size + weight > bytes_max:
            groups.append([])
            size = 0
        groups[-1].append((table, meta))
        size += weight
    trim_target = state.trim_target
    return [_part(state, owner, number, part, len(groups), trim_target, group) for part, group in enumerate(groups)]


def _part(
    state: RegionState,
    owner: int,
    number: int,
    part: int,
    parts: int,
    trim_target: int,
    group: Sequence[tuple[int, TableState]],
) -> SnapshotPart:
    entries = [entry for _, meta in group for entry in meta.mapping]
    positions = state.positions if part == 0 else []
    return SnapshotPart(
        owner=owner,
        number=number,
        part=part,
        parts=parts,
        high_watermark=state.next_offset,  # R13: what is applied, never where the log ends
        trim_target=trim_target,
        logs=state.fence.logs,
        writes=state.writes,
        bytes=state.bytes,
        forgetful=state.forgetful,
        tables=[table for table, _ in group],
        next_sequences=[meta.next_sequence for _, meta in group],
        deleted_through=[meta.deleted_through for _, meta in group],
        # R15: of a dropped table its id and its next number stay.
        high_watermarks=[DROPPED if meta.dropped else meta.high_watermark for _, meta in group],
        entries=[len(meta.mapping) for _, meta in group],
        firsts=[first for first, _ in entries],
        offsets=[offset for _, offset in entries],
        position_offsets=[offset for offset, _ in positions],
        position_bytes=[before for _, before in positions],
    )


def state_of(parts: Sequence[SnapshotPart]) -> RegionState:
    """What the region was when the snapshot was made."""
    first = parts[0]
    state = RegionState(
        next_offset=first.high_watermark,
        fence=Fence(owner=first.owner, logs=first.logs),
        forgetful=first.forgetful,
        writes=first.writes,
        bytes=first.bytes,
        positions=list(zip(first.position_offsets, first.position_bytes, strict=True)),
    )
    for part in parts:
        entries = list(zip(part.firsts, part.offsets, strict=True))
        at = 0
        for table, next_sequence, deleted, high_watermark, count in zip(
            part.tables, part.next_sequences, part.deleted_through, part.high_watermarks, part.entries, strict=True
        ):
            meta = state.table_states[table] = TableState()
            meta.next_sequence = next_sequence
            meta.deleted_through = deleted
            if high_watermark == DROPPED:
                meta.dropped_through = next_sequence - 1
            else:
                meta.high_watermark = high_watermark
            meta.mapping = entries[at : at + count]
            at += count
            if deleted:
                state.deleted[table] = deleted
    return state
