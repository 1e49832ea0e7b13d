"""Writing a frame: the columns of some batches as buffers, without Python per record."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import partial, reduce
from itertools import chain, repeat
from operator import attrgetter, or_

from crc32c import crc32c

from cordwood.errors import InvalidInput, TooLarge
from cordwood.records.batch import Batch
from cordwood.records.column import BinaryColumn, Rows, present_rows, row_bitmap, row_offsets, rows_bytes
from cordwood.records.frame import (
    AFTER_CRC,
    BEFORE_CRC,
    CODEC_NONE,
    MAGIC,
    VERSION,
)
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
from cordwood.records.pieces import Frame, Part

_NO_ORDER = bytes(8)

_flags_of = attrgetter("_flags")
_values_of = attrgetter("_values")
_keys_of = attrgetter("_keys")
_timestamps_of = attrgetter("_timestamps")
_value_bytes_of = attrgetter("_value_bytes")
_key_bytes_of = attrgetter("_key_bytes")


def frame_bytes(batch: Batch) -> int:
    """The exact bytes of a frame of this batch alone, padding included, without encoding it.

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
) -> bytes:
    """The bytes of one frame of all these batches.

    >>> group = [Batch.of([b"a"]), Batch.of([b"b"])]
    >>> frame = encode_frame(group, plog=7, position=0, first_offset=0, epoch=1, synced_end=0, now_ms=9)
    >>> from cordwood.records import decode_frame
    >>> len(frame), decode_frame(frame).values.tolist()
    (120, [b'a', b'b'])
    """
    frame = frame_of(
        batches,
        plog=plog,
        position=position,
        first_offset=first_offset,
        epoch=epoch,
        synced_end=synced_end,
        now_ms=now_ms,
    )
    return b"".join(b"".join(buffers) for _, buffers, _ in frame.pieces())


def frame_of(
    batches: Sequence[Batch],
    *,
    plog: int,
    position: int,
    first_offset: int,
    epoch: int,
    synced_end: int,
    now_ms: int,
) -> Frame:
    """One frame of all these batches, in their order.

    Records without a timestamp of their own get `now_ms`. More than `FRAME_BYTES_MAX` is `TooLarge`: group batches by
    their weight.

    >>> frame = frame_of([Batch.of([b"a"])], plog=7, position=0, first_offset=0, epoch=1, synced_end=0, now_ms=9)
    >>> frame.length, [at for at, _, _ in frame.pieces()]
    (112, [0])
    """
    if len(batches) == 1:
        batch = batches[0]
        flags, values, keys, headers = batch._flags, batch._values, batch._keys, batch._headers
        value_bytes, key_bytes, ends = batch._value_bytes, batch._key_bytes, batch._ends
    else:
        flags = reduce(or_, map(_flags_of, batches), 0)
        values = list(chain.from_iterable(map(_values_of, batches)))
        value_bytes, key_bytes = sum(map(_value_bytes_of, batches)), sum(map(_key_bytes_of, batches))
        keys = headers = ends = None
        if flags & FLAG_KEYS:
            keys, flags = _merged_keys(batches, flags)
        if flags & FLAG_HEADERS:
            headers = HeaderColumn.joined([batch.headers for batch in batches])
    count = len(values)
    if not count:
        raise InvalidInput("a frame of no records; at least 1 is needed")

    column, highest = _timestamps(batches, flags, now_ms)
    flags &= ~FLAG_TIMESTAMPS
    parts: list[Part] = []
    if column is not None:
        flags |= FLAG_TIMESTAMPS
        parts.append(Part(column, 8 * count))
    _add_column(parts, values, value_bytes, flags & FLAG_VALUE_NULLS, ends)
    name_bytes = header_count = header_value_bytes = 0
    if keys is not None:
        _add_column(parts, keys, key_bytes, flags & FLAG_KEY_NULLS)
    if headers is not None:
        offsets, names, header_values = headers.compact()
        header_count, name_bytes, header_value_bytes = len(names), rows_bytes(names), rows_bytes(header_values)
        parts.append(Part(offsets, 4 * count + 4))
        _add_column(parts, names, name_bytes, 0)
        _add_column(parts, header_values, header_value_bytes, flags & FLAG_HEADER_NULLS)

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
    return Frame(length, highest, before, after, parts)


def _merged_keys(batches: Sequence[Batch], flags: int) -> tuple[Rows, int]:
    """The keys of all batches, null for batches that have none; and the flags, with FLAG_KEY_NULLS added if needed."""
    keys = list(map(_keys_of, batches))
    if None in keys:
        flags |= FLAG_KEY_NULLS
        keys = [
            repeat(None, len(batch)) if column is None else column for batch, column in zip(batches, keys, strict=True)
        ]
    return list(chain.from_iterable(keys)), flags


def _timestamps(batches: Sequence[Batch], flags: int, now_ms: int) -> tuple[memoryview | None, int]:
    """The column of timestamps, None if all records have the same one; the highest of them."""
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


def _add_column(
    parts: list[Part],
    rows: Rows | BinaryColumn,
    size: int,
    nulls: int,
    ends: list[int] | None = None,
) -> None:
    """Add the parts of a column, whose entries have `size` bytes together, to those of a frame."""
    count = len(rows)
    if isinstance(rows, BinaryColumn):
        validity, offsets, data = rows.compact()
        if nulls:
            assert validity is not None  # the flag was set because a null was seen
            parts.append(Part(validity, (count + 7) >> 3))
        parts += Part(offsets, 4 * count + 4), Part(data, size)
    else:
        if nulls:
            parts.append(Part(row_bitmap(rows), (count + 7) >> 3))
        present = present_rows(rows, nulls != 0)
        parts.append(Part(partial(row_offsets, rows, nulls != 0, ends), 4 * count + 4))
        parts.append(Part(present, size, None if nulls else ends))
