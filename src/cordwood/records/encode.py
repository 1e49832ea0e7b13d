"""Writing a frame: the columns of some batches as buffers, with no Python for a record."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import reduce
from itertools import chain, repeat
from operator import attrgetter, or_

from crc32c import crc32c

from cordwood.errors import InvalidInput, TooLarge
from cordwood.records.batch import Batch
from cordwood.records.column import BinaryColumn, Rows, column_buffers
from cordwood.records.frame import AFTER_CRC, BEFORE_CRC, CODEC_NONE, MAGIC, VERSION, ZEROS, Buffer
from cordwood.records.headers import HeaderColumn
from cordwood.records.layout import (
    FLAG_HEADER_NULLS,
    FLAG_HEADERS,
    FLAG_KEY_NULLS,
    FLAG_KEYS,
    FLAG_TIMESTAMPS,
    FLAG_VALUE_NULLS,
    FRAME_BYTES_MAX,
    frame_size,
)

# Parts below this are copied into one buffer: a buffer more for pwritev and CRC costs about as much as
# copying this.
_COPIED_BELOW = 16 * 1024

_NO_ORDER = bytes(8)

_flags_of = attrgetter("_flags")
_values_of = attrgetter("_values")
_keys_of = attrgetter("_keys")
_timestamps_of = attrgetter("_timestamps")


def frame_bytes(batch: Batch) -> int:
    """The exact bytes of a frame of this batch alone, padding included; nothing is encoded for it.

    >>> frame_bytes(Batch.of([b"hello"]))
    112
    """
    headers = batch._headers
    if headers is None:
        return frame_size(batch._flags, len(batch), batch._value_bytes, batch._key_bytes, 0, 0, 0)
    total, names, values, _ = headers.sizes()
    return frame_size(batch._flags, len(batch), batch._value_bytes, batch._key_bytes, total, names, values)


def encode_frame(
    batches: Sequence[Batch],
    *,
    plog: int,
    position: int,
    first_offset: int,
    epoch: int,
    synced_end: int,
    now_ms: int,
) -> tuple[list[Buffer], int]:
    """One frame of all these batches, in their order: the buffers to write one after the other, and their
    length.

    Records without a timestamp of their own get `now_ms`. The buffers may be views of the batches' own bytes.
    More than `FRAME_BYTES_MAX` is `TooLarge`: group batches by their weight.

    >>> group = [Batch.of([b"a"]), Batch.of([b"b"])]
    >>> buffers, length = encode_frame(
    ...     group, plog=7, position=0, first_offset=0, epoch=1, synced_end=0, now_ms=9
    ... )
    >>> from cordwood.records import decode_frame
    >>> length, decode_frame(memoryview(b"".join(buffers))).values.tolist()
    (120, [b'a', b'b'])
    """
    if len(batches) == 1:
        batch = batches[0]
        flags, values, keys, headers = batch._flags, batch._values, batch._keys, batch._headers
    else:
        flags = reduce(or_, map(_flags_of, batches), 0)
        values = list(chain.from_iterable(map(_values_of, batches)))
        keys = None
        headers = None
        if flags & FLAG_KEYS:
            keys, flags = _merged_keys(batches, flags)
        if flags & FLAG_HEADERS:
            headers = HeaderColumn.joined([batch.headers for batch in batches])
    count = len(values)
    if not count:
        raise InvalidInput("a frame of no records; at least 1 is needed")

    column, highest = _timestamps(batches, flags, now_ms)
    flags &= ~FLAG_TIMESTAMPS
    parts: list[tuple[Buffer, int]] = []  # with their bytes: a view of offsets has another len()
    if column is not None:
        flags |= FLAG_TIMESTAMPS
        parts.append((column, 8 * count))
    value_bytes = _add_column(parts, values, flags & FLAG_VALUE_NULLS)
    key_bytes = name_bytes = header_count = header_value_bytes = 0
    if keys is not None:
        key_bytes = _add_column(parts, keys, flags & FLAG_KEY_NULLS)
    if headers is not None:
        offsets, names, header_values = headers.compact()
        header_count = len(names)
        parts.append((offsets, 4 * count + 4))
        name_bytes = _add_column(parts, names, 0)
        header_value_bytes = _add_column(parts, header_values, flags & FLAG_HEADER_NULLS)

    length = frame_size(flags, count, value_bytes, key_bytes, header_count, name_bytes, header_value_bytes)
    if length > FRAME_BYTES_MAX:
        raise TooLarge(f"a frame of {length} bytes; limit {FRAME_BYTES_MAX}")
    before = BEFORE_CRC.pack(MAGIC, VERSION, CODEC_NONE, flags, length)
    after = AFTER_CRC.pack(
        plog,
        position,
        first_offset,
        synced_end,
        highest,
        count,
        epoch,
        key_bytes,
        value_bytes,
        header_count,
        name_bytes,
        header_value_bytes,
    )
    after += crc32c(after, crc32c(before)).to_bytes(4, "little") + _NO_ORDER
    buffers = _gathered(after, parts)
    crc = crc32c(before)
    for buffer in buffers:
        crc = crc32c(buffer, crc, 0)
    buffers[0] = b"".join((before, crc.to_bytes(4, "little"), buffers[0]))
    return buffers, length


def _merged_keys(batches: Sequence[Batch], flags: int) -> tuple[Rows, int]:
    """The keys of all batches, nulls for those that have none; the flags with what that adds."""
    keys = list(map(_keys_of, batches))
    if None in keys:
        flags |= FLAG_KEY_NULLS
        keys = [
            repeat(None, len(batch)) if column is None else column for batch, column in zip(batches, keys, strict=True)
        ]
    return list(chain.from_iterable(keys)), flags


def _timestamps(batches: Sequence[Batch], flags: int, now_ms: int) -> tuple[memoryview | None, int]:
    """The column of timestamps, None where all records have the same one; the highest of them."""
    stamps = list(map(_timestamps_of, batches))
    if stamps.count(None) == len(stamps):
        return None, now_ms
    if len(batches) == 1:
        given = stamps[0]
        if flags & FLAG_TIMESTAMPS:
            return given, max(given)
        return None, given[0] if isinstance(given, memoryview) else given
    column = array("q")
    for batch, given in zip(batches, stamps, strict=True):
        if isinstance(given, memoryview):
            column.frombytes(given.cast("B"))
        else:
            column.extend(repeat(now_ms if given is None else given, len(batch)))
    highest = max(column)
    if not flags & FLAG_TIMESTAMPS and min(column) == highest:
        return None, highest
    return memoryview(column), highest


def _add_column(parts: list[tuple[Buffer, int]], rows: Rows | BinaryColumn, nulls: int) -> int:
    """Adds the buffers of a column to the parts of a frame, and returns the bytes of its data."""
    validity, offsets, data = column_buffers(rows, nulls != 0)
    count = len(rows)
    if nulls:
        assert validity is not None  # the flag was set because a null was seen
        parts.append((validity, (count + 7) >> 3))
    parts.append((offsets, 4 * count + 4))
    size = len(data)
    parts.append((data, size))
    return size


def _gathered(first: bytes, parts: list[tuple[Buffer, int]]) -> list[Buffer]:
    """The parts, padded, in few buffers: small neighbours are joined, big ones stay where they are."""
    buffers: list[Buffer] = []
    small: list[Buffer] = [first]
    for part, size in parts:
        if size < _COPIED_BELOW:
            small.append(part)
        else:
            if small:
                buffers.append(b"".join(small))
            buffers.append(part.cast("B") if isinstance(part, memoryview) else part)
            small = []
        if size & 7:
            small.append(ZEROS[-size & 7])
    if small:
        buffers.append(b"".join(small))
    return buffers
