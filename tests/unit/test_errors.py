import copy
import doctest
import pickle
from collections.abc import Callable

import pytest

from cordwood import errors
from cordwood.errors import (
    Conflict,
    CordwoodError,
    Corrupt,
    Fenced,
    InvalidInput,
    NotFound,
    Sealed,
    Timeout,
    TooLarge,
    Trimmed,
    Unavailable,
)

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
    Unavailable("away", written={}),
    Timeout("over", outcome="unknown", written={7: range(2)}),
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


@pytest.mark.parametrize("kind", [kind for kind in EVERY_KIND if kind is not Trimmed])
def test_an_error_that_is_no_failed_write_says_nothing_of_one(kind: type[CordwoodError]) -> None:
    error = kind("what it says")
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
