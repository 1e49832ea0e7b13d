"""A record of a region's meta log as bytes: `docs/formats/wal-meta.md` has the picture.

Marks and snapshots are columns: nothing is done in Python for a single number.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, pack
from typing import Final, NamedTuple, TypeAlias

from crc32c import crc32c

from cordwood.errors import Corrupt
from cordwood.records import Buffer

VERSION: Final = 1
HEADER_BYTES: Final = 64
MARK_BYTES: Final = 17
DROPPED: Final = -1
"""The high watermark of a dropped table."""

_OWNER: Final = 1
_MARKS: Final = 2
_SNAPSHOT: Final = 3

# version, kind, reserved, count, owner, region, number, part, parts, high watermark, trim target, bytes of the body
_HEADER = Struct("<BBHIqqqIIqqI")
_CRC = Struct("<I")
# running count, records, bytes, flags, mapping pairs, positions
_REGION = Struct("<qqqIII")
_REGION_BYTES = 40
_FORGETFUL: Final = 1
_ALIGNMENT = 8


class MetaOwner(NamedTuple):
    """Somebody owns the region from that offset of its data log on."""

    owner: int
    session: int
    who: str
    anew: bool = False
    """The data log has lost its end: ids before this record are not comparable with those after it."""


class Marks(NamedTuple):
    """Tables are deleted through these numbers; where `dropped` is 1, the table is dropped."""

    owner: int
    tables: Sequence[int]
    through: Sequence[int]
    dropped: Sequence[int]


class SnapshotPart(NamedTuple):
    """Some of the tables of a region as they were when the data log was applied up to its high watermark."""

    owner: int
    number: int
    """The same in all parts of a snapshot, and in no other snapshot of this owner."""
    part: int
    parts: int
    high_watermark: int
    """The first offset of the data log that was not applied."""
    trim_target: int
    """The data log may be trimmed up to this offset."""
    running_count: int
    """The region's running count."""
    writes: int
    bytes: int
    forgetful: bool
    tables: Sequence[int]
    next_sequences: Sequence[int]
    deleted_through: Sequence[int]
    high_watermarks: Sequence[int]
    pairs: Sequence[int]
    """How many pairs of the mapping each table has."""
    firsts: Sequence[int]
    offsets: Sequence[int]
    position_offsets: Sequence[int]
    position_bytes: Sequence[int]


MetaRecord: TypeAlias = MetaOwner | Marks | SnapshotPart


def encode_meta(region: int, record: MetaRecord) -> bytes:
    """
    >>> len(encode_meta(7, Marks(owner=0, tables=[42], through=[2], dropped=[0])))
    88
    """
    if isinstance(record, MetaOwner):
        return _sealed(_OWNER, record.anew, record.owner, region, (record.session, 0, 0, 0, 0), record.who.encode())
    if isinstance(record, Marks):
        count = len(record.tables)
        body = pack(f"<{2 * count}q{count}B", *record.tables, *record.through, *record.dropped)
        return _sealed(_MARKS, count, record.owner, region, (0, 0, 0, 0, 0), body)
    count, pairs, positions = len(record.tables), len(record.firsts), len(record.position_offsets)
    scalars = _REGION.pack(record.running_count, record.writes, record.bytes, record.forgetful, pairs, positions)
    longs = pack(
        f"<{4 * count + 2 * pairs + 2 * positions}q",
        *record.tables,
        *record.next_sequences,
        *record.deleted_through,
        *record.high_watermarks,
        *record.firsts,
        *record.offsets,
        *record.position_offsets,
        *record.position_bytes,
    )
    body = b"".join((scalars, bytes(_REGION_BYTES - len(scalars)), longs, pack(f"<{count}B", *record.pairs)))
    numbers = (record.number, record.part, record.parts, record.high_watermark, record.trim_target)
    return _sealed(_SNAPSHOT, count, record.owner, region, numbers, body)


def decode_meta(data: Buffer, region: int, where: str) -> MetaRecord:
    """The record in `data`, all of which it is; `where` names its place in what `Corrupt` says."""
    view = memoryview(data)
    size = len(view)
    if size and view[0] != VERSION:
        raise Corrupt(f"{where}: version {view[0]} of a record; this Cordwood knows version {VERSION}: use a newer one")
    if size < HEADER_BYTES:
        raise Corrupt(f"{where}: {size} bytes are no record of a meta log: it has {HEADER_BYTES} or more")
    _, kind, gap, count, owner, of_region, number, part, parts, high, target, length = _HEADER.unpack_from(view)
    (crc,) = _CRC.unpack_from(view, HEADER_BYTES - 4)
    found = crc32c(view[HEADER_BYTES:], crc32c(view[: HEADER_BYTES - 4]))
    if found != crc:
        raise Corrupt(f"{where}: the record's CRC is {crc:#010x}, that of its bytes {found:#010x}: restore a copy")
    if of_region != region:
        raise Corrupt(f"{where}: a record of region {of_region} in the meta log of region {region}: restore the log")
    body = view[HEADER_BYTES:]
    if gap or length != len(body) or length % _ALIGNMENT:
        raise Corrupt(f"{where}: a record of {size} bytes that this Cordwood cannot have written: use a newer one")
    if kind == _OWNER and count <= 1:
        return MetaOwner(owner, number, bytes(body).rstrip(b"\0").decode(errors="replace"), bool(count))
    if kind == _MARKS and MARK_BYTES * count <= length:
        longs = body[: 16 * count].cast("q")
        return Marks(owner, longs[:count].tolist(), longs[count:].tolist(), list(body[16 * count : MARK_BYTES * count]))
    if kind == _SNAPSHOT and part < parts and length >= _REGION_BYTES:
        running_count, writes, total, flags, pairs, positions = _REGION.unpack_from(body)
        sizes = (count, count, count, count, pairs, pairs, positions, positions)
        end = _REGION_BYTES + 8 * sum(sizes)
        if end + count <= length and flags in (0, _FORGETFUL):
            columns = _split(body[_REGION_BYTES:end].cast("q").tolist(), sizes)
            tables, next_sequences, deleted, highs, firsts, offsets, position_offsets, position_bytes = columns
            counts = list(body[end : end + count])
            return SnapshotPart(
                owner, number, part, parts, high, target, running_count, writes, total, bool(flags),
                tables, next_sequences, deleted, highs, counts, firsts, offsets, position_offsets, position_bytes,
            )  # fmt: skip
    raise Corrupt(f"{where}: a record of kind {kind} with a count of {count} is not known: use a newer Cordwood")


def _split(numbers: list[int], sizes: Sequence[int]) -> list[list[int]]:
    columns = []
    at = 0
    for size in sizes:
        columns.append(numbers[at : at + size])
        at += size
    return columns


def _sealed(
    kind: int, count: int, owner: int, region: int, numbers: tuple[int, int, int, int, int], body: bytes
) -> bytes:
    body += bytes(-len(body) % _ALIGNMENT)
    header = _HEADER.pack(VERSION, kind, 0, count, owner, region, *numbers, len(body))
    return b"".join((header, _CRC.pack(crc32c(body, crc32c(header))), body))
