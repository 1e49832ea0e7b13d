import copy
import doctest
import errno
import pickle
from collections.abc import Callable
from typing import Any, get_args

import pytest

from cordwood import errors
from cordwood.errors import (
    Conflict,
    CordwoodError,
    Corrupt,
    Fenced,
    InvalidInput,
    NotFound,
    Reason,
    Sealed,
    Timeout,
    TooLarge,
    Trimmed,
    Unavailable,
    reason_of,
)

REASONS: list[Reason] = [
    "busy", "full", "permission", "missing-extra", "missing-java", "unsupported", "closed", "forked", "other-loop",
    "read-only", "unreachable", "version", "tls", "failed",
]  # fmt: skip
PASSING = {"busy", "full", "unreachable", "failed"}

EVERY_KIND: list[type[CordwoodError]] = [
    InvalidInput, NotFound, Conflict, Fenced, Sealed, Trimmed, TooLarge, Corrupt, Unavailable, Timeout,
]  # fmt: skip

EXAMPLES: list[CordwoodError] = [
    CordwoodError("it failed", outcome="unknown", written={0: range(3)}, unknown={1: None}),
    InvalidInput("wrong", outcome="not_written"),
    NotFound("missing"),
    Conflict("late", actual=4, winner="a-17", outcome="not_written"),
    Fenced("taken over", outcome="unknown", unknown={42: range(1, 3)}),
    Sealed("closed", outcome="not_written"),
    Trimmed("gone", start=100),
    TooLarge("too much", outcome="not_written"),
    Corrupt("broken"),
    Unavailable("away", written={}, reason="busy", pid=4711),
    Timeout("over", outcome="unknown", written={7: range(2)}),
]


RETRYABLE: list[tuple[CordwoodError, bool]] = [
    (CordwoodError("it failed"), False),
    (InvalidInput("wrong"), False),
    (NotFound("missing"), False),
    (Conflict("late"), False),
    (Fenced("taken over"), False),
    (Sealed("closed"), True),
    (Trimmed("gone", start=100), False),
    (TooLarge("too much"), False),
    (Corrupt("broken"), False),
    (Timeout("over"), True),
    *((Unavailable("away", reason=reason), reason in PASSING) for reason in REASONS),
]


def by_name(error: CordwoodError) -> str:
    return type(error).__name__


def pickled(protocol: int) -> Callable[[CordwoodError], CordwoodError]:
    def there_and_back(error: CordwoodError) -> CordwoodError:
        result = pickle.loads(pickle.dumps(error, protocol))
        assert isinstance(result, CordwoodError)
        return result

    there_and_back.__name__ = f"pickle-{protocol}"
    return there_and_back


WAYS = [copy.copy, copy.deepcopy, *map(pickled, range(pickle.HIGHEST_PROTOCOL + 1))]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("error", EXAMPLES, ids=by_name)
def test_an_error_keeps_its_message_and_attributes_across_processes(
    error: CordwoodError, way: Callable[[CordwoodError], CordwoodError]
) -> None:
    moved = way(error)
    assert type(moved) is type(error)
    assert moved is not error
    assert str(moved) == str(error)
    assert moved.args == error.args
    assert vars(moved) == vars(error)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_note_added_on_the_way_is_kept(way: Callable[[CordwoodError], CordwoodError]) -> None:
    error = Timeout("over")
    error.add_note("while reading events/0")
    assert way(error).__notes__ == ["while reading events/0"]


def test_a_subclass_with_its_own_keywords_can_be_pickled() -> None:
    moved = pickle.loads(pickle.dumps(Picky("no", reason="because")))
    assert isinstance(moved, Picky)
    assert (str(moved), moved.reason, moved.start) == ("no", "because", 3)


class Picky(Trimmed):
    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message, start=3)
        self.reason = reason


def test_the_tree_has_one_level_and_these_members() -> None:
    assert sorted(map(repr, CordwoodError.__subclasses__())) == sorted(map(repr, EVERY_KIND))


@pytest.mark.parametrize(
    ("kind", "builtin"), [(InvalidInput, ValueError), (NotFound, LookupError), (Timeout, TimeoutError)]
)
def test_an_error_with_a_builtin_counterpart_is_caught_as_that(
    kind: type[CordwoodError], builtin: type[Exception]
) -> None:
    with pytest.raises(builtin, match=r"^what it says$"):
        raise kind("what it says")


def test_these_are_the_reasons() -> None:
    assert list(get_args(Reason)) == REASONS


def test_unavailable_cannot_leave_out_why() -> None:
    with pytest.raises(TypeError, match="reason"):
        Unavailable("away")  # type: ignore[call-arg]  # the mistake under test


@pytest.mark.parametrize(("error", "retryable"), RETRYABLE, ids=lambda value: repr(value))
def test_an_error_says_whether_the_same_call_may_be_repeated(error: CordwoodError, retryable: bool) -> None:
    assert error.retryable is retryable
    error = copy.copy(error)
    error.outcome = "not_written"
    assert error.retryable is retryable
    error.outcome = "unknown"
    assert error.retryable is False, "it may be written twice"


def test_every_kind_and_every_reason_is_retryable_or_not() -> None:
    assert {type(error) for error, _ in RETRYABLE} == {CordwoodError, *EVERY_KIND}


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "full"),
        (errno.EDQUOT, "full"),
        (errno.EACCES, "permission"),
        (errno.EROFS, "permission"),
        (errno.EIO, "failed"),
        (None, "failed"),
    ],
)
def test_the_number_of_a_system_error_gives_the_reason(number: int | None, reason: Reason) -> None:
    assert reason_of(OSError(number, "it failed") if number else OSError("it failed")) == reason


def test_an_error_that_passes_another_one_on_has_its_reason() -> None:
    assert reason_of(Unavailable("no room", reason="full")) == "full"
    assert reason_of(Corrupt("broken")) == "failed"


REQUIRED: dict[type[CordwoodError], dict[str, Any]] = {Trimmed: {"start": 3}, Unavailable: {"reason": "failed"}}


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_an_error_that_is_no_failed_write_says_nothing_of_one(kind: type[CordwoodError]) -> None:
    error = kind("what it says", **REQUIRED.get(kind, {}))
    assert (error.outcome, error.written, error.unknown) == (None, None, None)


def test_a_conflict_may_know_neither_value_nor_winner() -> None:
    error = Conflict("topic 'events' exists")
    assert (error.actual, error.winner) == (None, None)


def test_trimmed_cannot_leave_out_where_the_log_starts() -> None:
    with pytest.raises(TypeError, match="start"):
        Trimmed("gone")  # type: ignore[call-arg]  # the mistake under test


def test_every_error_has_an_example_and_it_runs() -> None:
    for kind in [CordwoodError, *EVERY_KIND]:
        assert ">>>" in (kind.__doc__ or ""), kind
    assert doctest.testmod(errors).failed == 0
