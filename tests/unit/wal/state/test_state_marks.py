"""What marks do to a state: tables, mappings, and where the data log may be trimmed."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from cordwood.wal.record import NOBODY, OwnerRecord
from cordwood.wal.state.state import MAPPING_PAIRS_MAX, RegionState


def written(counts: list[tuple[int, int]]) -> RegionState:
    """(table, logs) of each write, the first one at offset 1."""
    state = RegionState()
    state.apply(0, OwnerRecord(NOBODY, 0, 1, "somebody"))
    logs = 0
    for offset, (table, count) in enumerate(counts, 1):
        state.apply_write(offset, 0, logs, table, state.next_sequence(table), count)
        logs += count
    return state


def test_a_mark_drops_entries_and_rounds_down_within_a_write() -> None:
    state = written([(42, 3), (43, 1), (42, 3), (42, 3)])
    assert dict(state.tables()[42].mapping) == {1: 1, 4: 3, 7: 4}
    for through, mapping in ((2, {1: 1, 4: 3, 7: 4}), (3, {4: 3, 7: 4}), (5, {4: 3, 7: 4}), (6, {7: 4}), (9, {})):
        state.mark(42, through)
        assert (state.tables()[42].deleted_through, dict(state.tables()[42].mapping)) == (through, mapping)
    state.mark(42, 4)
    assert state.tables()[42].deleted_through == 9, "it never goes back"
    assert state.oldest_live == 2, "the other table's"


def test_a_dropped_table_keeps_its_number_and_a_write_revives_it() -> None:
    state = written([(42, 3), (43, 1)])
    state.mark(42, 3, dropped=True)
    assert list(state.tables()) == [43]
    assert state.known(42) is None
    assert state.next_sequence(42) == 4
    state.apply_write(3, 0, 4, 42, 4, 2)
    assert state.tables()[42].deleted_through == 3
    assert dict(state.tables()[42].mapping) == {4: 3}


def test_a_table_whose_logs_are_all_deleted_is_no_dropped_one() -> None:
    state = written([(42, 3)])
    state.mark(42, 3)
    assert state.tables()[42].next_sequence == 4
    assert state.known(42) is not None


def test_a_write_after_the_drop_that_covers_it_revives_no_table() -> None:
    state = written([(42, 3)])
    state.mark(42, 5, dropped=True)
    state.apply_write(2, 0, 3, 42, 4, 2)
    assert state.tables() == {}
    assert state.next_sequence(42) == 6


def test_r15_the_last_record_is_never_trimmed() -> None:
    state = written([(42, 3), (43, 1)])
    assert state.trim_target == 1
    state.mark(42, 3)
    assert state.trim_target == 2
    state.mark(43, 1, dropped=True)
    assert state.trim_target == 2, "offset 2 is the last record"
    assert not state.apply_write(3, 0, 0, 42, 1, 3)
    assert not state.apply(4, OwnerRecord(77, 0, 1, "void"))
    assert state.trim_target == 2, "what does not count carries an old count"
    assert state.apply(5, OwnerRecord(0, 4, 1, "somebody"))
    assert state.trim_target == 5
    assert RegionState().trim_target == 0


def test_a_mark_of_half_of_a_long_table_frees_about_half_of_the_log() -> None:
    # A mapping that is dense at its end and empty before would round such a mark down to the beginning.
    state = written([(42, 1)] * 10_000)
    state.mark(42, 5_000)
    assert state.oldest_live is not None
    assert 5_000 - 10_000 // 16 <= state.oldest_live <= 5_001
    state.mark(42, 9_900)
    assert state.oldest_live > 9_900 - 10_000 // 16


def test_the_size_of_a_part_is_known_about_and_not_less() -> None:
    state = RegionState()
    for offset in range(5000):
        state.next_offset = offset + 1
        state.note_growth(1, 10)
    assert state.bytes_from(0) == 50_000
    for offset in (1, 700, 2500, 4990):
        exact = 10 * (5000 - offset)
        assert exact <= state.bytes_from(offset) <= exact + 50_000 // 16
        start = state.offset_of_last(exact)
        assert offset <= start <= offset + 5000 // 16
    assert state.offset_of_last(50_000) == 0
    assert len(state.positions) <= MAPPING_PAIRS_MAX


@given(
    writes=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), max_size=12),
    marks=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 12), st.booleans()), max_size=6),
    data=st.data(),
)
def test_marks_and_writes_give_the_same_tables_in_any_order(
    writes: list[tuple[int, int]], marks: list[tuple[int, int, bool]], data: st.DataObject
) -> None:
    # What an open does, snapshot, marks, later writes, is what happened, in another order.
    whole = written(writes)
    valid = [(table, through, dropped) for table, through, dropped in marks if through < whole.next_sequence(table)]
    at = data.draw(st.integers(0, len(writes)))
    mixed = written(writes[:at])
    for table, through, dropped in valid:
        mixed.mark(table, through, dropped=dropped)
    firsts = {table: itertools.count(1) for table in range(3)}
    logs = 0
    for offset, (table, count) in enumerate(writes, 1):
        numbers = [next(firsts[table]) for _ in range(count)]
        if offset > at:
            mixed.apply_write(offset, 0, logs, table, numbers[0], count)
        logs += count
    for table, through, dropped in valid:
        whole.mark(table, through, dropped=dropped)

    def shown(state: RegionState) -> dict[int, tuple[int, int]]:
        return {table: (meta.next_sequence, meta.deleted_through) for table, meta in state.tables().items()}

    assert shown(mixed) == shown(whole)
    for state in (mixed, whole):
        for meta in state.tables().values():
            live = meta.next_sequence - 1 - meta.deleted_through
            assert bool(meta.mapping) == (live > 0)
