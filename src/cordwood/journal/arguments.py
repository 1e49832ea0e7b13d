"""Checks of a journal's arguments: each error has the value and the limit."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from cordwood.errors import InvalidInput
from cordwood.log.arguments import whole_number

from .action import ACTION_HEADER
from .appended import Position
from .event import Event
from .json_fields import SEQ_NR_MAX
from .json_text import encode_json


def checked_number(what: str, value: object, least: int = 1) -> int:
    """A seq_nr, or another number of a journal.

    >>> checked_number("start", 1)
    1
    """
    number = whole_number(what, value)
    if not least <= number <= SEQ_NR_MAX:
        raise InvalidInput(f"{what} is {number}: it is from {least} to {SEQ_NR_MAX}", outcome="not_written")
    return number


def checked_events(events: Sequence[Event]) -> Sequence[Event]:
    if isinstance(events, Event):
        raise TypeError("events is a sequence of Event: write [event]")
    checked = tuple(events)
    if not checked:
        raise InvalidInput("an append has no events: give at least one", outcome="not_written")
    if set(map(type, checked)) != {Event}:
        wrong = next(event for event in checked if type(event) is not Event)
        raise TypeError(f"an append takes cordwood.Event, not {type(wrong).__name__}: see Event.json")
    return checked


def checked_expected(expected: int | Position | None) -> int | Position | None:
    if expected is None:
        return None
    if isinstance(expected, Position):
        checked_number("expected.seq_nr", expected.seq_nr, 0)
        if expected.life is not None and type(expected.life) is not str:
            raise TypeError(f"expected.life is a str or None, not {type(expected.life).__name__}")
        return expected
    return checked_number("expected", expected, 0)


def checked_flag(what: str, value: object) -> bool:
    if type(value) is not bool:
        raise TypeError(f"{what} is True or False, not {value!r}")
    return value


def checked_headers(headers: Mapping[str, str] | None) -> Mapping[str, str]:
    if not headers:
        return {}
    for name, value in headers.items():
        if type(name) is not str or type(value) is not str:
            raise TypeError("headers are str → str")
        if name == ACTION_HEADER:
            raise InvalidInput(
                f"the header {ACTION_HEADER!r} is the journal's own: use another name", outcome="not_written"
            )
        try:
            name.encode(), value.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(
                f"the header {name!r} is not valid Unicode: {error.reason}", outcome="not_written"
            ) from error
    return headers


def checked_expire_after(expire_after: timedelta | None) -> timedelta | None:
    if expire_after is None:
        return None
    if not isinstance(expire_after, timedelta):
        raise TypeError(f"expire_after is a timedelta, not {type(expire_after).__name__}")
    if expire_after < timedelta(0):
        raise InvalidInput(f"expire_after is {expire_after}: it cannot be negative", outcome="not_written")
    return expire_after


def checked_metadata(metadata: object) -> bytes:
    """The metadata of an append, as JSON."""
    try:
        return encode_json(metadata)
    except InvalidInput as error:
        error.outcome = "not_written"
        raise


def checked_until(until: datetime | None) -> datetime | None:
    if until is None:
        return None
    if not isinstance(until, datetime):
        raise TypeError(f"until is a datetime, not {type(until).__name__}")
    if until.tzinfo is None:
        raise InvalidInput(f"until is {until!r}, without a time zone: pass an aware datetime")
    return until


def checked_text(what: str, value: str | None) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"{what} is a str, not {type(value).__name__}")
    if not value:
        raise InvalidInput(f"{what} is empty: give a text, or leave it out", outcome="not_written")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{what} is not valid Unicode: {error.reason}", outcome="not_written") from error
    return value
