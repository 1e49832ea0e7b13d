"""Write times follow the log (R24), and the tombstones that they allow. Pure.

Every statement of a topic has the write time base + offset of its record. So cells settle in log order, no matter which
replicator writes last; at equal times a delete wins.
"""

from collections.abc import Callable
from typing import Final

from cordwood.store.boot_clock import boot_seconds
from cordwood.store.segments import segment_of

OLDEST_SECONDS: Final = 3600.0
"""An older batch writes nothing: tombstones do not live forever."""

SEGMENTS_MAX: Final = 100_000
"""Tombstones of one Purge or Delete: numbers that begin beyond so many segments have none at their start."""

_LAST: Final = 2**63 - 1


class TooOld(Exception):
    """The batch was folded too long ago."""


def freshness(began: float, now: Callable[[], float] = boot_seconds) -> Callable[[], None]:
    """A check that raises TooOld once the batch, which began at that second of the boot clock, is too old.

    >>> freshness(began=0.0, now=lambda: 3601.0)()
    Traceback (most recent call last):
    cordwood.store.cassandra.write_time.TooOld
    """

    def check() -> None:
        if now() - began > OLDEST_SECONDS:
            raise TooOld

    return check


def write_time(base_us: int, offset: int) -> int:
    """The write time of a record.

    >>> write_time(1_700_000_000_000_000, 5)
    1700000000000005
    """
    return min(base_us + offset, _LAST)


def segments_through(seq_nr: int, segment_size: int) -> range:
    """The segments that hold numbers up to this one, from the first; the last SEGMENTS_MAX of them.

    >>> segments_through(10_001, 10_000)
    range(0, 2)
    """
    if seq_nr < 1:
        return range(0)
    last = segment_of(seq_nr, segment_size)
    return range(max(0, last + 1 - SEGMENTS_MAX), last + 1)


def is_whole(segment: int, segment_size: int, through: int) -> bool:
    """Whether all numbers of a segment are at or below this one.

    >>> is_whole(0, 10, 10), is_whole(1, 10, 19)
    (True, False)
    """
    return (segment + 1) * segment_size <= through
