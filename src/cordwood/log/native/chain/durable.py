"""How far a log is durable."""

from typing import NamedTuple

from ..plog import PlogId
from .chain import Chain


class Durable(NamedTuple):
    """How far every reader may read: up to byte `end` of `plog`, where the offset `next_offset` follows."""

    plog: PlogId | None
    end: int
    next_offset: int
    max_timestamp: int = -1
    """The highest timestamp in that plog so far."""


def durable_of(chain: Chain, next_offset: int) -> Durable:
    """The durable end at an open: all of the chain, whose last plog is sealed."""
    last = chain.last
    if last is None:
        return Durable(None, 0, next_offset)
    return Durable(last.id, last.end or 0, next_offset, last.max_timestamp)
