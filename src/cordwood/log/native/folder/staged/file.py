"""Frames in a file under `staged/`: any process that has records writes them, without the folder's lock."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from cordwood.errors import Corrupt, TooLarge, Unavailable, reason_of
from cordwood.log.native.env.clock import Clock
from cordwood.log.native.env.disk import Disk, File, make_durable_folder
from cordwood.log.native.folder.published import Owner
from cordwood.records import (
    FRAME_BYTES_MAX,
    Batch,
    FrameCut,
    FrameHeader,
    StoredBatch,
    decode_frame,
    decode_header,
    frame_bytes,
    frame_of,
)

from .leftovers import FOLDER, StagedName, remove_staged

_READ_BYTES = 2 * FRAME_BYTES_MAX


class StagedFile(NamedTuple):
    """A complete staged file. Every frame in it has the file's id, so that a reader detects a frame of another file."""

    name: str
    id: int
    size: int


class StagedWriter:
    """Stages the records of one task, in order; the first record creates the file.

    A file is read only after a commit names it, so an unfinished one does no harm.
    """

    def __init__(self, disk: Disk, clock: Clock, name: StagedName) -> None:
        self._disk = disk
        self._clock = clock
        self._name = name.file_name
        self._path = f"{FOLDER}/{name.file_name}"
        self._id = secrets.randbits(64) or 1
        self._file: File | None = None
        self._size = 0
        self._counts: dict[Owner, int] = {}

    def add(self, owner: Owner, log: str, batch: Batch) -> None:
        """Write records of one log, in as many frames as they need; `log` is its name, for errors.

        `TooLarge` if one record alone is over the limit of a frame.
        """
        for part in _fitting(batch, log):
            with self._translate_errors():
                self._put(owner, part)

    def finish(self) -> StagedFile | None:
        """Make the file and its name durable; None if there was no record."""
        if self._file is None:
            return None
        with self._translate_errors():
            self._file.sync()
            self._file.close()
            # R2: a decided commit relies on the name.
            self._disk.sync_folder(FOLDER)
        return StagedFile(self._name, self._id, self._size)

    def discard(self) -> None:
        """Remove the file, as far as that is possible now."""
        if self._file is not None:
            self._file.close()
            remove_staged(self._disk, [self._name])

    def _put(self, owner: Owner, batch: Batch) -> None:
        if self._file is None:
            make_durable_folder(self._disk, FOLDER)
            self._file = self._disk.create(self._path)
        before = self._counts.get(owner, 0)
        frame = frame_of(
            [batch],
            plog=self._id,
            position=self._size,
            first_offset=before,
            epoch=owner.partition,
            synced_end=owner.topic_id,
            now_ms=self._clock.time_ms(),
        )
        for at, buffers, size in frame.pieces():
            self._file.write(buffers, self._size + at, size)
        self._file.begin_sync(self._size, frame.length)
        self._size += frame.length
        self._counts[owner] = before + len(batch)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Unavailable(
                f"{self._path}: records cannot be staged: {error.strerror or error}; nothing was appended:"
                " make room if the disk is full, and write again",
                outcome="not_written",
                reason=reason_of(error),
            ) from error


def staged_frames(disk: Disk, staged: StagedFile) -> Iterator[tuple[Owner, StoredBatch]]:
    """The batches of a staged file with the log that each is for, checked; `Corrupt` names file and byte.

    The offsets of a batch are counted from the first record that the file has for its log.
    """
    try:
        file = disk.open(f"{FOLDER}/{staged.name}")
    except FileNotFoundError as error:
        raise Corrupt(f"{FOLDER}/{staged.name} is missing: put it back from a copy") from error
    counts: dict[Owner, int] = {}
    position = 0
    try:
        while position < staged.size:
            data = file.read(min(_READ_BYTES, staged.size - position), position)
            at = 0
            while at < len(data):
                try:
                    header = _header(data, at, staged, position + at)
                    owner = Owner(header.synced_end, header.epoch)
                    if header.first_offset != counts.get(owner, 0):
                        raise Corrupt(f"it begins at record {header.first_offset}, not {counts.get(owner, 0)}")
                    batch = decode_frame(data, at, header)
                except FrameCut:
                    break
                except Corrupt as error:
                    raise Corrupt(
                        f"{FOLDER}/{staged.name} is damaged at byte {position + at}: {error}; put it back from a copy"
                    ) from error
                counts[owner] = header.next_offset
                at += header.length
                yield owner, batch
            if not at:
                raise Corrupt(
                    f"{FOLDER}/{staged.name} is cut at byte {position + len(data)} of {staged.size}:"
                    " put it back from a copy"
                )
            position += at
    finally:
        file.close()


def _header(data: memoryview, at: int, staged: StagedFile, position: int) -> FrameHeader:
    header = decode_header(data, at)
    if header.plog != staged.id or header.position != position:
        raise Corrupt(f"the frame is of file {header.plog:016x}, position {header.position}, not of {staged.id:016x}")
    return header


def _fitting(batch: Batch, log: str) -> Iterator[Batch]:
    """The batch in parts of one frame each: halves of halves, so there is no work per record."""
    size = frame_bytes(batch)
    if size <= FRAME_BYTES_MAX:
        yield batch
        return
    if len(batch) == 1:
        raise TooLarge(
            f"{log}: a record is {size} bytes framed, the limit is {FRAME_BYTES_MAX}; nothing was appended",
            outcome="not_written",
        )
    middle = len(batch) // 2
    yield from _fitting(batch[:middle], log)
    yield from _fitting(batch[middle:], log)
