"""The segments of both tables, as the Scala library computes them, so that both find each other's rows."""

from typing import NamedTuple

HEAD_SEGMENTS = 10_000
OLD_HEAD_SEGMENTS = 100
"""Older versions of the Scala library spread the head rows over fewer segments."""


class HeadSegments(NamedTuple):
    """The two segments in which the head row of a journal may be: `now` is preferred, and new rows are in it."""

    now: int
    old: int


def head_segments(id: str) -> HeadSegments:
    """The segments of a journal's head row.

    >>> head_segments("ID")
    HeadSegments(now=3355, old=55)
    """
    # Java's % keeps the sign of the hash, and its absolute value is the remainder of the absolute value.
    hashed = abs(java_hash(id.lower()))
    return HeadSegments(hashed % HEAD_SEGMENTS, hashed % OLD_HEAD_SEGMENTS)


def segment_of(seq_nr: int, segment_size: int) -> int:
    """The segment of an event row.

    >>> segment_of(10_000, 10_000), segment_of(10_001, 10_000)
    (0, 1)
    """
    return (seq_nr - 1) // segment_size


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 units, a signed 32-bit integer.

    >>> java_hash("polygenelubricants")
    -2147483648
    """
    units = text.encode("utf-16-le")
    hashed = 0
    for unit in memoryview(units).cast("H"):
        hashed = hashed * 31 + unit & 0xFFFFFFFF
    return hashed - (1 << 32) if hashed >= 1 << 31 else hashed
