"""Frames out of plogs, in large steps: one read of the disk for many frames, columns that are views of that read."""

from collections.abc import Callable, Iterator

from cordwood.errors import Corrupt
from cordwood.records import (
    FRAME_BYTES_MAX,
    FRAME_HEADER_BYTES,
    FrameCut,
    FrameHeader,
    StoredBatch,
    decode_frame,
    decode_header,
)

from ..plog import PlogId, PlogStore
from ..world.disk import File

READ_BYTES = 2 * FRAME_BYTES_MAX
"""Twice the largest frame: a step always holds at least one whole frame."""

_FIND_BYTES = 256 * 1024


class PlogCursor:
    """Reads the frames of one plog in order. `position` is that of the next frame."""

    def __init__(self, file: File, id: PlogId, position: int = 0) -> None:
        self.id = id
        self.position = position
        self._file = file

    def read(self, end: int, size: int = READ_BYTES) -> list[StoredBatch]:
        """The next frames up to byte `end`, which is a frame boundary; CRCs checked."""
        start = self.position
        data = self._file.read(min(max(size, READ_BYTES), end - start), start)
        if len(data) < min(READ_BYTES, end - start):
            raise self._damaged(start + len(data), "the file ends there")
        batches = []
        at = 0
        while at < len(data):
            try:
                header = self._header(data, at)
                batches.append(decode_frame(data, at, header))
            except FrameCut:
                break
            except Corrupt as error:
                raise self._damaged(start + at, str(error)) from error
            at += header.length
        if not batches:
            raise self._damaged(start, "no whole frame stands there")
        self.position = start + at
        return batches

    def read_one(self, end: int) -> StoredBatch:
        """The next frame alone."""
        start = self.position
        data = self._file.read(min(FRAME_BYTES_MAX, end - start), start)
        header = self._header(data, 0)
        self.position = start + header.length
        return decode_frame(data, 0, header)

    def skip_to(self, offset: int, end: int) -> None:
        """Move to the frame that holds `offset`."""
        self.skip(end, lambda header: header.next_offset > offset)

    def skip(self, end: int, found: Callable[[FrameHeader], bool]) -> None:
        """Move to the first frame that is `found`, or to `end`, by frame headers alone."""
        while self.position < end:
            start = self.position
            data = self._file.read(min(_FIND_BYTES, end - start), start)
            at = 0
            while at + FRAME_HEADER_BYTES <= len(data):
                header = self._header(data, at)
                if found(header):
                    self.position = start + at
                    return
                at += header.length
            if at == 0:
                raise self._damaged(start, "no frame header stands there")
            self.position = start + at

    def close(self) -> None:
        self._file.close()

    def _header(self, data: memoryview, at: int) -> FrameHeader:
        header = decode_header(data, at)
        place = self.position + at
        if header.plog != self.id.random or header.position != place:
            raise Corrupt(f"the frame there is of plog {header.plog:016x}, position {header.position}")
        return header

    def _damaged(self, position: int, reason: str) -> Corrupt:
        return Corrupt(f"plog {self.id} is damaged at byte {position}: {reason}")


def open_cursor(plogs: PlogStore, id: PlogId, position: int = 0) -> PlogCursor:
    return PlogCursor(plogs.open_file(id), id, position)


def stored_batches(plogs: PlogStore, id: PlogId, start: int, end: int) -> Iterator[StoredBatch]:
    """All frames between two positions of a plog."""
    cursor = open_cursor(plogs, id, start)
    try:
        while cursor.position < end:
            yield from cursor.read(end)
    finally:
        cursor.close()
