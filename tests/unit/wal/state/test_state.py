"""What follows from a data log, record by record."""

import pytest

from cordwood.errors import Corrupt
from cordwood.wal.record import NOBODY, OwnerRecord, WriteRecord
from cordwood.wal.state.fence import Fence
from cordwood.wal.state.state import MAPPING_PAIRS_MAX, RegionState


def owned() -> RegionState:
    state = RegionState()
    assert state.apply(0, OwnerRecord(NOBODY, 0, 1, "somebody"))
    return state


def test_a_table_moves_with_each_write_that_counts() -> None:
    state = owned()
    assert state.apply(1, WriteRecord(0, 0, 42, 1, 2, memoryview(b"")))
    assert state.apply(2, WriteRecord(0, 2, 43, 1, 1, memoryview(b"")))
    assert state.apply(3, WriteRecord(0, 3, 42, 3, 1, memoryview(b"")))
    assert not state.apply(4, WriteRecord(0, 0, 42, 1, 2, memoryview(b"")))
    tables = state.tables()
    assert (tables[42].next_sequence, tables[42].high_watermark, dict(tables[42].mapping)) == (4, 4, {1: 1, 3: 3})
    assert (tables[43].next_sequence, tables[43].high_watermark, dict(tables[43].mapping)) == (2, 3, {1: 2})
    assert (state.next_offset, state.fence.running_count) == (5, 4)


def test_numbers_that_go_back_are_damage() -> None:
    state = owned()
    state.apply_write(1, 0, 0, 42, 5, 2)
    with pytest.raises(Corrupt, match="table 42 goes back to 6 at offset 2, from 7"):
        state.apply_write(2, 0, 2, 42, 6, 1)


def test_a_mapping_stays_small_its_first_entry_exact_and_every_entry_true() -> None:
    state = owned()
    for write in range(10_000):
        state.apply_write(1 + 2 * write, 0, 3 * write, 42, 1 + 3 * write, 3)
    mapping = state.tables()[42].mapping
    assert len(mapping) <= MAPPING_PAIRS_MAX
    assert next(iter(mapping.items())) == (1, 1)
    for first, offset in mapping.items():
        assert offset == 1 + 2 * ((first - 1) // 3)
    for sequence in (1, 2, 3, 4, 500, 29_999, 30_000):
        found = state.offset_of(42, sequence)
        assert found is not None
        assert found <= 1 + 2 * ((sequence - 1) // 3)
    assert state.offset_of(42, 30_001) is None
    assert state.offset_of(43, 1) is None


def test_r15_a_table_lost_with_a_cut_log_begins_above_the_running_count() -> None:
    state = RegionState(100, Fence(start=100), forgetful=True)
    state.apply_write(100, 57, 1000, 42, 900, 3)
    assert state.next_sequence(42) == 903
    assert state.next_sequence(43) == 1004
    assert owned().next_sequence(43) == 1
