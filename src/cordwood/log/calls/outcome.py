"""The outcome of a change that failed, and the error that each of its callers raises."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import TypeVar

from cordwood.errors import Conflict, CordwoodError, InvalidInput, NotFound, Outcome

E = TypeVar("E", bound=CordwoodError)


@contextmanager
def change() -> Iterator[None]:
    """Give an error without an outcome its outcome: a refused change is not written; any other may be.

    >>> with change():
    ...     raise NotFound("topic 'events' does not exist")
    Traceback (most recent call last):
    cordwood.errors.NotFound: topic 'events' does not exist
    """
    try:
        yield
    except CordwoodError as error:
        if error.outcome is None:
            error.outcome = "not_written" if isinstance(error, (InvalidInput, NotFound, Conflict)) else "unknown"
        raise


def copy_for_caller(error: E, outcome: Outcome | None = None) -> E:
    """A copy with the same cause: an exception that several callers raise would collect all their tracebacks.

    >>> mine = copy_for_caller(NotFound("topic 'events' was deleted"), "not_written")
    >>> mine.outcome
    'not_written'
    """
    own = copy(error)
    own.__cause__ = error.__cause__
    if outcome is not None:
        own.outcome = outcome
    return own
