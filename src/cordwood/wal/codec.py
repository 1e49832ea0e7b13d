"""A record of a region's data log as bytes: `docs/formats/wal-data.md` has the picture.

One write of one table is one record, so it is atomic on every engine, and one offset. Its payloads are a column of
Arrow's layout: encoding and decoding do nothing in Python for a single payload.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from struct import Struct, pack
from typing import Final, NamedTuple, TypeAlias

from crc32c import crc32c

from cordwood.errors import Corrupt, InvalidInput
from cordwood.records import BinaryColumn

VERSION: Final = 1
HEADER_BYTES: Final = 64
NOBODY: Final = -1
"""The owner id that a new owner's record names, where one that renews names its earlier id."""

_WRITE: Final = 1
_OWNER: Final = 2

# version, kind, reserved, count, owner, logs before, table, first sequence, region, reserved, bytes of data
_HEADER = Struct("<BBHIqqqqqqI")
_HEADER_AND_CRC = Struct("<BBHIqqqqqqII")
_CRC = Struct("<I")
_ALIGNMENT = 8

# The same header, with what is before the count as one number: to be sound, it can only be this one.
_WRITE_HEADER = Struct("<IIqqqqqqII")
_WRITE_TAG = VERSION | _WRITE << 8


class WriteRecord(NamedTuple):
    """A write of one table, as it was read; its column is a view of what was read."""

    owner: int
    """The offset of the owner record under which it was written."""
    logs: int
    """The region's running count: how many logs were given numbers in it before these."""
    table: int
    first: int
    """The sequence number of its first log."""
    length: int
    """How many logs it has."""
    view: memoryview
    """What was read, which may hold other records too."""
    numbers: memoryview | None
    """The same as 32-bit numbers, where several records share it."""
    start: int
    """Where in the view the column begins that `encode_payloads` made."""
    stop: int

    @property
    def payloads(self) -> BinaryColumn:
        _, _, _, _, length, view, numbers, start, stop = self
        if numbers is None or start & 3:
            view = view[start:stop]
            return BinaryColumn(view.cast("i"), view[4 * length + 4 :], None, 0, length)
        return BinaryColumn(numbers, view[start + 4 * length + 4 : stop], None, start >> 2, length)


class OwnerRecord(NamedTuple):
    """Somebody takes the region (`renews` is `NOBODY`), or goes on with it under a new id."""

    renews: int
    """The owner id that must be the last one before this record, else it is void; `NOBODY`: it always counts."""
    logs: int
    session: int
    """The same in all records of one opening: by it an owner knows its own, also those whose append had no answer."""
    who: str
    """Host and process, for people."""


DataRecord: TypeAlias = WriteRecord | OwnerRecord


def encode_payloads(payloads: Sequence[bytes]) -> bytes:
    """The part of a write record that does not change when it is written again: the column, padded.

    >>> encode_payloads([b"hi"]).hex(" ", 4)
    '00000000 02000000 68690000 00000000'
    """
    offsets = pack(f"<{len(payloads) + 1}i", *accumulate(map(len, payloads), initial=0))
    data = b"".join((offsets, *payloads))
    return data + bytes(-len(data) % _ALIGNMENT)


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


def encode_write(region: int, owner: int, logs: int, table: int, first: int, count: int, column: bytes) -> bytes:
    """A write record around a column of `encode_payloads`."""
    return _sealed(_HEADER.pack(VERSION, _WRITE, 0, count, owner, logs, table, first, region, 0, len(column)), column)


def encode_owner(region: int, record: OwnerRecord) -> bytes:
    who = record.who.encode()
    who += bytes(-len(who) % _ALIGNMENT)
    return _sealed(
        _HEADER.pack(VERSION, _OWNER, 0, 0, record.renews, record.logs, record.session, 0, region, 0, len(who)), who
    )


def decode_record(
    view: memoryview,
    numbers: memoryview | None,
    start: int,
    stop: int,
    region: int,
    log: str,
    offset: int,
    verified: bool,
) -> DataRecord:
    """The record that `view` has from `start` to `stop`; `log` and `offset` name its place in what `Corrupt` says.

    `numbers` is the view as 32-bit numbers, where somebody has made it for many records. The record's CRC is left out
    where the log has `verified` the same bytes just before: that is half of all the work.
    """
    column = start + HEADER_BYTES
    if stop >= column:
        tag, count, owner, logs, table, first, of_region, reserved, length, crc = _unpack_write(view, start)
        # One look at all that may be wrong: an opening reads millions of these.
        if (
            tag == _WRITE_TAG
            and of_region == region
            and stop - column == length >= 4 * (count + 1) >= 8
            and not (reserved or length % _ALIGNMENT)
            and (verified or crc32c(view[column:stop], crc32c(view[start : column - 4])) == crc)
        ):
            return _new_write((owner, logs, table, first, count, view, numbers, column, stop))
    return _decode_other(view[start:stop], region, f"{log} at offset {offset}")


def _decode_other(view: memoryview, region: int, where: str) -> OwnerRecord:
    """What is no sound write: an owner record, or damage."""
    size = len(view)
    if size and view[0] != VERSION:
        raise Corrupt(f"{where}: version {view[0]} of a record; this Cordwood knows version {VERSION}: use a newer one")
    if size < HEADER_BYTES:
        raise Corrupt(f"{where}: {size} bytes are no record of a write-ahead log: it has {HEADER_BYTES} or more")
    _, kind, gap, count, owner, logs, table, first, of_region, reserved, length, crc = _HEADER_AND_CRC.unpack_from(view)
    found = crc32c(view[HEADER_BYTES:], crc32c(view[: HEADER_BYTES - 4]))
    if found != crc:
        raise Corrupt(f"{where}: the record's CRC is {crc:#010x}, that of its bytes {found:#010x}: restore a copy")
    if of_region != region:
        raise Corrupt(f"{where}: a record of region {of_region} in the log of region {region}: restore the log")
    if gap or reserved or length != size - HEADER_BYTES or length % _ALIGNMENT:
        raise Corrupt(f"{where}: a record of {size} bytes that this Cordwood cannot have written: use a newer one")
    if kind == _OWNER and not (count or first):
        return OwnerRecord(owner, logs, table, bytes(view[HEADER_BYTES:]).rstrip(b"\0").decode(errors="replace"))
    if kind != _WRITE or not count:
        raise Corrupt(f"{where}: a record of kind {kind} with {count} logs is not known: use a newer Cordwood")
    raise Corrupt(f"{where}: {count} logs do not fit into a record of {size} bytes: restore a copy")


_unpack_write = _WRITE_HEADER.unpack_from
_new_write: Callable[[tuple[int, int, int, int, int, memoryview, memoryview | None, int, int]], WriteRecord]
_new_write = partial(tuple.__new__, WriteRecord)


def _sealed(header: bytes, body: bytes) -> bytes:
    return b"".join((header, _CRC.pack(crc32c(body, crc32c(header))), body))
