"""Segments and expiry days, by the tables of the Scala library's tests."""

from datetime import UTC, date, datetime

import pytest

from cordwood.store.expiry import expire_on
from cordwood.store.segments import head_segments, java_hash, segment_of

MINUTE = 60 * 10**9
DAY = 86_400 * 10**9


@pytest.mark.parametrize(
    ("id", "hashed", "now", "old"),
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
        ("😀id", 1703759294, 9294, 94),
        ("polygenelubricants", -2147483648, 3648, 48),
    ],
)
def test_a_head_row_is_where_the_scala_library_puts_it(id: str, hashed: int, now: int, old: int) -> None:
    assert java_hash(id.lower()) == hashed
    assert head_segments(id) == (now, old)


@pytest.mark.parametrize(
    ("seq_nr", "size", "segment"),
    [(1, 2, 0), (2, 2, 0), (3, 2, 1), (10, 10, 0), (11, 10, 1), (10_000, 10_000, 0), (10_001, 10_000, 1)],
)
def test_an_event_row_is_where_the_scala_library_puts_it(seq_nr: int, size: int, segment: int) -> None:
    assert segment_of(seq_nr, size) == segment


@pytest.mark.parametrize(
    ("ns", "day"),
    [
        (MINUTE, date(2019, 12, 11)),
        (DAY, date(2019, 12, 12)),
        (0, date(2019, 12, 11)),
        (14 * 60 * MINUTE, date(2019, 12, 12)),
        (-DAY, date(2019, 12, 10)),
        (365 * DAY, date(2020, 12, 10)),
    ],
)
def test_a_journal_expires_on_a_day_in_utc(ns: int, day: date) -> None:
    now = datetime(2019, 12, 11, 10, 10, 10, tzinfo=UTC)
    assert expire_on(int(now.timestamp()) * 1000, ns) == day


def test_a_day_outside_of_the_calendar_is_its_first_or_last() -> None:
    assert expire_on(2**62, DAY) == date.max
    assert expire_on(-(2**62), DAY) == date.min
