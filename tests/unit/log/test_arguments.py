"""What callers pass to a log: whole numbers stay whole, and times are exact."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood import InvalidInput
from cordwood.log.arguments import milliseconds_at, whole_number

EPOCH = datetime.fromtimestamp(0, UTC)


class Number:
    """As a number of numpy: no int, but one where an index is wanted."""

    def __index__(self) -> int:
        return 4


@given(st.integers(0, 10**14), st.integers(0, 999))
def test_a_time_is_the_first_millisecond_that_is_not_before_it(milliseconds: int, microseconds: int) -> None:
    when = EPOCH + timedelta(milliseconds=milliseconds, microseconds=microseconds)
    assert milliseconds_at(when) == milliseconds + bool(microseconds)


def test_a_millisecond_that_a_float_rounds_up_stays_what_it_is() -> None:
    when = EPOCH + timedelta(milliseconds=2007)
    assert when.timestamp() * 1000 > 2007, "not the case that this test is about"
    assert milliseconds_at(when) == 2007


def test_a_time_may_be_the_first_or_the_last_of_any_zone() -> None:
    for hours in (-12, 14):
        zone = timezone(timedelta(hours=hours))
        assert (
            milliseconds_at(datetime.min.replace(tzinfo=zone)) < 0 < milliseconds_at(datetime.max.replace(tzinfo=zone))
        )


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidInput, match="time zone"):
        milliseconds_at(datetime(2026, 1, 1))


@pytest.mark.parametrize("value", [7, "2026-01-01", None, EPOCH.date()])
def test_what_is_no_time_is_a_type_error(value: object) -> None:
    with pytest.raises(TypeError, match="datetime"):
        milliseconds_at(value)  # type: ignore[arg-type]  # the wrong type is the test


def test_what_counts_as_a_whole_number_becomes_an_int() -> None:
    numbers = [whole_number("n", value) for value in (4, True, Number())]
    assert [(type(number), number) for number in numbers] == [(int, 4), (int, 1), (int, 4)]


@pytest.mark.parametrize("value", [1.5, 1.0, "1", None])
def test_what_only_looks_like_a_number_is_a_type_error(value: object) -> None:
    with pytest.raises(TypeError, match="before is an int, not"):
        whole_number("before", value)
