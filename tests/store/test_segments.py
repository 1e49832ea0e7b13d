"""Segments are those of a running Scala service: the values come from one."""

import pytest

from cordwood.store.segments import head_segments, java_hash, segment_of


@pytest.mark.parametrize(
    ("id", "hash_of_lower_case", "segment", "segment_of_100"),
    [
        ("id", 3355, 3355, 55),
        ("ID", 3355, 3355, 55),
        ("", 0, 0, 0),
        ("journal ID", 969045668, 5668, 68),
        ("persistence-1", -1839195005, 5005, 5),
        ("пример", 2093157392, 7392, 92),
        ("İstanbul", -643200019, 19, 19),
        ("ΑΣ", 30257, 257, 57),
        ("ß", 223, 223, 23),
        ("\U0001f600id", 1703759294, 9294, 94),
        ("polygenelubricants", -2147483648, 3648, 48),
        ("00000000-0000-0000-0000-000000000000", 1428967488, 7488, 88),
    ],
)
def test_a_head_row_is_in_the_segment_of_the_scala_library(
    id: str, hash_of_lower_case: int, segment: int, segment_of_100: int
) -> None:
    assert java_hash(id.lower()) == hash_of_lower_case
    assert head_segments(id).now == segment
    assert head_segments(id).old == segment_of_100


@pytest.mark.parametrize(
    ("seq_nr", "size", "segment"),
    [(1, 2, 0), (2, 2, 0), (3, 2, 1), (10_000, 10_000, 0), (10_001, 10_000, 1), (2**63 - 1, 2, 2**62 - 1)],
)
def test_an_event_row_is_in_the_segment_of_its_number(seq_nr: int, size: int, segment: int) -> None:
    assert segment_of(seq_nr, size) == segment
