"""What a region is: its last snapshot, all marks, and the data log from the snapshot's high watermark on.

So an open costs what was written since the snapshot, however large the region is and however long a table was idle.
What is missing is made good where it can be, and said where it cannot.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from itertools import islice
from typing import Final

from cordwood.errors import Corrupt, Trimmed, Unavailable
from cordwood.wal.data_log import DataLog
from cordwood.wal.fence import Fence
from cordwood.wal.meta_log import MetaLog
from cordwood.wal.snapshot import state_of
from cordwood.wal.state import RegionState, TableState

ATTEMPTS_MAX: Final = 20
"""Each one more means that the region's owner has made a snapshot and trimmed in the meantime."""
PAUSE_SECONDS: Final = 0.05
TABLES_SHOWN_MAX: Final = 20

_LOGGER = logging.getLogger("cordwood")


async def restore(data: DataLog, meta: MetaLog) -> dict[int, range]:
    """Give the data log its state, applied to the end as of now; what is lost, by table. Nothing is appended."""
    end = 0
    for _ in range(ATTEMPTS_MAX):
        await meta.read()
        data.start, end = await data.log.bounds()
        if meta.snapshot_offset > end:
            await asyncio.sleep(PAUSE_SECONDS)  # a broker that has just become the leader may not know the end yet
            continue
        try:
            return await _restore_once(data, meta)
        except Trimmed:
            continue  # R16: what the last snapshot needs is there, so there is a newer one
    if meta.snapshot_offset > end:
        raise Corrupt(
            f"{data.log.name} ends at {end}, and a snapshot in {meta.log.name} has seen it up to "
            f"{meta.snapshot_offset}: restore the data log, or delete both topics"
        )
    raise _never_still(data)


async def take_over(data: DataLog, meta: MetaLog) -> dict[int, range]:
    """Become the owner of a region, and give its data log its state; what is lost, by table."""
    for _ in range(ATTEMPTS_MAX):
        lost = await restore(data, meta)
        try:
            await data.take()
        except Trimmed:
            continue  # by the earlier owner, between the two
        # R12: data first, so that the id is known; and what the earlier owner still marked is read up to our record.
        await meta.claim(data.owner, data.session, data.who)
        meta.fold.mark(data.state)
        return lost
    raise _never_still(data)


async def _restore_once(data: DataLog, meta: MetaLog) -> dict[int, range]:
    start = data.start
    parts = meta.fold.snapshot
    if parts is None:
        _warn_of_a_rebuild(data, meta, start)
        data.state = RegionState(start, Fence(start), forgetful=start > 0)
        await data.catch_up()
        meta.fold.mark(data.state)
        return {}
    known = state_of(parts)
    meta.fold.mark(known)
    if start <= parts[0].trim_target:
        data.state = known
        await data.catch_up()
        return {}
    # R16: above the trim target nobody of ours trims. All that is left is read, to say what is not.
    data.state = RegionState(start, Fence(start), forgetful=known.forgetful or start > known.next_offset)
    await data.catch_up()
    lost = _merge(data.state, known, start)
    _LOGGER.warning("%s was cut before offset %d, and lost are: %s", data.log.name, start, _shown(lost))
    return lost


def _never_still(data: DataLog) -> Unavailable:
    return Unavailable(f"{data.log.name} was trimmed {ATTEMPTS_MAX} times while it was read: open the region again")


def _warn_of_a_rebuild(data: DataLog, meta: MetaLog, start: int) -> None:
    if meta.cut:
        _LOGGER.warning(
            "%s was cut before offset %d, and has no snapshot: tables are made from %s, deleted logs may come back",
            meta.log.name, meta.start, data.log.name,
        )  # fmt: skip
    if start:
        _LOGGER.warning(
            "%s was cut before offset %d: logs of its tables may be lost, those of the offsets 0 to %d",
            data.log.name, start, start - 1,
        )  # fmt: skip


def _merge(state: RegionState, known: RegionState, start: int) -> dict[int, range]:
    """Put what was known of the tables into a state that was made from what is left; what is lost, by table."""
    lost: dict[int, range] = {}
    blind = start > known.next_offset  # whether there were writes that no snapshot has seen and no record is left of
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
            seen.next_sequence = max(was.next_sequence, state.fence.logs + 1 if blind else 0)
            if was.dropped:
                seen.dropped_through = seen.next_sequence - 1
        seen = state.table_states[table]
        seen.next_sequence = max(seen.next_sequence, was.next_sequence)
        if was.deleted_through:
            state.mark(table, was.deleted_through)
    return lost


def _first_live(table: TableState) -> int:
    """Its mapping may begin behind its mark: what was lost before is not lost again."""
    return max(table.deleted_through + 1, table.mapping[0][0]) if table.mapping else table.next_sequence


def _note(lost: dict[int, range], table: int, start: int, stop: int) -> None:
    if start < stop:
        lost[table] = range(start, stop)


def _shown(lost: Mapping[int, range]) -> str:
    shown = [
        f"table {table}: {numbers[0]} to {numbers[-1]}" for table, numbers in islice(lost.items(), TABLES_SHOWN_MAX)
    ]
    more = len(lost) - len(shown)
    return "; ".join((*shown, *([f"and of {more} more tables"] if more > 0 else []))) or "no logs that are known of"
