"""The texts of `expireAfter`: `1 day`, `90 minutes`, as Scala's durations are printed and read."""

import math
import re
from datetime import timedelta

from cordwood.errors import InvalidInput

from .bad_record import BadRecord

_UNITS = [
    ("day", 86_400_000_000_000),
    ("hour", 3_600_000_000_000),
    ("minute", 60_000_000_000),
    ("second", 1_000_000_000),
    ("millisecond", 1_000_000),
    ("microsecond", 1_000),
    ("nanosecond", 1),
]

# The first word of a unit has no plural, as in Scala.
_WORDS = ["d day", "h hr hour", "m min minute", "s sec second", "ms milli millisecond", "µs micro microsecond"]
_NS_OF_WORD = {
    word + plural: ns
    for words, (_, ns) in zip([*_WORDS, "ns nano nanosecond"], _UNITS, strict=True)
    for at, word in enumerate(words.split())
    for plural in (("",) if at == 0 else ("", "s"))
}

# No digit can match in two ways: to refuse a text of a million digits is one pass.
_TEXT = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)([^\W\d_]+)")
_EXACT_FLOAT_MAX = 2**53
_NS_MAX = 2**63 - 1


def ns_of_timedelta(duration: timedelta) -> int:
    """Nanoseconds; `InvalidInput` if the duration is negative, or longer than a Scala program can read.

    >>> ns_of_timedelta(timedelta(milliseconds=1.5))
    1500000
    """
    ns = (duration.days * 86_400 + duration.seconds) * 1_000_000_000 + duration.microseconds * 1_000
    if not 0 <= ns <= _NS_MAX:
        raise InvalidInput(f"expire_after is {duration}, not in 0..{_NS_MAX // _UNITS[0][1]:,} days")
    return ns


def encode_duration(ns: int) -> str:
    """The text of a duration, in the largest unit that is exact.

    >>> encode_duration(5_400_000_000_000), encode_duration(86_400_000_000_000)
    ('90 minutes', '1 day')
    """
    for unit, ns_of_unit in _UNITS:
        count, rest = divmod(ns, ns_of_unit)
        if rest == 0:
            return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
    raise AssertionError("a nanosecond divides every whole number")


def decode_duration(text: str) -> int:
    """The nanoseconds of a text; `BadRecord` if Scala cannot read it.

    >>> decode_duration("1.5 hours"), decode_duration("100ms")
    (5400000000000, 100000000)
    """
    found = _TEXT.fullmatch("".join(text.split()))
    ns_of_unit = None if found is None else _NS_OF_WORD.get(found[2])
    if found is None or ns_of_unit is None:
        raise BadRecord(f"expireAfter is {text[:40]!r}, not a duration such as '90 minutes'")
    return _check(_rounded(found[1], ns_of_unit), text)


def decode_milliseconds(number: int) -> int:
    """The nanoseconds of a duration that is a number: these are milliseconds.

    >>> decode_milliseconds(1500)
    1500000000
    """
    return _check(number * 1_000_000, str(number))


def _rounded(digits: str, ns_of_unit: int) -> int | None:
    """Multiply as Scala does: in floats, halves up, and exactly only above 2⁵³."""
    number = float(digits)
    if abs(number) <= _EXACT_FLOAT_MAX:
        return math.floor(number * ns_of_unit + 0.5) if number * ns_of_unit % 1 else int(number * ns_of_unit)
    if abs(number) > _NS_MAX + 1:
        return None  # too long in any unit; Python makes no int of so many digits
    return int(digits) * ns_of_unit if digits.lstrip("+-").isdigit() else None


def _check(ns: int | None, text: str) -> int:
    if ns is None or abs(ns) > _NS_MAX:
        raise BadRecord(f"expireAfter is {text[:40]!r}, over 292 years")
    return ns
