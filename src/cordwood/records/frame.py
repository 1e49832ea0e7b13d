"""The frame: one or more batches as bytes, on the disk and on the wire.

`docs/formats/frame.md` has the picture. Everything is little-endian and begins at a multiple of 8 bytes, so that
reading a frame is slicing it. The columns of a `StoredBatch` are views of the frame's bytes. `encode` writes frames.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple, TypeAlias

from crc32c import crc32c

from cordwood.errors import Corrupt
from cordwood.records.column import BinaryColumn
from cordwood.records.headers import HeaderColumn
from cordwood.records.layout import (
    FLAG_HEADER_NULLS,
    FLAG_HEADERS,
    FLAG_KEY_NULLS,
    FLAG_KEYS,
    FLAG_TIMESTAMPS,
    FLAG_VALUE_NULLS,
    FLAGS_KNOWN,
    FRAME_ALIGNMENT,
    FRAME_BYTES_MAX,
    FRAME_HEADER_BYTES,
    LARGE_FRAME_BYTES,
    WEIGHT_HEADER_BYTES,
    WEIGHT_RECORD_BYTES,
    frame_size,
)
from cordwood.records.stored import StoredBatch

Buffer: TypeAlias = "bytes | memoryview"
"""Bytes to write or to read; a memoryview is contiguous and of format "B"."""

MAGIC = b"CORD"
VERSION = 1
CODEC_NONE = 0

# The CRC is between two parts of the header, and covers both.
BEFORE_CRC = Struct("<4sBBHI")
AFTER_CRC = Struct("<QQQQqIIIIIII")
AFTER_CRC_AT = 16
HEADER_CRC_AT = 84
_HEADER = Struct("<4sBBHIIQQQQqIIIIIIIIQ")
ZEROS = tuple(bytes(size) for size in range(FRAME_ALIGNMENT))

_header: Any = tuple.__new__  # FrameHeader's own __new__ is Python with fifteen arguments
_new = object.__new__


class FrameCut(Corrupt):
    """The buffer ends before the frame does: more bytes may complete it, or they were never written.

    >>> is_cut = False
    >>> try:
    ...     decode_header(b"CORD")
    ... except FrameCut:
    ...     is_cut = True
    >>> is_cut
    True
    """


class FrameHeader(NamedTuple):
    """The 96 bytes before a frame's columns, without magic, version, codec and reserved bytes.

    >>> from cordwood.records import Batch, encode_frame
    >>> frame = encode_frame(
    ...     [Batch.of([b"a", b"b"])], plog=7, position=64, first_offset=5, epoch=1, synced_end=64, now_ms=9
    ... )
    >>> header = decode_header(frame)
    >>> header.length == len(frame), header.position, header.first_offset, header.record_count, header.next_offset
    (True, 64, 5, 2, 7)
    """

    flags: int
    length: int
    crc: int
    plog: int
    position: int
    first_offset: int
    synced_end: int
    timestamp_max: int
    record_count: int
    epoch: int
    key_bytes: int
    value_bytes: int
    header_count: int
    name_bytes: int
    header_value_bytes: int

    @property
    def next_offset(self) -> int:
        """One past the offset of the frame's last record."""
        return self.first_offset + self.record_count


