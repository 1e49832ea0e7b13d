"""Writing a frame: the columns of some batches as buffers, with no Python for a record."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from functools import reduce
from io import BytesIO
from itertools import chain, repeat
from operator import attrgetter, or_

from crc32c import crc32c

from cordwood.errors import InvalidInput, TooLarge
from cordwood.records.batch import Batch
from cordwood.records.column import BinaryColumn, Rows, column_buffers, present_rows, row_buffers
from cordwood.records.frame import (
    AFTER_CRC,
    AFTER_CRC_AT,
    BEFORE_CRC,
    CODEC_NONE,
    MAGIC,
    VERSION,
    ZEROS,
    Buffer,
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
    FRAME_HEADER_BYTES,
    frame_size,
)

# From this length on a frame is written in pieces of about that size.
_STREAMED_FROM = 768 * 1024
_PIECE_BYTES = 512 * 1024

# Where frames are put together: memory that is used again, since each page of a fresh megabyte is a fault. As many as
# threads that write at once, and each as large as the largest frame was.
_scratches: list[BytesIO] = []
_SCRATCHES_MAX = 8

_NO_CRC = bytes(4)
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

    def pieces(self, *, streamed: bool = False) -> Iterator[tuple[int, Buffer]]:
        """Bytes, and where in the frame they go: one piece; or, `streamed`, several of a large frame.

        The disk can begin with the first one while the next is put together. The header comes last: until it stands
        there it is no frame. A piece is gone when the next one is asked for.
        """
        scratch = _scratches.pop() if _scratches else BytesIO()
        if streamed and self.length >= _STREAMED_FROM:
            yield from self._streamed(scratch)
        else:
            yield from self._whole(scratch)
        # Not where the caller gave up: the garbage collector may have closed it by then.
        if len(_scratches) < _SCRATCHES_MAX:
            _scratches.append(scratch)

    def _whole(self, scratch: BytesIO) -> Iterator[tuple[int, Buffer]]:
        scratch.seek(0)
        scratch.writelines((self._before, _NO_CRC, self._after))
        for buffers in self._slices():
            scratch.writelines(buffers)
        with scratch.getbuffer() as memory, memory[: self.length] as frame:
            with frame[AFTER_CRC_AT:] as checked:
                # Its 40 µs for a MiB are not worth giving up the interpreter lock: getting it back may take longer.
                crc = crc32c(checked, crc32c(self._before), 0)
            frame[BEFORE_CRC.size : AFTER_CRC_AT] = crc.to_bytes(4, "little")
            yield 0, frame

    def _streamed(self, scratch: BytesIO) -> Iterator[tuple[int, Buffer]]:
        crc = crc32c(self._after, crc32c(self._before))
        at = FRAME_HEADER_BYTES
        slices = self._slices()
        while at < self.length:
            scratch.seek(0)
            for buffers in slices:
                scratch.writelines(buffers)
                if scratch.tell() >= _PIECE_BYTES:
                    break
            with scratch.getbuffer() as memory, memory[: scratch.tell()] as piece:
                crc = crc32c(piece, crc, 0)
                yield at, piece
                at += len(piece)
        yield 0, b"".join((self._before, crc.to_bytes(4, "little"), self._after))

    def _slices(self) -> Iterator[Sequence[Buffer]]:
        """What stands behind the header, padded, in slices of about a piece at most."""
        for part, size in self._parts:
            if isinstance(part, list):
                step = max(1, len(part) * _PIECE_BYTES // max(1, size))
                for first in range(0, len(part), step):
                    yield part[first : first + step]
            else:
                data = memoryview(part).cast("B")
                for first in range(0, size, _PIECE_BYTES):
                    yield (data[first : first + _PIECE_BYTES],)
            if size & 7:
                yield (ZEROS[-size & 7],)


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
    return b"".join(bytes(piece) for _, piece in frame.pieces())


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

    Records without a timestamp of their own get `now_ms`. More than `FRAME_BYTES_MAX` is `TooLarge`: group batches
    by their weight.

    >>> frame = frame_of([Batch.of([b"a"])], plog=7, position=0, first_offset=0, epoch=1, synced_end=0, now_ms=9)
    >>> frame.length, [at for at, _ in frame.pieces()]
    (112, [0])
    """
    if len(batches) == 1:
        batch = batches[0]
        flags, values, keys, headers = batch._flags, batch._values, batch._keys, batch._headers
        lengths = batch._lengths
    else:
        flags = reduce(or_, map(_flags_of, batches), 0)
        values = list(chain.from_iterable(map(_values_of, batches)))
        keys = headers = lengths = None
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
    value_bytes = _add_column(parts, values, flags & FLAG_VALUE_NULLS, lengths)
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


def _add_column(
    parts: list[tuple[Buffer | list[bytes], int]],
    rows: Rows | BinaryColumn,
    nulls: int,
    lengths: list[int] | None = None,
) -> int:
    """Adds the parts of a column to those of a frame, and returns the bytes of its data."""
    data: Buffer | list[bytes]
    validity: Buffer | None
    if type(rows) is list:
        # Put together only when it is written.
        validity, offsets = row_buffers(rows, nulls != 0, lengths)
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
