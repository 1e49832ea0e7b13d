"""Writing a frame: the columns of some batches as buffers, with no Python for a record."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import chain, repeat
from operator import attrgetter, itemgetter, or_

from crc32c import crc32c

from cordwood.errors import InvalidInput, TooLarge
from cordwood.records.batch import Batch
from cordwood.records.column import BinaryColumn, Rows, column_buffers, present_rows, row_buffers
from cordwood.records.frame import AFTER_CRC, AFTER_CRC_AT, BEFORE_CRC, CODEC_NONE, MAGIC, VERSION, ZEROS, Buffer
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

# From this length on a frame is written in pieces of about that size.
_STREAMED_FROM = 768 * 1024
_PIECE_BYTES = 512 * 1024

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


class Frame:
    """A frame that is about to be written: what is known of it, and its bytes, made while they are written."""

    __slots__ = ("_after", "_before", "_parts", "length", "timestamp_max")

    def __init__(
        self,
        length: int,
        timestamp_max: int,
        before: bytes,
        after: bytes,
        parts: list[tuple[Buffer | list[bytes], int]],
    ) -> None:
        self.length = length
        self.timestamp_max = timestamp_max
        self._before = before
        self._after = after
        self._parts = parts

    def pieces(self, *, streamed: bool = False) -> Iterator[tuple[int, list[Buffer]]]:
        """Buffers, and where in the frame they go: one piece; or, `streamed`, several of a large frame.

        The disk can begin with the first one while the next is put together. The header comes last: until it stands
        there it is no frame.
        """
        chunks = self._chunks()
        first = next(chunks)
        # Its 40 µs for a MiB are not worth giving up the interpreter lock: getting it back may take longer.
        crc = crc32c(first, crc32c(self._before), 0)
        rest: list[Buffer] = []
        at = AFTER_CRC_AT + len(first)
        streamed = streamed and self.length >= _STREAMED_FROM
        for chunk in chunks:
            crc = crc32c(chunk, crc, 0)
            if streamed:
                yield at, [chunk]
                at += len(chunk)
            else:
                rest.append(chunk)
        head = b"".join((self._before, crc.to_bytes(4, "little"), first))
        yield 0, [head, *rest]

    def _chunks(self) -> Iterator[Buffer]:
        """The parts behind the CRC, padded: small neighbours are joined, big ones stay where they are."""
        small: list[Buffer] = [self._after]
        for part, size in self._parts:
            if size < _COPIED_BELOW:
                small.append(b"".join(part) if isinstance(part, list) else part)
            else:
                if small:
                    yield b"".join(small)
                if isinstance(part, list):
                    yield from _joined(part, size)
                else:
                    yield part.cast("B") if isinstance(part, memoryview) else part
                small = []
            if size & 7:
                small.append(ZEROS[-size & 7])
        if small:
            yield b"".join(small)


def _joined(rows: list[bytes], size: int) -> Iterator[bytes]:
    """The rows put together in pieces that stay in the cache from here to the file."""
    step = max(1, len(rows) * _PIECE_BYTES // size)
    for at in range(0, len(rows), step):
        yield b"".join(rows[at : at + step])


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
    """The bytes of one frame of all these batches, as buffers to write one after the other, and their length.

    >>> group = [Batch.of([b"a"]), Batch.of([b"b"])]
    >>> buffers, length = encode_frame(
    ...     group, plog=7, position=0, first_offset=0, epoch=1, synced_end=0, now_ms=9
    ... )
    >>> from cordwood.records import decode_frame
    >>> length, decode_frame(memoryview(b"".join(buffers))).values.tolist()
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
    pieces = sorted(frame.pieces(), key=itemgetter(0))
    return [buffer for _, buffers in pieces for buffer in buffers], frame.length


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

    Records without a timestamp of their own get `now_ms`. Its buffers may be views of the batches' own bytes.
    More than `FRAME_BYTES_MAX` is `TooLarge`: group batches by their weight.

    >>> frame = frame_of([Batch.of([b"a"])], plog=7, position=0, first_offset=0, epoch=1, synced_end=0, now_ms=9)
    >>> frame.length, [at for at, _ in frame.pieces()]
    (112, [0])
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
    parts: list[tuple[Buffer | list[bytes], int]] = []  # with their bytes: a view of offsets has another len()
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
    return Frame(length, highest, before, after, parts)


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


def _add_column(parts: list[tuple[Buffer | list[bytes], int]], rows: Rows | BinaryColumn, nulls: int) -> int:
    """Adds the parts of a column to those of a frame, and returns the bytes of its data."""
    data: Buffer | list[bytes]
    validity: Buffer | None
    if type(rows) is list:
        # Put together only when it is written.
        validity, offsets = row_buffers(rows, nulls != 0)
        data, size = present_rows(rows, nulls != 0), offsets[-1]
    else:
        validity, offsets, data = column_buffers(rows, nulls != 0)
        size = len(data)
    count = len(rows)
    if nulls:
        assert validity is not None  # the flag was set because a null was seen
        parts.append((validity, (count + 7) >> 3))
    parts.append((offsets, 4 * count + 4))
    parts.append((data, size))
    return size
