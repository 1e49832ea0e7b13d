"""What became of a change that failed."""

from collections.abc import Iterator
from contextlib import contextmanager

from cordwood.errors import Conflict, CordwoodError, InvalidInput, NotFound


@contextmanager
def change() -> Iterator[None]:
    """Give an error that has none its outcome: what was refused for what it asks is not done; all else may be.

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
