"""Write times follow the log (R24)."""

import pytest

from cordwood.store.cassandra.write_time import (
    OLDEST_SECONDS,
    SEGMENTS_MAX,
    TooOld,
    freshness,
    is_whole,
    segments_through,
    write_time,
)


def test_write_times_are_in_the_order_of_offsets() -> None:
    assert write_time(1_000, 7) == 1_007
    assert write_time(2**62, 2**63 - 1) == 2**63 - 1, "the last one that Cassandra has"


@pytest.mark.parametrize(
    ("seq_nr", "size", "segments"),
    [(0, 10, []), (1, 10, [0]), (10, 10, [0]), (11, 10, [0, 1]), (35, 10, [0, 1, 2, 3]), (5, 2, [0, 1, 2])],
)
def test_tombstones_cover_every_segment_up_to_a_number(seq_nr: int, size: int, segments: list[int]) -> None:
    assert list(segments_through(seq_nr, size)) == segments


def test_a_huge_number_has_a_limited_number_of_tombstones() -> None:
    covered = segments_through(10**18, 10_000)
    assert len(covered) == SEGMENTS_MAX
    assert covered[-1] == (10**18 - 1) // 10_000


@pytest.mark.parametrize(
    ("segment", "through", "whole"), [(0, 9, False), (0, 10, True), (0, 11, True), (1, 19, False), (1, 20, True)]
)
def test_a_segment_is_whole_if_all_of_its_numbers_go(segment: int, through: int, whole: bool) -> None:
    assert is_whole(segment, 10, through) is whole


def test_a_batch_is_too_old_after_an_hour() -> None:
    now = 100.0
    check = freshness(100.0, lambda: now)
    check()
    now = 100.0 + OLDEST_SECONDS
    check()
    now += 0.1
    with pytest.raises(TooOld):
        check()