def decode_header(buffer: Buffer, at: int = 0) -> FrameHeader:
    """The header of the frame at byte `at`, checked as far as possible without the frame's columns.

    It has a CRC of its own, so its fields can be trusted; `check_frame` checks the columns. A buffer that ends within
    the header is `FrameCut`; anything that is no header of a frame of this version is `Corrupt`.

    >>> decode_header(bytes(96))
    Traceback (most recent call last):
    ...
    cordwood.errors.Corrupt: no frame at byte 0: magic b'\\x00\\x00\\x00\\x00' instead of b'CORD'
    """
    if len(buffer) - at < FRAME_HEADER_BYTES:
        raise FrameCut(f"the frame at byte {at} is cut: {len(buffer) - at} bytes of a header of {FRAME_HEADER_BYTES}")
    fields = _HEADER.unpack_from(buffer, at)
    magic, version, codec, flags, length = fields[:5]
    if magic != MAGIC:
        raise Corrupt(f"no frame at byte {at}: magic {magic!r} instead of {MAGIC!r}")
    if version != VERSION:
        raise _damaged(at, f"version {version}; this Cordwood reads version {VERSION}")
    # Checked alone, so that a walk over headers, which skips the bodies, cannot be misled.
    view = memoryview(buffer)
    header_crc = crc32c(view[at + AFTER_CRC_AT : at + HEADER_CRC_AT], crc32c(view[at : at + BEFORE_CRC.size]))
    if header_crc != fields[18]:
        raise _damaged(at, f"CRC {header_crc:08x} of its header, but {fields[18]:08x} was written")
    if codec != CODEC_NONE:
        raise _damaged(at, f"codec {codec}; this Cordwood reads codec {CODEC_NONE}")
    if flags & ~FLAGS_KNOWN:
        raise _damaged(at, f"unknown flags {flags & ~FLAGS_KNOWN:#x}")
    if length & 7 or not FRAME_HEADER_BYTES < length <= FRAME_BYTES_MAX:
        raise _damaged(at, f"length {length}; a multiple of 8 up to {FRAME_BYTES_MAX} is needed")
    header: FrameHeader = _header(FrameHeader, fields[3:18])
    count, key_bytes = header[8], header[10]
    if not count:
        raise _damaged(at, "no records")
    if fields[19]:
        raise _damaged(at, f"reserved bytes are not zero: {fields[19]:#x}")
    if not flags & FLAG_KEYS and (key_bytes or flags & FLAG_KEY_NULLS):
        raise _damaged(at, f"{key_bytes} bytes of keys, or nulls among them (flags {flags:#x}), but no keys")
    if flags & FLAG_HEADERS:
        if not header[12]:
            raise _damaged(at, "a column of headers, but no headers")
    elif header[12] or header[13] or header[14] or flags & FLAG_HEADER_NULLS:
        raise _damaged(at, f"{header[12]} headers, or nulls among them (flags {flags:#x}), but no column of headers")
    needed = frame_size(flags, count, header[11], key_bytes, header[12], header[13], header[14])
    if needed != length:
        raise _damaged(at, f"length {length}, but its columns need {needed}")
    return header


def check_frame(buffer: Buffer, at: int = 0, header: FrameHeader | None = None) -> FrameHeader:
    """The header of the frame at byte `at`, after a check of the CRC over the whole frame.

    Compare `header.plog` and `header.position` to find out whether the frame belongs at this place.

    >>> from cordwood.records import Batch, encode_frame
    >>> frame = encode_frame(
    ...     [Batch.of([b"a"])], plog=7, position=0, first_offset=5, epoch=1, synced_end=0, now_ms=9
    ... )
    >>> check_frame(frame).first_offset
    5
    """
    header = header or decode_header(buffer, at)
    end = at + header.length
    if len(buffer) < end:
        raise FrameCut(f"the frame at byte {at} is cut: {len(buffer) - at} bytes of {header.length}")
    view = memoryview(buffer)
    # For a large frame, release the interpreter lock, so that another thread decodes meanwhile. For a small one,
    # getting the lock back costs more than that gains.
    release = header.length >= LARGE_FRAME_BYTES
    crc = crc32c(view[at + AFTER_CRC_AT : end], crc32c(view[at : at + BEFORE_CRC.size]), int(release))
    if crc != header.crc:
        raise _damaged(at, f"CRC {crc:08x} of {header.length} bytes, but {header.crc:08x} was written")
    return header


def is_whole(buffer: Buffer, at: int = 0) -> bool:
    """Whether a whole, undamaged frame is at byte `at`.

    >>> is_whole(bytes(200))
    False
    """
    try:
        check_frame(buffer, at)
    except Corrupt:
        return False
    return True


