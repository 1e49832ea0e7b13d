"""Reading a log across its plogs."""

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from functools import partial
from itertools import groupby
from typing import NamedTuple, Protocol, TypeVar

from cordwood.errors import Corrupt, NotFound, Trimmed
from cordwood.log.native.chain.chain import Chain, Link
from cordwood.log.native.chain.durable import Durable
from cordwood.log.native.plog import PlogId, PlogStore
from cordwood.records import StoredBatch, StoredRecord, record_bytes

from .blocks import READ_BYTES, Frames, PlogCursor, open_cursor

T = TypeVar("T")

_REMEDY = "; restore it from a copy, or trim past it"


class Extent(NamedTuple):
    """The readable part of a log at one moment: from `start` on, up to `durable`, in the plogs of `chain`."""

    start: int
    durable: Durable
    chain: Chain

    def end_of(self, link: Link) -> int:
        """Up to which byte this plog may be read."""
        if link.id == self.durable.plog:
            return self.durable.end
        return link.end or 0


class Source(Protocol):
    """A log to read from: in the writing process, or alongside it."""

    name: str
    plogs: PlogStore
    topic_id: int

    def extent(self, beyond: int | None = None) -> Extent:
        """The part that may be read now. If that costs I/O, an older extent will do if it ends after `beyond`."""


class Step(NamedTuple):
    """The result of one read of the disk: the offsets from `start` to below `stop`, not yet checked or decoded."""

    frames: Frames
    start: int
    stop: int
    begin_next: Callable[[], None] | None
    """In the first step of a plog: asks the disk for the next plog, so that it is in memory when this one ends."""

    def decode(self) -> tuple[list[StoredBatch], Corrupt | None]:
        """Its batches, CRCs checked, up to the first damaged one; and the damage of that one.

        May run on any thread, concurrently with the next read.
        """
        if self.begin_next is not None:
            # Here, since no read waits for this call, while the next read waits for the one that made this step.
            self.begin_next()
        batches, damage = self.frames.decode()
        if not batches:
            return batches, damage
        first = batches[0].offsets[0]
        if first < self.start:
            batches[0] = batches[0][self.start - first :]
        if batches[-1].offsets[-1] >= self.stop:
            batches[-1] = batches[-1][: self.stop - batches[-1].offsets[0]]
        return batches, damage


def trimmed(name: str, offset: int, start: int) -> Trimmed:
    return Trimmed(f"{name}: offset {offset} is no longer kept; the first kept one is {start}", start=start)


class LogCursor:
    """Reads forward from `offset`. Holds one file open while there is something to read."""

    def __init__(self, source: Source, offset: int) -> None:
        self.offset = offset
        self._source = source
        self._plog: PlogCursor | None = None
        self._link: Link | None = None
        self._rested_at: tuple[PlogId, int] | None = None
        self._begin_next: Callable[[], None] | None = None

    def read(self, stop: int | None) -> list[StoredBatch]:
        """The next batches below `stop`, CRCs checked; none at the durable end.

        `Trimmed` if the next offset is no longer kept; `Corrupt` if it is damaged, once all before it is read.
        """
        step = self.fetch(stop)
        if step is None:
            return []
        batches, damage = step.decode()
        if damage is not None:
            # A retry begins at the damaged frame.
            self.close()
            self.offset = batches[-1].offsets[-1] + 1 if batches else step.start
            if not batches:
                raise damage
        return batches

    def fetch(self, stop: int | None, read_bytes: int = READ_BYTES) -> Step | None:
        """As `read`, but leaves checking and decoding to the caller; None at the end. Reads about `read_bytes`."""
        view = self._source.extent(self.offset)
        self._check_kept(view)
        limit = view.durable.next_offset if stop is None else min(stop, view.durable.next_offset)
        if self.offset >= limit:
            if self._plog is not None:
                self._rested_at = self._plog.id, self._plog.position
            self.close()
            return None
        try:
            plog, end = self._at_offset(view)
            frames = plog.read(end, read_bytes)
        except NotFound as error:
            self._check_kept(self._source.extent())
            raise Corrupt(f"{self._source.name}: offset {self.offset} should be kept, but {error}{_REMEDY}") from error
        except (Corrupt, OSError):
            # The cursor may be past the offset: a retry begins at the frame of the offset.
            self.close()
            raise
        if not frames.first_offset <= self.offset < frames.next_offset:
            self.close()
            raise Corrupt(
                f"plog {frames.plog} is damaged at byte {frames.position}: offsets {frames.first_offset} to"
                f" {frames.next_offset - 1} are there, not {self.offset}{_REMEDY}"
            )
        return self._step(frames, limit)

    def close(self) -> None:
        if self._plog is not None:
            self._plog.close()
            self._plog = self._link = None

    def _step(self, frames: Frames, limit: int) -> Step:
        if frames.next_offset > limit:
            # The cursor is past the requested offsets.
            self.close()
            frames = frames.below(limit)
        step = Step(frames, self.offset, min(frames.next_offset, limit), self._begin_next)
        self.offset = step.stop
        self._begin_next = None
        return step

    def _check_kept(self, view: Extent) -> None:
        if self.offset < view.start:
            self.close()
            raise trimmed(self._source.name, self.offset, view.start)

    def _at_offset(self, view: Extent) -> tuple[PlogCursor, int]:
        """The open plog that holds the next offset, at its frame, and the byte up to which it may be read."""
        place = view.chain.index_of(self.offset)
        link = view.chain.links[place]
        end = view.end_of(link)
        if self._plog is None or self._link is None or self._link.id != link.id:
            self.close()
            # A follower continues where the log ended: a walk to that place after each growth would take longer each
            # time.
            rested_at, self._rested_at = self._rested_at, None
            position = rested_at[1] if rested_at is not None and rested_at[0] == link.id else 0
            self._plog, self._link = open_cursor(self._source.plogs, link.id, position), link
            if self.offset > link.first_offset and not position:
                self._plog.skip_to(self.offset, link.first_offset, end)
            # The disk reads the next plog while this one is processed.
            following = view.chain.links[place + 1 : place + 2]
            self._begin_next = partial(self._source.plogs.begin_read, following[0].id) if following else None
        return self._plog, end


