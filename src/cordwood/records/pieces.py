"""How the bytes of a frame are written to a disk: in how many pieces, and in which order."""

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

# The system call takes a part of a frame unchanged if the part has so many bytes, and rows if each has so many on
# average. Smaller ones are faster to copy together, and would need more buffers than one call takes.
_GATHERED_PART_BYTES = 64 * 1024
_GATHERED_ROW_BYTES = 768

# So many bytes of rows are joined at once for the checksum alone.
_CHECKED_BYTES = 64 * 1024

# So many bytes of the beginning of a frame wait for the checksum, which is in its header.
_HEAD_BYTES = 64 * 1024

# Memory in which frames are joined. It is reused, since each page of a fresh megabyte is a fault. There are as many as
# threads that write at once, and each is as large as its largest frame.
_scratches: list[BytesIO] = []
_SCRATCHES_MAX = 8

Piece: TypeAlias = "tuple[int, Sequence[Buffer], int]"
"""A piece of a frame: its position in the frame, its buffers in order, and their bytes together."""


class Part(NamedTuple):
    """One buffer of a frame; the writer pads it to 8 bytes."""

    data: Buffer | list[bytes] | Callable[[], Buffer]
    """The buffer; or its rows, in order; or a function that makes it, when it is first needed."""

    size: int
    """In bytes: a view of offsets has another len()."""

    ends: list[int] | None = None
    """Where the rows end, after a 0, if that is known."""


class Frame:
    """A frame that is about to be written: its length and timestamp, and its bytes, made while they are written."""

    __slots__ = ("_after", "_before", "_parts", "length", "timestamp_max")

    def __init__(self, length: int, timestamp_max: int, before: bytes, after: bytes, parts: list[Part]) -> None:
        """`before` and `after` are the header's bytes around the checksum, `parts` the buffers after the header."""
        self.length = length
        self.timestamp_max = timestamp_max
        self._before = before
        self._after = after
        self._parts = parts

    def pieces(self, *, streamed: bool = False) -> Iterator[Piece]:
        """The frame's bytes: in one piece; or, `streamed`, a large frame in several.

        Then the disk works on large parts, of which no byte was copied, while the others and the checksum are made. The
        header comes last: until it is written there is no frame. A piece is valid until the caller asks for the next
        one.
        """
        scratch = _scratches.pop() if _scratches else BytesIO()
        if not streamed or self.length < _STREAMED_FROM:
            yield from self._whole(scratch)
        elif any(map(_is_gathered, self._parts)):
            yield from self._gathered(scratch)
        else:
            yield from self._joined(scratch)
        # Not if the caller gave up: the garbage collector may have closed it by then.
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
        # The bytes between the written parts: made only now, while the disk works on those.
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
        """Write the whole frame, without its header, at its place."""
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
            # Its 40 µs for a MiB are not worth releasing the interpreter lock: getting it back may take longer.
            frame[:FRAME_HEADER_BYTES] = self._header(crc32c(body, self._header_crc(), 0))

    def _header_crc(self) -> int:
        """The beginning of the frame's checksum."""
        return crc32c(self._after, crc32c(self._before))

    def _header(self, crc: int) -> bytes:
        return b"".join((self._before, crc.to_bytes(4, "little"), self._after))


def _made(part: Part) -> memoryview:
    if isinstance(part.data, list):
        return memoryview(b"".join(part.data))
    return memoryview(part.data() if callable(part.data) else part.data).cast("B")


def _crc_of_gathered(part: Part, crc: int, scratch: BytesIO) -> int:
    """Continue the checksum over a part. Rows are joined for it, a few at a time, so that they stay in the cache."""
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
    """A part without copies, in pieces of about the same size."""
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
