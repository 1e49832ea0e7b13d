"""Errors of Spark's processes, as their own class again in the caller's process.

Spark passes the text of an error, with its traceback, and nothing else. So a note at the end of the text says which
error it was.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from cordwood import errors
from cordwood.errors import CordwoodError

Fact: TypeAlias = str | int | None

_MARK = "cordwood error: "
_NOTE = re.compile(re.escape(_MARK) + r"(\{.*\})")


class _Note(msgspec.Struct):
    """An error: its class, its text, and the attributes that are plain values."""

    name: str
    message: str
    facts: dict[str, Fact]


@contextmanager
def noted() -> Iterator[None]:
    """Add a note to an error that leaves one of Spark's processes."""
    try:
        yield
    except CordwoodError as error:
        facts = {name: fact if isinstance(fact, Fact) else None for name, fact in vars(error).items()}
        facts.pop("__notes__", None)
        note = _Note(type(error).__name__, str(error), facts)
        error.add_note(_MARK + msgspec.json.encode(note).decode())
        raise


@contextmanager
def own_errors() -> Iterator[None]:
    """Raise the error that a task or the planning raised, with Spark's as its cause."""
    try:
        yield
    except PySparkException as failure:
        error = own_error(str(failure))
        if error is None:
            raise
        raise error from failure


def failure_of(query: StreamingQuery) -> CordwoodError | None:
    """The error of ours that ended a query."""
    failure = query.exception()
    return None if failure is None else own_error(str(failure))


def own_error(text: str) -> CordwoodError | None:
    """The error that the text of Spark's tells; None if it is not one of ours.

    >>> own_error('… cordwood error: {"name":"Trimmed","message":"lost","facts":{"start":7,"outcome":null}}').start
    7
    """
    for found in reversed(_NOTE.findall(text)):
        try:
            note = msgspec.json.decode(found, type=_Note)
        except msgspec.DecodeError:  # cut, or quoted, by a process on the way
            continue
        kind = getattr(errors, note.name, None)
        if isinstance(kind, type) and issubclass(kind, CordwoodError):
            error = kind._blank((note.message,))
            vars(error).update(note.facts)
            return error
    return None
