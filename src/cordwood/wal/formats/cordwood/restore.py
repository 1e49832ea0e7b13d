"""Opening a region: from its last snapshot, all marks, and the data log from the snapshot's high watermark on.

So an open reads the records since the snapshot, however large the region is and however long a table was idle. It
rebuilds missing parts where it can, and reports the rest as lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from itertools import islice
from typing import Final, NamedTuple

from cordwood.errors import Trimmed, Unavailable
from cordwood.wal.formats.cordwood.data_log import DataLog
from cordwood.wal.formats.cordwood.meta_log import MetaLog
from cordwood.wal.formats.cordwood.snapshot import state_of
from cordwood.wal.state.fence import Fence
from cordwood.wal.state.state import RegionState, TableState

ATTEMPTS_MAX: Final = 20
"""Each one more means that the region's owner has made a snapshot and trimmed in the meantime."""
LOOKS_MAX: Final = 5
PAUSE_SECONDS: Final = 0.1
"""How often a data log that is shorter than it was is looked at again, and after which time."""
TABLES_SHOWN_MAX: Final = 20

_LOGGER = logging.getLogger("cordwood.wal")


class Restored(NamedTuple):
    lost: dict[int, range]
    """Sequence numbers of entries that are missing, by table, as far as they are known."""
    shortened: bool = False
    """Whether the data log has lost its end: its offsets come again, and with them the ids of owners."""
    gaps: bool = False
    """Whether the meta log does not say all that is known now."""


async def restore(data: DataLog, meta: MetaLog) -> Restored:
    """Give the data log its state, applied to the end as of now. Nothing is appended."""
    for _ in range(ATTEMPTS_MAX):
        try:
            return await _restore_once(data, meta)
        except Trimmed:
            continue  # R16: what the last snapshot needs is there, so there is a newer one
    raise _never_still(data)


async def take_over(data: DataLog, meta: MetaLog) -> Restored:
    """Become the owner of a region, and give its data log its state."""
    for _ in range(ATTEMPTS_MAX):
        found = await restore(data, meta)
        try:
            await data.take()
            # R12: data first, so that the id is known; what the earlier owner still marked is read up to our record.
            await meta.claim(data.owner, data.session, data.who, anew=found.shortened)
            await meta.fold.mark(data.state)
            if (last := data.state.last_number) > data.state.fence.running_count:
                # R15: a drop covers writes that were under way; it is durable, and they never were. If the meta log is
                # lost, the count is all that tells of their numbers.
                await data.renew(last)
        except Trimmed:
            continue  # by another owner, between the two
        return found
    raise _never_still(data)


async def _restore_once(data: DataLog, meta: MetaLog) -> Restored:
    end, shortened = await _look(data, meta)
    start = data.start
    parts = meta.fold.snapshot or meta.fold.outdated
    if parts is None:
        _warn_of_a_rebuild(data, meta, start)
        data.state = RegionState(start, Fence(start), forgetful=start > 0 or shortened)
        if start < end:
            await data.catch_up()
        await meta.fold.mark(data.state)
        return Restored({}, shortened, shortened or meta.cut)
    known = await state_of(parts)
    await meta.fold.mark(known)
    if not shortened and meta.fold.snapshot is not None and start <= parts[0].trim_target:
        data.state = known
        if known.next_offset < end:
            await data.catch_up()
        return Restored({})
    # R16: no owner trims above the trim target. Reading all that is left shows which entries are lost.
    data.state = RegionState(start, Fence(start), forgetful=known.forgetful or start > known.next_offset or shortened)
    await data.catch_up()
    if not shortened and meta.fold.snapshot is None:
        _merge(data.state, known, start)  # reported when it was found, and no snapshot was made since
        return Restored({}, gaps=True)
    lost = _merge(data.state, known, start)
    what = "lost its end" if shortened else f"was cut before offset {start}"
    _LOGGER.warning("%s %s, and these entries are lost: %s", data.log.name, what, _shown(lost))
    return Restored(lost, shortened, gaps=True)


async def _look(data: DataLog, meta: MetaLog) -> tuple[int, bool]:
    """Read the meta log; where the data log ends, and whether that is before what the meta log has seen of it."""
    end = 0
    for _ in range(LOOKS_MAX):
        await meta.read()
        data.start, end = await data.log.bounds()
        if max(meta.snapshot_offset, meta.fold.owner + 1) <= end:
            return end, False
        await asyncio.sleep(PAUSE_SECONDS)  # a broker that has just become the leader may not know the end yet
    return end, True


def _never_still(data: DataLog) -> Unavailable:
    return Unavailable(
        f"{data.log.name} was trimmed {ATTEMPTS_MAX} times while it was read: open the region again", reason="failed"
    )


def _warn_of_a_rebuild(data: DataLog, meta: MetaLog, start: int) -> None:
    if meta.cut:
        _LOGGER.warning(
            "%s was cut before offset %d, and has no snapshot: tables are rebuilt from %s, deleted entries may return",
            meta.log.name, meta.start, data.log.name,
        )  # fmt: skip
    if start:
        _LOGGER.warning(
            "%s was cut before offset %d: entries of its tables may be lost, at the offsets 0 to %d",
            data.log.name, start, start - 1,
        )  # fmt: skip


def _merge(state: RegionState, known: RegionState, start: int) -> dict[int, range]:
    """Merge the known tables into a state that was rebuilt from the rest of the log; return the lost entries."""
    lost: dict[int, range] = {}
    blind = start > known.next_offset  # whether there were writes that no snapshot has seen and no record is left of
    # R15: whatever numbers are lost, the running count stays above them.
    state.fence.running_count = max(state.fence.running_count, known.fence.running_count)
    for table, seen in state.all_tables():
        was = known.table_states.get(table)
        first = seen.mapping[0][0] if seen.mapping else seen.next_sequence
        if was is not None:
            _note(lost, table, _first_live(was), first)
        elif blind:
            _note(lost, table, 1, first)
    for table, was in known.all_tables():
        if table not in state.table_states:
            _note(lost, table, _first_live(was), was.next_sequence)
            seen = state.table_states[table] = TableState()
            seen.high_watermark = was.high_watermark
            # R15: if there were writes that nobody knows of, they had any number up to the running count.
            seen.next_sequence = max(was.next_sequence, state.fence.running_count + 1 if blind else 0)
            if was.dropped:
                seen.dropped_through = seen.next_sequence - 1
        seen = state.table_states[table]
        if seen.next_sequence < was.next_sequence:
            _note(lost, table, max(seen.next_sequence, _first_live(was)), was.next_sequence)
            seen.next_sequence = was.next_sequence
        if was.deleted_through:
            state.mark(table, was.deleted_through)
    return lost


def _first_live(table: TableState) -> int:
    """Its mapping may begin after its mark: entries that were lost before are not lost again."""
    return max(table.deleted_through + 1, table.mapping[0][0]) if table.mapping else table.next_sequence


def _note(lost: dict[int, range], table: int, start: int, stop: int) -> None:
    if start < stop:
        found = lost.get(table, range(start, stop))
        lost[table] = range(min(found.start, start), max(found.stop, stop))


def _shown(lost: Mapping[int, range]) -> str:
    shown = [
        f"table {table}: {numbers[0]} to {numbers[-1]}" for table, numbers in islice(lost.items(), TABLES_SHOWN_MAX)
    ]
    more = len(lost) - len(shown)
    return "; ".join((*shown, *([f"and of {more} more tables"] if more > 0 else []))) or "no entries that are known of"