def offset_at(source: Source, timestamp: int) -> int:
    """The first offset whose record has at least this timestamp, found by the timestamps of links and frame headers."""
    return _in_extent(source, lambda view: _offset_at(source, view, timestamp))


def read_known(source: Source, offsets: Sequence[int], bytes_max: int | None = None) -> list[StoredRecord]:
    """The records at these increasing offsets, without those beyond the end; `Trimmed` if one is no longer kept.

    Frame headers lead to the frames that hold them, and only these frames are read. The record that reaches `bytes_max`
    is the last one.
    """
    return _in_extent(source, lambda view: _read_known(source, view, offsets, bytes_max)) if offsets else []


def _in_extent(source: Source, look: Callable[[Extent], T]) -> T:
    """The result of a look at the present extent; once more if a trim deletes plogs meanwhile."""
    view = source.extent()
    while True:
        try:
            return look(view)
        except NotFound as error:
            # Trimmed meanwhile: then the log begins later now.
            start, view = view.start, source.extent()
            if view.start <= start:
                raise Corrupt(
                    f"{source.name}: all from offset {start} on should be kept, but {error}{_REMEDY}"
                ) from error


def _read_known(source: Source, view: Extent, offsets: Sequence[int], bytes_max: int | None) -> list[StoredRecord]:
    if offsets[0] < view.start:
        raise trimmed(source.name, offsets[0], view.start)
    there = offsets[: bisect_left(offsets, view.durable.next_offset)]
    records: list[StoredRecord] = []
    size = 0
    for place, wanted in groupby(there, view.chain.index_of):
        with closing(_records_in(source, view, view.chain.links[place], wanted)) as found:
            for record in found:
                records.append(record)
                size += record_bytes(record)
                if bytes_max is not None and size >= bytes_max:
                    return records
    return records


def _records_in(
    source: Source, view: Extent, link: Link, offsets: Iterable[int]
) -> Generator[StoredRecord, None, None]:
    """The records of one plog, walking forward from frame to frame."""
    end = view.end_of(link)
    cursor = open_cursor(source.plogs, link.id)
    try:
        batch: StoredBatch | None = None
        next_offset = link.first_offset
        for offset in offsets:
            if batch is None or offset >= next_offset:
                if offset > next_offset or batch is None:
                    cursor.skip_to(offset, next_offset, end)
                batch = cursor.read_one(end)
                next_offset = batch.offsets[-1] + 1
            yield batch[offset - batch.offsets[0]]
    finally:
        cursor.close()


def _offset_at(source: Source, view: Extent, timestamp: int) -> int:
    if view.start >= view.durable.next_offset:
        # The whole log is trimmed, the open plog too.
        return view.durable.next_offset
    for link in view.chain:
        if link.end is not None and link.next_offset <= view.start:
            # Trimmed: its file may be deleted already.
            continue
        newest = view.durable.max_timestamp if link.id == view.durable.plog else link.max_timestamp
        if newest < timestamp:
            continue
        found = _offset_in(source, view, link, timestamp)
        if found is not None:
            return found
        if link.id == view.durable.plog:
            break
    return view.durable.next_offset


def _offset_in(source: Source, view: Extent, link: Link, timestamp: int) -> int | None:
    """The first such offset in one plog: frame headers lead to the frame, and only that one is read."""
    end = view.end_of(link)
    cursor = open_cursor(source.plogs, link.id)
    try:
        first_offset: int | None = link.first_offset
        while first_offset is not None:
            first_offset = cursor.skip(
                first_offset,
                end,
                lambda header: header.timestamp_max >= timestamp and header.next_offset > view.start,
                wanted_from=view.start,
            )
            if first_offset is None:
                return None
            batch = cursor.read_one(end)
            for offset, stamp in zip(batch.offsets, batch.timestamps, strict=True):
                if stamp >= timestamp and offset >= view.start:
                    return offset
            # Its newest record is a trimmed one.
            first_offset = batch.offsets[-1] + 1
        return None
    finally:
        cursor.close()
