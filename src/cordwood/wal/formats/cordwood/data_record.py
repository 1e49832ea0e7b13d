"""A record of a region's data log as bytes: `docs/formats/wal-data.md` has the picture.

One write of one table is one record, so it is atomic on every engine, and one offset. Its payloads are a column of
Arrow's layout: encoding and decoding do nothing in Python for a single payload.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import accumulate, repeat
from operator import add, floordiv, ge, mul, or_, sub
from struct import Struct, pack
from typing import Final

from crc32c import crc32c

from cordwood.errors import Corrupt
from cordwood.records import BinaryColumn
from cordwood.wal.record import DataRecord, OwnerRecord, WriteRecord, Writes

VERSION: Final = 1
HEADER_BYTES: Final = 64

_WRITE: Final = 1
_OWNER: Final = 2

# version, kind, reserved, count, owner, running count, table, first sequence, region, reserved, bytes of data
_HEADER = Struct("<BBHIqqqqqqI")
_HEADER_AND_CRC = Struct("<BBHIqqqqqqII")
_CRC = Struct("<I")
_REGION = Struct("<q")
_REGION_AT = Struct("<BBHIqqqq").size
_ALIGNMENT = 8

# The same header, with the fields before the count as one number, which is the same in every sound write.
_WRITE_HEADER = Struct("<IIqqqqqqII")
_WRITE_TAG = VERSION | _WRITE << 8


def encode_payloads(payloads: Sequence[bytes]) -> bytes:
    """The part of a write record that does not change when it is written again: the column, padded.

    >>> encode_payloads([b"hi"]).hex(" ", 4)
    '00000000 02000000 68690000 00000000'
    """
    offsets = pack(f"<{len(payloads) + 1}i", *accumulate(map(len, payloads), initial=0))
    data = b"".join((offsets, *payloads))
    return data + bytes(-len(data) % _ALIGNMENT)


def record_bytes(payloads: Sequence[bytes]) -> int:
    """How large a write of them is as a record.

    >>> record_bytes([b"hi"]) == HEADER_BYTES + len(encode_payloads([b"hi"]))
    True
    """
    size = HEADER_BYTES + 4 * (len(payloads) + 1) + sum(map(len, payloads))
    return size + -size % _ALIGNMENT


def encode_write(
    region: int, owner: int, running_count: int, table: int, first: int, count: int, column: bytes
) -> bytes:
    """A write record around a column of `encode_payloads`."""
    return _sealed(
        _HEADER.pack(VERSION, _WRITE, 0, count, owner, running_count, table, first, region, 0, len(column)), column
    )


def encode_owner(region: int, record: OwnerRecord) -> bytes:
    who = record.who.encode()
    who += bytes(-len(who) % _ALIGNMENT)
    return _sealed(
        _HEADER.pack(
            VERSION, _OWNER, 0, 0, record.renews, record.running_count, record.session, 0, region, 0, len(who)
        ),
        who,
    )


def decode_record(
    view: memoryview, start: int, stop: int, region: int, log: str, offset: int, verified: bool
) -> DataRecord:
    """The record that `view` has from `start` to `stop`; `log` and `offset` name its place in what `Corrupt` says.

    Its CRC is left out where the log has `verified` the same bytes just before: that is half of all the work.
    """
    column = start + HEADER_BYTES
    if stop >= column:
        tag, count, owner, running_count, table, first, of_region, reserved, length, crc = _unpack_write(view, start)
        body = view[column:stop]
        # One look at all that may be wrong: an opening reads millions of these.
        if (
            tag == _WRITE_TAG
            and of_region == region
            and stop - column == length >= 4 * (count + 1) >= 8
            and not (reserved or length % _ALIGNMENT)
            and (verified or crc32c(body, crc32c(view[start : column - 4])) == crc)
        ):
            return _new_write((owner, running_count, table, first, count, body))
    return _decode_other(view[start:stop], region, f"{log} at offset {offset}")


def decode_writes(view: memoryview, bounds: Sequence[int], region: int) -> Writes | None:
    """The records between these bounds, which the log has verified, if all of them are sound writes of the region.

    With no Python for a single one; where it is None, `decode_record` tells what the others are.
    """
    starts, stops = bounds[:-1], bounds[1:]
    sizes = list(map(sub, stops, starts))
    if min(sizes) < HEADER_BYTES or reduce(or_, bounds) % _ALIGNMENT:
        return None
    columns = list(map(add, starts, _HEADER_EACH))
    headers = _WRITE_HEADER.iter_unpack(b"".join(map(view.__getitem__, map(slice, starts, columns))))
    tags, counts, owners, running_count, tables, firsts, regions, reserved, lengths, _ = zip(*headers, strict=True)
    bounds_bytes = list(map(mul, map(add, counts, repeat(1)), repeat(4)))
    if (
        set(tags) != {_WRITE_TAG}
        or set(regions) != {region}
        or any(reserved)
        or list(map(add, lengths, _HEADER_EACH)) != sizes
        or not all(counts)
        or not all(map(ge, lengths, bounds_bytes))
    ):
        return None
    numbers = view[: len(view) - len(view) % 4].cast("i")
    data = map(view.__getitem__, map(slice, map(add, columns, bounds_bytes), stops))
    places = list(map(floordiv, columns, repeat(4)))
    payloads = map(BinaryColumn, repeat(numbers), data, repeat(None), places, counts)
    weights = map(add, map(numbers.__getitem__, map(add, places, counts)), bounds_bytes)
    return Writes(owners, running_count, tables, firsts, counts, payloads, weights)


def are_intact(view: memoryview, bounds: Sequence[int]) -> bool:
    """Whether the CRC of each record between these bounds is right, where the log has not verified the bytes."""
    starts, stops = bounds[:-1], bounds[1:]
    columns = list(map(add, starts, _HEADER_EACH))
    crc_places = list(map(sub, columns, repeat(_CRC.size)))
    headers = map(view.__getitem__, map(slice, starts, crc_places))
    bodies = map(view.__getitem__, map(slice, columns, stops))
    stored = b"".join(map(view.__getitem__, map(slice, crc_places, columns)))
    return stored == pack(f"<{len(starts)}I", *map(crc32c, bodies, map(crc32c, headers)))


def region_of_record(view: memoryview) -> int | None:
    """The region that a record names; None if the record is too short. Nothing is checked.

    >>> region_of_record(memoryview(encode_owner(7, OwnerRecord(-1, 0, 1, "host:1"))))
    7
    """
    return None if len(view) < HEADER_BYTES else _REGION.unpack_from(view, _REGION_AT)[0]


def _decode_other(view: memoryview, region: int, where: str) -> OwnerRecord:
    """Decode a record that is no sound write: an owner record, or damage."""
    size = len(view)
    if size and view[0] != VERSION:
        raise Corrupt(f"{where}: version {view[0]} of a record; this Cordwood knows version {VERSION}: use a newer one")
    if size < HEADER_BYTES:
        raise Corrupt(f"{where}: {size} bytes are no record of a write-ahead log: it has {HEADER_BYTES} or more")
    _, kind, gap, count, owner, running_count, table, first, of_region, reserved, length, crc = (
        _HEADER_AND_CRC.unpack_from(view)
    )
    found = crc32c(view[HEADER_BYTES:], crc32c(view[: HEADER_BYTES - 4]))
    if found != crc:
        raise Corrupt(f"{where}: the record's CRC is {crc:#010x}, that of its bytes {found:#010x}: restore a copy")
    if of_region != region:
        raise Corrupt(f"{where}: a record of region {of_region} in the log of region {region}: restore the log")
    if gap or reserved or length != size - HEADER_BYTES or length % _ALIGNMENT:
        raise Corrupt(f"{where}: a record of {size} bytes that this Cordwood cannot have written: use a newer one")
    if kind == _OWNER and not (count or first):
        return OwnerRecord(
            owner, running_count, table, bytes(view[HEADER_BYTES:]).rstrip(b"\0").decode(errors="replace")
        )
    if kind != _WRITE or not count:
        raise Corrupt(f"{where}: a record of kind {kind} with {count} entries is not known: use a newer Cordwood")
    raise Corrupt(f"{where}: {count} entries do not fit into a record of {size} bytes: restore a copy")


_HEADER_EACH = repeat(HEADER_BYTES)
_unpack_write = _WRITE_HEADER.unpack_from
_new_write: Callable[[tuple[int, int, int, int, int, memoryview]], WriteRecord] = partial(tuple.__new__, WriteRecord)


def _sealed(header: bytes, body: bytes) -> bytes:
    return b"".join((header, _CRC.pack(crc32c(body, crc32c(header))), body))
