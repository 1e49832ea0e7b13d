"""What the records of a meta log come to: the histories of R12, R13 and R14, without a log."""

import asyncio

import pytest

from cordwood.wal.formats.cordwood import snapshot
from cordwood.wal.formats.cordwood.meta_fold import MetaFold
from cordwood.wal.formats.cordwood.meta_record import Marks, MetaOwner, SnapshotPart
from cordwood.wal.formats.cordwood.snapshot import snapshot_of, state_of
from cordwood.wal.record import NOBODY, OwnerRecord
from cordwood.wal.state.state import RegionState


def state_with(tables: int, writes: int) -> RegionState:
    state = RegionState()
    state.apply(0, OwnerRecord(NOBODY, 0, 1, "somebody"))
    for write in range(writes):
        table = write % tables
        state.apply_write(1 + write, 0, 2 * write, table, 1 + 2 * (write // tables), 2)
        state.note_growth(1, 100)
    return state


async def parts_of(state: RegionState, owner: int = 0, number: int = 1) -> list[SnapshotPart]:
    return list((await snapshot_of(state, owner, number, 1 << 20)).parts())


async def snapshot_at(high_watermark: int, owner: int = 0, number: int = 1) -> SnapshotPart:
    (part,) = await parts_of(state_with(2, high_watermark - 1), owner, number)
    assert part.high_watermark == high_watermark
    return part


async def test_r12_the_highest_owner_wins_and_a_later_lower_one_is_void() -> None:
    fold = MetaFold()
    assert fold.take(MetaOwner(20, 1, "new:2"))
    assert not fold.take(MetaOwner(10, 2, "old:1"))
    assert not fold.take(Marks(10, [42], [9], [0]))
    assert not fold.take(await snapshot_at(9, owner=10))
    assert fold.take(Marks(20, [42], [3], [0]))
    assert (fold.owner, fold.who, fold.marks, fold.snapshot) == (20, "new:2", {42: 3}, None)


async def test_r13_the_snapshot_with_the_highest_watermark_is_taken() -> None:
    fold = MetaFold()
    late = await snapshot_at(5, number=1)
    assert fold.take(await snapshot_at(9, number=2))
    assert fold.take(late)
    assert fold.snapshot == [await snapshot_at(9, number=2)]
    fold.take(await snapshot_at(9, number=3))
    assert fold.snapshot is not None
    assert fold.snapshot[0].number == 3, "of equal ones the later: it has seen more marks"
    fold.take(await snapshot_at(9, number=2))
    assert fold.snapshot[0].number == 3, "by when it was made, not by when it arrived"
    fold.take(await snapshot_at(9, owner=4, number=1))
    assert fold.snapshot[0].owner == 4, "numbers are those of an owner"


async def test_marks_fold_by_maximum_in_every_order_and_however_often() -> None:
    marks = [Marks(0, [1, 0], [3, 2], [0, 0]), Marks(0, [1], [4], [1]), Marks(0, [1], [1], [0])]
    states = []
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2, 1, 0)):
        fold = MetaFold()
        for each in order:
            fold.take(marks[each])
        state = state_with(2, 6)
        await fold.mark(state)
        states.append(state)
    assert states[0].tables() == states[1].tables() == states[2].tables()
    assert states[0].tables()[1].deleted_through == 4


async def test_r14_only_a_complete_set_of_parts_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "PART_BYTES_MAX", 200)
    state = state_with(10, 40)
    parts = await parts_of(state)
    assert len(parts) > 3
    assert {part.parts for part in parts} == {len(parts)}
    for missing in range(len(parts)):
        fold = MetaFold()
        for part in parts[:missing] + parts[missing + 1 :]:
            fold.take(part)
        assert fold.snapshot is None
        fold.take(parts[missing]._replace(number=2))
        assert fold.snapshot is None, "a part of another snapshot"
        fold.take(parts[missing])
        assert fold.snapshot == parts, "in whatever order they arrive"
    fold = MetaFold()
    for part in parts[1:]:
        fold.take(part)
    fold.take(MetaOwner(50, 1, "new:1"))
    fold.take(parts[0])
    assert fold.snapshot is None, "its owner was fenced before it was complete"


async def test_a_state_is_the_same_after_it_was_a_snapshot() -> None:
    state = state_with(5, 1000)
    state.mark(0, 100)
    state.mark(1, 399)
    state.mark(2, 400)
    state.mark(3, 400, dropped=True)
    parts = await parts_of(state)
    again = await state_of(parts)
    assert again.tables() == state.tables()
    assert list(again.tables()) == [0, 1, 2, 4]
    for name in ("next_offset", "forgetful", "writes", "bytes", "positions", "deleted", "trim_target"):
        assert getattr(again, name) == getattr(state, name), name
    assert (again.fence.owner, again.fence.running_count) == (state.fence.owner, state.fence.running_count)
    for table in range(6):
        assert again.next_sequence(table) == state.next_sequence(table)
    # And it continues as the one that was not stored does.
    for each in (state, again):
        for write in range(500):
            each.apply_write(2000 + write, 0, 2000 + write, 4, 401 + write, 1)
            each.note_growth(1, 10)
    assert again.tables() == state.tables()
    assert again.positions == state.positions


async def test_r13_a_snapshot_is_of_one_moment_though_tables_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshot, "TABLES_PER_TURN", 2)
    state, same = state_with(10, 40), state_with(10, 40)
    making = asyncio.ensure_future(snapshot_of(state, 0, 1, 1 << 20))
    turns = 0
    while not making.done():
        await asyncio.sleep(0)
        turns += 1
        # A write that counts, and a mark: of a table whose turn was, of one whose turn comes last, and of a new one.
        for table in (0, 10 - turns, 100 + turns):
            first = state.next_sequence(table)
            state.apply_write(state.next_offset, 0, state.fence.running_count, table, first, 1)
            state.note_growth(1, 10)
            state.mark(table, first)
    assert turns >= 3, "the loop has its turns"
    (part,) = making.result().parts()
    assert sorted(part.tables) == list(range(10))
    again = await state_of([part])
    assert again.tables() == same.tables() != state.tables()
    assert again.deleted == same.deleted == {}
    for name in ("next_offset", "writes", "bytes", "positions", "trim_target"):
        assert getattr(again, name) == getattr(same, name), name
    assert (part.trim_target, making.result().trim_target) == (same.trim_target, same.trim_target)
    assert state.before_change is None


async def test_of_a_data_log_that_lost_its_end_ids_and_watermarks_begin_anew() -> None:
    fold = MetaFold()
    fold.take(MetaOwner(20, 1, "old:1"))
    fold.take(Marks(20, [1], [3], [0]))
    fold.take(await snapshot_at(30, owner=20))
    assert fold.take(MetaOwner(5, 2, "new:2", anew=True))
    assert (fold.owner, fold.who, fold.snapshot, fold.marks) == (5, "new:2", None, {1: 3})
    assert fold.outdated is not None
    assert not fold.take(MetaOwner(4, 3, "late:3"))
    assert fold.take(await snapshot_at(9, owner=5))
    assert fold.snapshot == [await snapshot_at(9, owner=5)], "though an older one has seen more of the old log"
