"""The records of the proposal for a write-ahead log on Kafka: `docs/formats/wal-rfc.md` has the picture."""

from __future__ import annotations

from struct import Struct
from typing import Final

from cordwood.errors import Corrupt
from cordwood.records import Buffer
from cordwood.wal.formats.entrywise.codec import EntryKey, Known, check_key_length, check_version, decode_versioned

VERSION: Final = 0
TABLE_MAX: Final = 2**32 - 1

# version, table, sequence number, is_start
_ENTRY_KEY = Struct(">BIQB")
# version, table
_META_KEY = Struct(">BI")
# version, start sequence number
_META_VALUE = Struct(">BQ")
_VERSION_BYTE = bytes([VERSION])

KEY_BYTES: Final = _ENTRY_KEY.size
ALL_MARKS: Final = ("cordwood", b"all marks")
"""A header of the first record where all marks were written once more. It is ours: others read keys and values."""


class RfcCodec:
    """One record per entry; a mark is a record with the first number that is kept."""

    table_max = TABLE_MAX

    def region_of_key(self, key: bytes) -> int:
        return 0

    def decode_key(self, key: bytes, region: int, log: str, offset: int) -> EntryKey:
        check_key_length(key, KEY_BYTES, log, offset)
        version, table, sequence, is_start = _ENTRY_KEY.unpack(key)
        check_version(version, VERSION, "key", log, offset)
        if is_start > 1:
            raise Corrupt(f"{log} at offset {offset}: is_start is {is_start}: it is 0 or 1")
        return EntryKey(table, sequence, bool(is_start))

    def decode_payload(self, value: Buffer, log: str, offset: int) -> memoryview:
        return decode_versioned(value, VERSION, log, offset)

    def decode_meta(self, key: bytes, value: Buffer, region: int, log: str, offset: int) -> list[Known]:
        check_key_length(key, _META_KEY.size, log, offset)
        version, table = _META_KEY.unpack(key)
        check_version(version, VERSION, "key", log, offset)
        decode_versioned(value, VERSION, log, offset)
        if len(value) != _META_VALUE.size:
            raise Corrupt(f"{log} at offset {offset}: a mark of {len(value)} bytes: it has {_META_VALUE.size}")
        _, start = _META_VALUE.unpack(value)
        return [Known(table, max(1, start), max(0, start - 1))]


def encode_key(key: EntryKey) -> bytes:
    """
    >>> encode_key(EntryKey(table=7, sequence=1, is_start=True)).hex()
    '0000000007000000000000000101'
    """
    return _ENTRY_KEY.pack(VERSION, key.table, key.sequence, key.is_start)


def encode_value(payload: bytes) -> bytes:
    return _VERSION_BYTE + payload


def encode_mark(table: int, start: int) -> tuple[bytes, bytes]:
    """Key and value of a mark: the entries of the table before `start` are deleted."""
    return _META_KEY.pack(VERSION, table), _META_VALUE.pack(VERSION, start)
