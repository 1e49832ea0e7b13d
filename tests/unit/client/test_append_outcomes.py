"""What `cw.append` raises where some partitions failed, from what became of each."""

from collections.abc import Sequence

import pytest

from cordwood.client import _all_or_error
from cordwood.errors import CordwoodError, Timeout, TooLarge


def raised_for(results: dict[int, Sequence[int] | BaseException]) -> CordwoodError:
    with pytest.raises(CordwoodError) as caught:
        _all_or_error(results)
    return caught.value


def test_of_several_errors_the_one_of_unknown_outcome_is_raised() -> None:
    late = Timeout("late", outcome="unknown")
    error = raised_for({0: TooLarge("large", outcome="not_written"), 1: late, 2: range(7, 9)})
    assert error is late
    assert (error.outcome, error.written, error.unknown) == ("unknown", {2: range(7, 9)}, {1: late})


def test_a_part_that_was_written_makes_the_outcome_unknown() -> None:
    error = raised_for({0: TooLarge("large", outcome="not_written"), 1: range(7, 9)})
    assert (error.outcome, error.written, error.unknown) == ("unknown", {1: range(7, 9)}, {})


def test_where_no_part_was_written_all_may_be_repeated() -> None:
    error = raised_for({0: TooLarge("large", outcome="not_written"), 1: TooLarge("large", outcome="not_written")})
    assert (error.outcome, error.written, error.unknown) == ("not_written", {}, {})
