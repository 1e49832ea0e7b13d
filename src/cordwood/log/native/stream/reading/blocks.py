"""Frames out of plogs, in large steps: one read of the disk for many frames, columns that are views of that read."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from cordwood.errors import Corrupt
from cordwood.log.native.env.disk import File
from cordwood.log.native.plog import PlogId, PlogStore
from cordwood.records import (
    FRAME_ALIGNMENT,
    FRAME_HEADER_BYTES,
    LARGE_FRAME_BYTES,
    FrameCut,
    FrameHeader,
    StoredBatch,
    decode_frame,
    decode_header,
)
from cordwood.records.frame import MAGIC

READ_BYTES = 4 * 1024 * 1024
"""The size of one read of the disk, at most, unless one frame is longer.

Neighbouring frames mostly have the same length. So a read ends after a whole frame and includes the header of the next,
which has that frame's length. A frame that is cut at the end is read again.
"""

_FIND_BYTES = 256 * 1024
_ONE_BYTES = 4 * 1024
"""Of a single frame so much is read first: small frames need one read."""


class Frames(NamedTuple):
    """Whole frames as they were read; only their headers are checked yet."""

    plog: PlogId
    position: int
    data: memoryview
    places: list[tuple[int, FrameHeader]]
    """Where in the data each frame begins, and its header."""

    @property
    def first_offset(self) -> int:
        return self.places[0][1].first_offset

    @property
    def next_offset(self) -> int:
        return self.places[-1][1].next_offset

    @property
    def large(self) -> bool:
        """Whether checking them takes long enough that another thread should read ahead meanwhile."""
        return len(self.data) >= LARGE_FRAME_BYTES * len(self.places)

    def below(self, stop: int) -> "Frames":
        """The frames that begin below this offset. A caller that asks for no others must not fail on their damage."""
        places = [place for place in self.places if place[1].first_offset < stop]
        at, last = places[-1]
        return Frames(self.plog, self.position, self.data[: at + last.length], places)

    def decode(self) -> tuple[list[StoredBatch], Corrupt | None]:
        """Their batches, CRCs checked, up to the first damaged frame; and the damage of that one.

        Takes no lock and does no I/O: it may run on another thread than the next read.
        """
        batches = []
        for at, header in self.places:
            try:
                batches.append(decode_frame(self.data, at, header))
            except Corrupt as error:
                damage = _damaged(self.plog, self.position + at, str(error))
                damage.__cause__ = error
                return batches, damage
        return batches, None


class PlogCursor:
    """Reads the frames of one plog in order. `position` is that of the next frame."""

    def __init__(self, file: File, id: PlogId, position: int = 0) -> None:
        self.id = id
        self.position = position
        self._file = file
        self._next_length: int | None = None

    def read(self, end: int, read_bytes: int = READ_BYTES) -> Frames:
        """The next frames up to byte `end`, which is a frame boundary: one read of the disk, of about `read_bytes`.

        They end before a damaged header; the next read begins there and raises.
        """
        start = self.position
        length = self._next_length or read_bytes
        size = max(1, read_bytes // length) * length + FRAME_HEADER_BYTES
        data = self._file.read(min(size, end - start), start)
        places: list[tuple[int, FrameHeader]] = []
        at = 0
        while at < len(data):
            try:
                header = self._header(data, at)
            except FrameCut:
                break
            except Corrupt as error:
                if places:
                    break
                raise self._damaged(start + at, str(error)) from error
            self._next_length = header.length
            if at + header.length > len(data):
                break
            places.append((at, header))
            at += header.length
        if places:
            self.position = start + at
            return Frames(self.id, start, data, places)
        if len(data) < min(size, end - start):
            raise self._damaged(start + len(data), "the file ends there")
        if len(data) >= min(self._next_length or len(data), end - start):
            raise self._damaged(start, "no whole frame is there")
        # The frame is longer than assumed: now its length is known.
        return self.read(end, read_bytes)

    def read_one(self, end: int) -> StoredBatch:
        """The next frame alone: its header, which has its length, and then the frame."""
        start = self.position
        data = self._file.read(min(_ONE_BYTES, end - start), start)
        try:
            header = self._header(data, 0)
            if header.length > len(data):
                data = self._file.read(min(header.length, end - start), start)
            batch = decode_frame(data, 0, header)
        except Corrupt as error:
            raise self._damaged(start, str(error)) from error
        self.position = start + header.length
        return batch

    def skip_to(self, offset: int, first_offset: int, end: int) -> None:
        """Move to the frame that holds `offset`; `first_offset` is that of the frame here."""
        if self.skip(first_offset, end, lambda header: header.next_offset > offset, wanted_from=offset) is None:
            raise self._damaged(self.position, f"offset {offset} should come before")

    def skip(
        self, first_offset: int, end: int, found: Callable[[FrameHeader], bool], *, wanted_from: int
    ) -> int | None:
        """Move to the first frame that is `found`, by frame headers alone; returns its first offset, None at `end`.

        `first_offset` is that of the frame here. Each frame must continue the previous one's offsets, so that none is
        missed. A damaged header is skipped only if the next whole one shows that all offsets between are below
        `wanted_from`.
        """
        while self.position < end:
            start = self.position
            data = self._file.read(min(_FIND_BYTES, end - start), start)
            at = 0
            while at + FRAME_HEADER_BYTES <= len(data):
                try:
                    header = self._header(data, at)
                except Corrupt as error:
                    behind = self._header_behind(start + at, end)
                    if behind is None or not first_offset < behind.first_offset <= wanted_from:
                        raise self._damaged(start + at, str(error)) from error
                    first_offset, at = behind.first_offset, behind.position - start
                    continue
                if header.first_offset != first_offset:
                    raise self._damaged(start + at, f"it begins at offset {header.first_offset}, not {first_offset}")
                if found(header):
                    self.position = start + at
                    return first_offset
                first_offset = header.next_offset
                at += header.length
            if at == 0:
                raise self._damaged(start, "no frame header is there")
            self.position = start + at
        return None

    def close(self) -> None:
        self._file.close()

    def _header_behind(self, position: int, end: int) -> FrameHeader | None:
        """The next whole header of this plog after a damaged place.

        A frame that a user stored as a value cannot match. A plog is written once, from front to back, so a copy of one
        of its frames is always after the position that the frame names.
        """
        start = position + FRAME_ALIGNMENT
        while start + FRAME_HEADER_BYTES <= end:
            data = bytes(self._file.read(min(_FIND_BYTES, end - start), start))
            at = data.find(MAGIC)
            while at >= 0:
                with suppress(Corrupt):
                    header = decode_header(data, at)
                    if header.plog == self.id.random and header.position == start + at:
                        return header
                at = data.find(MAGIC, at + 1)
            if len(data) < FRAME_HEADER_BYTES:
                return None
            # A header that is cut at the end is read again.
            start += len(data) - FRAME_HEADER_BYTES + 1
        return None

    def _header(self, data: memoryview, at: int) -> FrameHeader:
        header = decode_header(data, at)
        place = self.position + at
        if header.plog != self.id.random or header.position != place:
            raise Corrupt(f"the frame there is of plog {header.plog:016x}, position {header.position}")
        return header

    def _damaged(self, position: int, reason: str) -> Corrupt:
        return _damaged(self.id, position, reason)


def open_cursor(plogs: PlogStore, id: PlogId, position: int = 0) -> PlogCursor:
    return PlogCursor(plogs.open_file(id), id, position)


def stored_batches(plogs: PlogStore, id: PlogId, start: int, end: int) -> Iterator[StoredBatch]:
    """All frames between two positions of a plog; `Corrupt` at the first damaged one."""
    cursor = open_cursor(plogs, id, start)
    try:
        while cursor.position < end:
            batches, damage = cursor.read(end).decode()
            yield from batches
            if damage is not None:
                raise damage
    finally:
        cursor.close()


def _damaged(id: PlogId, position: int, reason: str) -> Corrupt:
    return Corrupt(
        f"plog {id} is damaged at byte {position}: {reason}; restore the folder from a copy, or, in a log, trim past it"
    )
