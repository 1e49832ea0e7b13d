"""The texts of expireAfter: Scala's, both ways."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import InvalidInput
from cordwood.journal.bad_record import BadRecord
from cordwood.journal.duration import decode_duration, decode_milliseconds, encode_duration, ns_of_timedelta

HOUR = 3_600_000_000_000

TEXTS = [
    (timedelta(microseconds=1), "1 microsecond"),
    (timedelta(microseconds=3), "3 microseconds"),
    (timedelta(milliseconds=1), "1 millisecond"),
    (timedelta(milliseconds=100), "100 milliseconds"),
    (timedelta(seconds=1), "1 second"),
    (timedelta(seconds=61), "61 seconds"),
    (timedelta(minutes=1), "1 minute"),
    (timedelta(minutes=90), "90 minutes"),
    (timedelta(hours=1), "1 hour"),
    (timedelta(hours=36), "36 hours"),
    (timedelta(hours=24), "1 day"),
    (timedelta(days=30), "30 days"),
    (timedelta(0), "0 days"),
]

READ = [
    ("1 day", 24 * HOUR), ("1d", 24 * HOUR), ("30 h", 30 * HOUR), ("2 hrs", 2 * HOUR), ("1 min", HOUR // 60),
    ("2 mins", HOUR // 30), ("10s", 10 * 10**9), ("10 sec", 10 * 10**9), ("3secs", 3 * 10**9), ("100ms", 10**8),
    ("5 millis", 5 * 10**6), ("7 µs", 7000), ("7 micros", 7000), ("9 ns", 9), ("9 nanos", 9),
    ("1.5 hours", 3 * HOUR // 2), ("2minutes", HOUR // 30), ("  3   days ", 72 * HOUR), ("0 seconds", 0),
    ("1e3 ms", 10**9), (".5 s", 5 * 10**8), ("-1 day", -24 * HOUR), ("+2 h", 2 * HOUR), ("0.5 ns", 1), ("1.4 ns", 1),
    ("9007199254740995 nanoseconds", 2**53 + 3), ("9223372036854775807 ns", 2**63 - 1),
]  # fmt: skip


@pytest.mark.parametrize(("duration", "text"), TEXTS)
def test_a_timedelta_is_written_in_its_largest_exact_unit(duration: timedelta, text: str) -> None:
    ns = ns_of_timedelta(duration)
    assert encode_duration(ns) == text
    assert decode_duration(text) == ns


@pytest.mark.parametrize(("text", "ns"), READ)
def test_a_text_is_read_as_scala_reads_it(text: str, ns: int) -> None:
    assert decode_duration(text) == ns


@pytest.mark.parametrize(
    "text",
    [
        "", "1", "day", " 1 DAY", "1 week", "1 ds", "Inf", "NaN ms", "1_000 ms", "٣ days", "1 day 2", "0x1 s",
        "1e400 ns", "106752 days", "9223372036854775808 ns", "1e17 ns",
        pytest.param("9" * 5000 + " days", id="5,000 digits"), pytest.param("9" * 500_000, id="digits without a unit"),
    ],
)  # fmt: skip
def test_other_texts_are_no_durations(text: str) -> None:
    with pytest.raises(BadRecord, match="expireAfter is"):
        decode_duration(text)


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=106_000)))
def test_a_duration_of_a_day_or_more_reads_back_to_the_microsecond(duration: timedelta) -> None:
    ns = ns_of_timedelta(duration)
    assert abs(decode_duration(encode_duration(ns)) - ns) < 1000  # Scala multiplies in floats, and so does the reader


@pytest.mark.parametrize("duration", [timedelta(microseconds=-1), timedelta(days=106_752)])
def test_a_duration_that_scala_cannot_hold_is_invalid_input(duration: timedelta) -> None:
    with pytest.raises(InvalidInput, match="expire_after is"):
        ns_of_timedelta(duration)


def test_a_number_is_in_milliseconds() -> None:
    assert decode_milliseconds(1500) == 1_500_000_000
    with pytest.raises(BadRecord, match="over 292 years"):
        decode_milliseconds(2**63)