def decode_frame(buffer: Buffer, at: int = 0, header: FrameHeader | None = None) -> StoredBatch:
    """The batch in the frame at byte `at`, after a check of its CRC; its columns are views of the buffer.

    The buffer must not change as long as the batch, or anything that was sliced from it, is in use.

    >>> from cordwood.records import Batch, encode_frame
    >>> frame = encode_frame(
    ...     [Batch.of([b"a", b"b"])], plog=7, position=0, first_offset=5, epoch=1, synced_end=0, now_ms=9
    ... )
    >>> decode_frame(frame)
    <StoredBatch of 2 at range(5, 7): 2 bytes>
    """
    header = check_frame(buffer, at, header)
    view = memoryview(buffer)[at : at + header.length].toreadonly()
    flags, count = header.flags, header.record_count
    batch: StoredBatch = _new(StoredBatch)
    batch.offsets = range(header.first_offset, header.first_offset + count)
    batch.partition = None
    batch._flags = flags
    batch._value_bytes = header.value_bytes
    batch._key_bytes = header.key_bytes
    batch.weight = header.value_bytes + header.key_bytes + WEIGHT_RECORD_BYTES * count
    batch._timestamps = header.timestamp_max
    batch._keys = batch._headers = batch._ends = None
    place = FRAME_HEADER_BYTES
    if flags & FLAG_TIMESTAMPS:
        batch._timestamps = view[place : place + 8 * count].cast("q")
        place += 8 * count
    batch._values, place = _column(view, place, count, header.value_bytes, flags & FLAG_VALUE_NULLS, at)
    if flags & FLAG_KEYS:
        batch._keys, place = _column(view, place, count, header.key_bytes, flags & FLAG_KEY_NULLS, at)
    if flags & FLAG_HEADERS:
        total = header.header_count
        offsets, place = _offsets(view, place, count, total, at)
        names, place = _column(view, place, total, header.name_bytes, 0, at)
        values, place = _column(view, place, total, header.header_value_bytes, flags & FLAG_HEADER_NULLS, at)
        batch._headers = HeaderColumn(offsets, names, values)
        batch.weight += header.name_bytes + header.header_value_bytes + WEIGHT_HEADER_BYTES * total
    return batch


def _column(view: memoryview, place: int, count: int, data_bytes: int, nulls: int, at: int) -> tuple[BinaryColumn, int]:
    """The column at `place`, and the place after it."""
    validity = None
    if nulls:
        end = place + ((count + 7) >> 3)
        validity = view[place:end]
        if count & 7 and validity[-1] >> (count & 7):
            raise _damaged(at, f"the bitmap at byte {place} of the frame has bits beyond its {count} entries")
        place = _padded(view, end, at)
    offsets, place = _offsets(view, place, count, data_bytes, at)
    end = place + data_bytes
    return BinaryColumn(offsets, view[place:end], validity, 0, count), _padded(view, end, at)


def _offsets(view: memoryview, place: int, count: int, total: int, at: int) -> tuple[memoryview, int]:
    """The offsets at `place`, and the place after them. Only the CRC protects that they never decrease."""
    end = place + 4 * count + 4
    offsets = view[place:end].cast("i")
    if offsets[0] or offsets[count] != total:
        raise _damaged(
            at,
            f"offsets at byte {place} of it go from {offsets[0]} to {offsets[count]}, not from 0 to {total}",
        )
    return offsets, _padded(view, end, at)


def _padded(view: memoryview, end: int, at: int) -> int:
    """The next multiple of 8, after a check that the bytes up to it are zero."""
    padding = -end & 7
    if padding and view[end : end + padding] != ZEROS[padding]:
        raise _damaged(at, f"padding at byte {end} of the frame is not zero")
    return end + padding


def _damaged(at: int, reason: str) -> Corrupt:
    return Corrupt(f"damaged frame at byte {at}: {reason}")
