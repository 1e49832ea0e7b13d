"""Checks of the arguments of a log, the same on every engine: whole numbers, points and spans of time."""

import itertools
import operator
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from numbers import Real

from cordwood.errors import Conflict, InvalidInput

TIMEOUT_SECONDS_MAX = 10 * 365 * 86400
"""No clock or lock of Python overflows at this value."""

_EPOCH = datetime.fromtimestamp(0, UTC)
_MILLISECOND = timedelta(milliseconds=1)


def whole_number(what: str, value: object) -> int:
    """The value as a plain int; TypeError if it is not whole: a stored 1.5 could never be read again.

    >>> whole_number("partitions", 4)
    4
    """
    try:
        return int(operator.index(value))  # type: ignore[arg-type]  # this call checks the type
    except TypeError:
        raise TypeError(f"{what} is an int, not {type(value).__name__}") from None


def checked_timeout(timeout: float, what: str = "timeout") -> float:
    """The seconds that a call may take: 0 means "at once", and more than ten years counts as ten.

    >>> checked_timeout(2), checked_timeout(float("inf")) == TIMEOUT_SECONDS_MAX
    (2, True)
    """
    if not isinstance(timeout, Real):
        raise TypeError(f"{what} is a number of seconds, not {type(timeout).__name__}")
    if not timeout >= 0:  # NaN too
        raise InvalidInput(f"{what} is {timeout!r} seconds: it cannot be less than 0", outcome="not_written")
    return min(timeout, TIMEOUT_SECONDS_MAX)


def checked_range(start: int | None, stop: int | None) -> tuple[int | None, int | None]:
    """The checked bounds of a `read`: TypeError for a value that is no int, InvalidInput for one below 0.

    >>> checked_range(10, None)
    (10, None)
    """
    return _checked_offset("start", start), _checked_offset("stop", stop)


def checked_starts(start: Mapping[int, int] | str) -> Mapping[int, int] | None:
    """The first offset of each partition that a `cw.read` names; None if it names "first" or "end": all partitions.

    >>> checked_starts({0: 10, 1: 7}), checked_starts("first")
    ({0: 10, 1: 7}, None)
    """
    if isinstance(start, str):
        if start not in ("first", "end"):
            raise InvalidInput(f'start is {start!r}: it is "first", "end", or an offset for each partition')
        return None
    return _checked_offsets("start", start)


def checked_stops(stop: Mapping[int, int] | None, starts: Mapping[int, int] | None) -> Mapping[int, int]:
    """The offset before which each partition of a `cw.read` ends, where it has one.

    >>> checked_stops({0: 20}, {0: 10, 1: 7}), checked_stops(None, None)
    ({0: 20}, {})
    """
    stops = {} if stop is None else _checked_offsets("stop", stop)
    for partition in stops:
        if starts is not None and partition not in starts:
            raise InvalidInput(f"stop names partition {partition}, and start does not: {sorted(starts)}")
    return stops


def checked_known(offsets: Sequence[int]) -> list[int]:
    """The offsets of a `fetch`: each is higher than the one before.

    >>> checked_known(range(3))
    [0, 1, 2]
    """
    known = [_checked_whole("offset", offset) for offset in offsets]
    for one, following in itertools.pairwise(known):
        if following <= one:
            raise InvalidInput(f"offset {following} follows {one}: each offset must be higher than the one before")
    return known


def checked_follow(follow: bool | str) -> None:
    """Refuse a value that is neither True, False nor "wait".

    >>> checked_follow("wait")
    """
    if follow not in (True, False, "wait"):
        raise InvalidInput(f'follow is {follow!r}: it is True, False or "wait"')


def checked_topic_id(topic_id: str | None) -> str | None:
    if topic_id is not None and not isinstance(topic_id, str):
        raise TypeError(f"topic_id is a str, the id of a TopicInfo, not {type(topic_id).__name__}")
    return topic_id


def beyond_end(log: str, start: int, end: int) -> InvalidInput:
    """The error of a read whose start is beyond the end."""
    return InvalidInput(
        f'{log} ends at {end}, and start is {start}: read from {end} or before; follow="wait" waits for the rest'
    )


def created_again(log: str, wanted: str, found: str) -> Conflict:
    """The error of a read that names another topic than the present one."""
    return Conflict(
        f"{log}: the topic was deleted and created again: its id is {found}, not {wanted}; offsets of the old one mean"
        " nothing in it: read it from its start"
    )


def milliseconds_at(when: datetime) -> int:
    """The first whole millisecond (UTC) at or after `when`, computed with integers: floats are off by one at times.

    >>> milliseconds_at(datetime(1970, 1, 1, 0, 0, 2, 7_000, UTC))
    2007
    """
    if not isinstance(when, datetime):
        raise TypeError(f"a time is a datetime, not {type(when).__name__}")
    if when.tzinfo is None:
        raise InvalidInput(f"{when!r} has no time zone: pass an aware datetime, such as datetime.now(timezone.utc)")
    return -((_EPOCH - when) // _MILLISECOND)


def _checked_offset(what: str, value: int | None) -> int | None:
    return None if value is None else _checked_whole(what, value)


def _checked_whole(what: str, value: int) -> int:
    offset = whole_number(what, value)
    if offset < 0:
        raise InvalidInput(f"{what} is {offset}: offsets begin at 0")
    return offset


def _checked_offsets(what: str, offsets: Mapping[int, int]) -> dict[int, int]:
    if not isinstance(offsets, Mapping):
        raise TypeError(f"{what} is an offset for each partition, a mapping, not {type(offsets).__name__}")
    checked = {whole_number("partition", partition): _checked_whole(what, at) for partition, at in offsets.items()}
    for partition in checked:
        if partition < 0:
            raise InvalidInput(f"{what} names partition {partition}: partitions are numbered from 0")
    return checked
