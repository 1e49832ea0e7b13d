"""Records that hold one entry each and have no owners: the parts that their codecs share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from struct import Struct
from typing import NamedTuple, Protocol

from cordwood.errors import Corrupt
from cordwood.records import BinaryColumn, Buffer
from cordwood.wal.record import WriteRecord

_BOUNDS = Struct("=2i")


class EntryKey(NamedTuple):
    """The entry that a record holds."""

    table: int
    sequence: int
    is_start: bool = False
    """Whether all entries of its table before it are deleted."""


class Known(NamedTuple):
    """A table, as a record of a meta log describes it."""

    table: int
    next_sequence: int
    deleted_through: int
    high_watermark: int = 0
    oldest: int | None = None
    """The offset of its oldest live entry, if the record has it."""


class EntryCodec(Protocol):
    """Such records as bytes. `log` and `offset` name their place in the text of `Corrupt`."""

    table_max: int
    """The largest id of a table that its records can have."""

    def region_of_key(self, key: bytes) -> int:
        """The region that a key names, unchecked; 0 where keys name none."""

    def decode_key(self, key: bytes, region: int, log: str, offset: int) -> EntryKey: ...
    def decode_payload(self, value: Buffer, log: str, offset: int) -> memoryview: ...
    def decode_meta(self, key: bytes, value: Buffer, region: int, log: str, offset: int) -> Iterable[Known]: ...


class EntryRecord(WriteRecord):
    """One entry in the form of a write: its column is the bare payload."""

    __slots__ = ()

    @property
    def payloads(self) -> BinaryColumn:
        return BinaryColumn(memoryview(_BOUNDS.pack(0, len(self.column))).cast("i"), self.column)


new_entry_record: Callable[[tuple[int, int, int, int, int, memoryview]], EntryRecord] = partial(
    tuple.__new__, EntryRecord
)


def decode_versioned(value: Buffer, version: int, log: str, offset: int) -> memoryview:
    """The bytes after the version in a value."""
    view = memoryview(value)
    if not len(view):
        raise Corrupt(f"{log} at offset {offset}: a record without a value: it begins with a version")
    check_version(view[0], version, "value", log, offset)
    return view[1:]


def check_version(found: int, version: int, what: str, log: str, offset: int) -> None:
    if found != version:
        raise Corrupt(f"{log} at offset {offset}: version {found} of a {what}; this Cordwood knows version {version}")


def check_key_length(key: bytes, length: int, log: str, offset: int) -> None:
    if len(key) != length:
        raise Corrupt(f"{log} at offset {offset}: a key of {len(key)} bytes: a key of this format has {length}")
