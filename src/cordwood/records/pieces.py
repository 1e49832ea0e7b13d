"""The bytes of a frame on their way to a disk: in how many pieces, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from typing import NamedTuple, TypeAlias

from crc32c import crc32c

from cordwood.records.frame import ZEROS, Buffer
from cordwood.records.layout import FRAME_HEADER_BYTES

# From this length on a frame is written in pieces of about that size.
_STREAMED_FROM = 768 * 1024
_PIECE_BYTES = 512 * 1024

# The system call takes a part of a frame as it is if it has so many bytes, and rows if each has so many on average:
# copying smaller ones together is quicker, and a piece of them would have more buffers than one call takes.
_GATHERED_PART_BYTES = 64 * 1024
_GATHERED_ROW_BYTES = 768

# So many bytes of rows are put together at once for the checksum alone.
_CHECKED_BYTES = 64 * 1024

# As much of the beginning of a frame waits for the checksum, which is in its header.
_HEAD_BYTES = 64 * 1024

# Where frames are put together: memory that is used again, since each page of a fresh megabyte is a fault. As many as
# threads that write at once, and each as large as the largest frame was.
_scratches: list[BytesIO] = []
_SCRATCHES_MAX = 8

Piece: TypeAlias = "tuple[int, Sequence[Buffer], int]"
"""A part of a frame: where in it, some buffers that stand there one after the other, and their bytes together."""


class Part(NamedTuple):
    """One buffer of a frame, padded to 8 bytes by whoever writes it."""

    data: Buffer | list[bytes] | Callable[[], Buffer]
    """The buffer; or rows that stand there one after the other; or what makes it, when it is first needed."""

    size: int
    """In bytes: a view of offsets has another len()."""

    ends: list[int] | None = None
    """Of rows, behind a 0, where they are known."""


class Frame:
    """A frame that is about to be written: what is known of it, and its bytes, made while they are written."""

    __slots__ = ("_after", "_before", "_parts", "length", "timestamp_max")

    def __init__(self, length: int, timestamp_max: int, before: bytes, after: bytes, parts: list[Part]) -> None:
        """`before` and `after` are the header's bytes on both sides of the checksum, `parts` what stands behind it."""
        self.length = length
        self.timestamp_max = timestamp_max
        self._before = before
        self._after = after
        self._parts = parts

    def pieces(self, *, streamed: bool = False) -> Iterator[Piece]:
        """Its bytes: in one piece; or, `streamed`, a large frame in several.

        Then the disk is at work on large parts, of which no byte was copied, while the others and the checksum are
        made. The header comes last: until it stands there it is no frame. A piece is gone when the next one is asked
        for.
        """
        scratch = _scratches.pop() if _scratches else BytesIO()
        if not streamed or self.length < _STREAMED_FROM:
            yield from self._whole(scratch)
        elif any(map(_is_gathered, self._parts)):
            yield from self._gathered(scratch)
        else:
            yield from self._joined(scratch)
        # Not where the caller gave up: the garbage collector may have closed it by then.
        if len(_scratches) < _SCRATCHES_MAX:
            _scratches.append(scratch)

    def _whole(self, scratch: BytesIO) -> Iterator[Piece]:
        self._put(scratch)
        with scratch.getbuffer() as memory, memory[: self.length] as frame:
            self._put_header(frame)
            yield 0, [frame], self.length

    def _joined(self, scratch: BytesIO) -> Iterator[Piece]:
        self._put(scratch)
        with scratch.getbuffer() as memory, memory[: self.length] as frame:
            for first in range(_HEAD_BYTES, self.length, _PIECE_BYTES):
                with frame[first : first + _PIECE_BYTES] as piece:
                    yield first, [piece], len(piece)
            self._put_header(frame)
            with frame[:_HEAD_BYTES] as piece:
                yield 0, [piece], len(piece)

    def _gathered(self, scratch: BytesIO) -> Iterator[Piece]:
        at = FRAME_HEADER_BYTES
        for part in self._parts:
            if _is_gathered(part):
                yield from _pieces_of(part, at)
            at += part.size + (-part.size & 7)
        # What lies between the parts that are gone: made only now, while the disk is at work on them.
        gaps: list[tuple[int, list[Buffer]]] = [(0, [])]
        at = FRAME_HEADER_BYTES
        crc = self._header_crc()
        for part in self._parts:
            if _is_gathered(part):
                crc = _crc_of_gathered(part, crc, scratch)
                gaps.append((at + part.size, []))
            else:
                data = _made(part)
                crc = crc32c(data, crc, 0)
                gaps[-1][1].append(data)
            padding = ZEROS[-part.size & 7]
            crc = crc32c(padding, crc)
            gaps[-1][1].append(padding)
            at += part.size + len(padding)
        gaps[0][1].insert(0, self._header(crc))
        for at, buffers in reversed(gaps):
            if size := sum(map(len, buffers)):
                yield at, buffers, size

    def _put(self, scratch: BytesIO) -> None:
        """All of the frame, but for its header, at its place."""
        scratch.seek(FRAME_HEADER_BYTES)
        for data, size, _ in self._parts:
            if isinstance(data, list):
                scratch.writelines(data)
            else:
                scratch.write(data() if callable(data) else data)
            if size & 7:
                scratch.write(ZEROS[-size & 7])

    def _put_header(self, frame: memoryview) -> None:
        with frame[FRAME_HEADER_BYTES:] as body:
            # Its 40 µs for a MiB are not worth giving up the interpreter lock: getting it back may take longer.
            frame[:FRAME_HEADER_BYTES] = self._header(crc32c(body, self._header_crc(), 0))

    def _header_crc(self) -> int:
        """What the checksum of the frame begins with."""
        return crc32c(self._after, crc32c(self._before))

    def _header(self, crc: int) -> bytes:
        return b"".join((self._before, crc.to_bytes(4, "little"), self._after))


def _made(part: Part) -> memoryview:
    if isinstance(part.data, list):
        return memoryview(b"".join(part.data))
    return memoryview(part.data() if callable(part.data) else part.data).cast("B")


def _crc_of_gathered(part: Part, crc: int, scratch: BytesIO) -> int:
    """The checksum goes on over a part. Rows are put together for it, a few at a time: what the cache holds."""
    data, size, _ = part
    if not isinstance(data, list):
        assert not callable(data)
        return crc32c(data, crc, 0)
    step = max(1, len(data) * _CHECKED_BYTES // size)
    for first in range(0, len(data), step):
        scratch.seek(0)
        scratch.writelines(data[first : first + step])
        with scratch.getbuffer() as memory, memory[: scratch.tell()] as joined:
            crc = crc32c(joined, crc, 0)
    return crc


def _is_gathered(part: Part) -> bool:
    if part.size < _GATHERED_PART_BYTES or callable(part.data):
        return False
    return not isinstance(part.data, list) or part.size >= _GATHERED_ROW_BYTES * len(part.data)


def _pieces_of(part: Part, at: int) -> Iterator[Piece]:
    """A part as it is, in pieces of about the same size."""
    data, size, ends = part
    pieces = max(1, round(size / _PIECE_BYTES))
    if isinstance(data, list):
        step = -(-len(data) // pieces)
        for first in range(0, len(data), step):
            rows = data[first : first + step]
            size = sum(map(len, rows)) if ends is None else ends[first + len(rows)] - ends[first]
            yield at, rows, size
            at += size
    else:
        assert not callable(data)
        view = memoryview(data).cast("B")
        step = -(-size // pieces)
        for first in range(0, size, step):
            piece = view[first : first + step]
            yield at + first, [piece], len(piece)
