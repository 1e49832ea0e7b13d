"""The records of a region's data log in memory: writes and owner records. No bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from cordwood.errors import InvalidInput
from cordwood.records import BinaryColumn

NOBODY: Final = -1
"""The owner id that a new owner's record names, where one that renews names its earlier id."""


class WriteRecord(NamedTuple):
    """A write of one table, as it was read; its column is a view of the batch."""

    owner: int
    """The offset of the owner record under which it was written."""
    running_count: int
    """The region's running count: how many entries were given numbers in it before these."""
    table: int
    first: int
    """The sequence number of its first entry."""
    length: int
    """How many entries it has."""
    column: memoryview
    """What `encode_payloads` made."""

    @property
    def payloads(self) -> BinaryColumn:
        column, length = self.column, self.length
        return BinaryColumn(column.cast("i"), column[4 * (length + 1) :], None, 0, length)


class Writes(NamedTuple):
    """Consecutive writes as columns: the fields of `WriteRecord`, without the column of payloads."""

    owners: tuple[int, ...]
    running_counts: tuple[int, ...]
    tables: tuple[int, ...]
    firsts: tuple[int, ...]
    lengths: tuple[int, ...]
    payloads: Iterable[BinaryColumn]
    weights: Iterable[int]
    """The `nbytes` of the payloads."""


class OwnerRecord(NamedTuple):
    """A process takes the region (`renews` is `NOBODY`), or its owner continues under a new id."""

    renews: int
    """The owner id that must be the last one before this record, else it is void; `NOBODY`: it always counts."""
    running_count: int
    session: int
    """The same in all records of one opening: by it an owner knows its own, also those whose append had no answer."""
    who: str
    """Host and process, for people."""


DataRecord: TypeAlias = WriteRecord | OwnerRecord


def checked_payloads(payloads: Sequence[bytes]) -> Sequence[bytes]:
    """Refuses what cannot be a write, before anything is made of it."""
    if isinstance(payloads, (bytes, bytearray, memoryview, str)) or not isinstance(payloads, Sequence):
        raise TypeError(f"payloads: a sequence of bytes is needed, not {type(payloads).__name__}")
    if not payloads:
        raise InvalidInput("the write is empty: it has at least 1 payload", outcome="not_written")
    # A set of types, made in C: one look instead of one for each payload.
    if set(map(type, payloads)) != {bytes}:
        for index, payload in enumerate(payloads):
            if not isinstance(payload, bytes):
                raise TypeError(f"payloads[{index}]: bytes are needed, not {type(payload).__name__}")
    return payloads
