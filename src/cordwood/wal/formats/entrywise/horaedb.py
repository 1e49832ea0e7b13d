"""The records of HoraeDB's regions on Kafka, for reading: `docs/formats/wal-horaedb.md` has the picture."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from cordwood.errors import Corrupt
from cordwood.records import Buffer
from cordwood.wal.formats.entrywise.codec import EntryKey, Known, check_key_length, check_version, decode_versioned
from cordwood.wal.names import ID_MAX

VERSION: Final = 0

_META: Final = 0
_ENTRY: Final = 1
# namespace, region, table, sequence number, version
_ENTRY_KEY = Struct(">BQQQB")
# namespace, version, region
_META_KEY = Struct(">BBQ")

# RegionMetaSnapshot and TableMetaData of its protobuf schema
_ENTRIES: Final = 2
_TABLE, _NEXT, _MARKED, _HIGH_WATERMARK, _OFFSET = 1, 2, 3, 4, 5
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES: Final = {_FIXED64: 8, _FIXED32: 4}


class HoraeDbCodec:
    """One record per entry; a snapshot of the whole region, as protobuf, at every mark."""

    table_max = ID_MAX

    def region_of_key(self, key: bytes) -> int:
        return int.from_bytes(key[1:9])

    def decode_key(self, key: bytes, region: int, log: str, offset: int) -> EntryKey:
        check_key_length(key, _ENTRY_KEY.size, log, offset)
        namespace, of_region, table, sequence, version = _ENTRY_KEY.unpack(key)
        check_version(version, VERSION, "key", log, offset)
        _check_place(namespace, _ENTRY, of_region, region, log, offset)
        return EntryKey(table, sequence)

    def decode_payload(self, value: Buffer, log: str, offset: int) -> memoryview:
        return decode_versioned(value, VERSION, log, offset)

    def decode_meta(self, key: bytes, value: Buffer, region: int, log: str, offset: int) -> Iterator[Known]:
        check_key_length(key, _META_KEY.size, log, offset)
        namespace, version, of_region = _META_KEY.unpack(key)
        check_version(version, VERSION, "key", log, offset)
        _check_place(namespace, _META, of_region, region, log, offset)
        snapshot = decode_versioned(value, VERSION, log, offset)
        try:
            for field, entry in _fields(snapshot):
                if field == _ENTRIES and isinstance(entry, memoryview):
                    yield _known(entry)
        except (IndexError, ValueError) as error:
            raise Corrupt(f"{log} at offset {offset}: a snapshot that is no protobuf message: {error}") from error


def _check_place(namespace: int, expected: int, of_region: int, region: int, log: str, offset: int) -> None:
    where = f"{log} at offset {offset}"
    if namespace != expected:
        raise Corrupt(f"{where}: a key of namespace {namespace}: the keys of this log have {expected}")
    if of_region != region:
        raise Corrupt(f"{where}: a record of region {of_region} in the log of region {region}: restore the log")


def _known(entry: memoryview) -> Known:
    numbers = {field: value for field, value in _fields(entry) if isinstance(value, int)}
    return Known(
        table=numbers.get(_TABLE, 0),
        next_sequence=numbers.get(_NEXT, 0),
        deleted_through=max(0, numbers.get(_MARKED, 0) - 1),  # theirs is the first that is kept
        high_watermark=numbers.get(_HIGH_WATERMARK, 0),
        oldest=numbers.get(_OFFSET),
    )


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a protobuf message: of a varint its number, of a length-delimited one its bytes; others are left
    out."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        field, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            number, at = _varint(message, at)
            yield field, number
        elif kind == _BYTES:
            size, at = _varint(message, at)
            yield field, message[at : at + size]
            at += size
        elif kind in _FIXED_BYTES:
            at += _FIXED_BYTES[kind]
        else:
            raise ValueError(f"a field of kind {kind} at {at}")
    if at > len(message):
        raise ValueError(f"{len(message)} bytes, and its fields have {at}")


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > 63:
            raise ValueError(f"a number of more than 64 bits at {at}")
