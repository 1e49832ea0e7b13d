"""A region's data log: reading it as records that count, and taking it over."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import repeat

from cordwood.errors import Conflict, CordwoodError, Corrupt, Fenced, Trimmed, Unavailable
from cordwood.log import Log, TopicInfo
from cordwood.records import Batch, BinaryColumn, StoredBatch
from cordwood.wal.formats.applied_log import AppliedLog, size_of
from cordwood.wal.formats.cordwood.data_record import decode_record, decode_writes, encode_owner
from cordwood.wal.formats.decoder import OnBad
from cordwood.wal.formats.up_to_end import read_up_to_end
from cordwood.wal.record import NOBODY, DataRecord, OwnerRecord, WriteRecord, Writes

_LOGGER = logging.getLogger("cordwood.wal")


def check_topic(info: TopicInfo, partitions: int) -> None:
    """R19: refuses a topic that drops what counts, and warns of one that may."""
    if info.partitions < partitions:
        raise Conflict(
            f"topic {info.name!r} has {info.partitions} partition, and a region in one topic needs {partitions}:"
            " one for its data, one for its meta log: use another name"
        )
    if info.compacted:
        raise Conflict(
            f"topic {info.name!r} is compacted, so it keeps the last record of a key and drops others, which a region"
            " needs: set its cleanup.policy to delete, or use another name"
        )
    if info.retention is not None or info.retention_bytes is not None:
        _LOGGER.warning(
            "topic %s has a retention, which may drop live entries: make it unlimited, a region trims its topics",
            info.name,
        )


class DataLog(AppliedLog):
    """One data log, its owner, and the state that follows from it."""

    def __init__(self, log: Log, region: int, who: str, permissive: bool = False) -> None:
        super().__init__(log, region, permissive)
        self.last: tuple[int, ...] = ()
        """The `identity` of the last record that was applied."""
        self.session = secrets.randbits(63) | 1
        self.who = who

        self._decoder = CordwoodDecoder(region, log.name, log.verifies_reads)

    @property
    def decoder(self) -> "CordwoodDecoder":
        return self._decoder

    async def catch_up(self, stop: int | None = None, seen: Callable[[int, WriteRecord], None] | None = None) -> None:
        """Apply the rest of the log, up to `stop` or to its present end; `seen` gets each write that counts."""
        state = self.state
        async with read_up_to_end(self.log, state.next_offset, stop) as reader:
            async for batch in reader:
                last = None
                for offset, record in self.records(batch):
                    if state.apply(offset, record) and seen is not None and isinstance(record, WriteRecord):
                        seen(offset, record)
                    last = record
                if last is not None:  # else no record of the batch could be decoded
                    self.last = identity(last)
                self.note_growth(len(batch), size_of(batch))
                await asyncio.sleep(0)  # batches that are ready come without a turn of the loop
        if stop is not None and state.next_offset < stop:
            # On Kafka: a new leader does not know the end yet, or somebody has a transaction open in this topic.
            raise Unavailable(
                f"{self.log.name} can be read up to {state.next_offset}, though {stop - 1} was appended: try again",
                reason="failed",
            )

    async def take(self) -> None:
        """Become the owner of a log that was just applied: later writes of an earlier owner do not count."""
        running_count = self.state.fence.running_count
        await self._claim(NOBODY, running_count)
        if self.state.fence.running_count != running_count:
            # R15: an owner record carries the exact count, as it may be all that a trim leaves. An earlier owner has
            # written between the look and the record: only from here on nobody can.
            await self._claim(self.owner, self.state.fence.running_count)

    async def renew(self, running_count: int, seen: Callable[[int, WriteRecord], None] | None = None) -> None:
        """Continue under a new id: a write under the old id that is not found before it never counts (R11)."""
        await self._claim(self.owner, running_count, seen)

    def check_owner(self) -> None:
        """`Fenced` if the applied part of the log says that somebody else has taken the region; or why it is broken."""
        if self.broken is not None:
            own = copy(self.broken)
            own.outcome = "not_written"  # of whatever was to be appended now
            raise own
        fence = self.state.fence
        if fence.session == self.session:
            self.owner = fence.owner  # also by a renewal whose append had no answer
        elif fence.owner != self.owner:
            raise Fenced(
                f"region {self.region} in {self.log.name} was opened by {fence.who} at offset {fence.owner}, "
                f"after this owner's {self.owner}: open it again to take it back"
            )

    async def knows_its_end(self) -> bool:
        """Whether the last record that was applied is still where it was; `Corrupt` if another one is there.

        R11: offsets alone do not tell. A log that lost its end may have grown again, by appends that had no answer.
        False: nothing can be read there, not yet, or not any more.
        """
        place = self.state.next_offset - 1
        try:
            async with read_up_to_end(self.log, place, place + 1) as reader:
                async for batch in reader:
                    for offset, record in self.records(batch):
                        if identity(record) != self.last:
                            raise self.lost_its_end(offset)
                        return True
        except Trimmed:
            return True  # by another owner, which has read it: the next records name it
        return False

    def lost_its_end(self, offset: int) -> Corrupt:
        """The error for an own record that landed at this offset, below the applied part."""
        return Corrupt(
            f"{self.log.name} continues at {offset}, and had a record at {self.state.next_offset - 1}: it was"
            f" made anew or lost its end, and acked entries with it: open region {self.region} again for the rest"
        )

    async def _claim(
        self, renews: int, running_count: int, seen: Callable[[int, WriteRecord], None] | None = None
    ) -> None:
        while True:
            record = OwnerRecord(renews, running_count, self.session, self.who)
            encoded = encode_owner(self.region, record)
            try:
                (offset,) = await self.log.append(Batch.of([encoded]))
            except CordwoodError as error:
                error.outcome = None  # it is that of an owner record, not of a write
                raise
            if offset < self.state.next_offset:
                raise self.lost_its_end(offset)
            if renews != NOBODY and not await self.knows_its_end():
                raise Unavailable(
                    f"{self.log.name} cannot be read at {self.state.next_offset - 1}, though {offset} was appended:"
                    " try again",
                    reason="failed",
                )
            if offset == self.state.next_offset:
                self.state.apply(offset, record)  # there is nothing before it that was not read
                self.last = identity(record)
                self.note_growth(1, len(encoded))
            else:
                await self.catch_up(offset + 1, seen)
            self.check_owner()
            if self.owner == offset:
                return
            # Void, since an earlier renewal of ours has landed at last: the next one continues from that.
            renews = self.owner


def identity(record: DataRecord) -> tuple[int, ...]:
    """What no two appends of an owner have in common, but those of the same record."""
    if isinstance(record, OwnerRecord):
        return record.renews, record.running_count, record.session
    return record.owner, record.running_count, record.table, record.first


@dataclass(frozen=True)
class CordwoodDecoder:
    """The `RecordDecoder` of one data log."""

    region: int
    log: str
    """Its name, for the text of errors."""
    verified: bool
    """Whether each read of the log verifies its bytes."""

    bare = False

    def records(self, batch: StoredBatch, on_bad: OnBad | None = None) -> Iterator[tuple[int, DataRecord]]:
        values = batch.rows()[0]
        views: Iterable[memoryview]
        starts: Iterable[int]
        stops: Iterable[int]
        if isinstance(values, BinaryColumn):
            _, offsets, data = values.buffers()
            bounds = offsets[values.start : values.start + len(values) + 1].tolist()
            views, starts, stops = repeat(data), bounds, bounds[1:]
        else:
            # A null, which nobody of ours writes, is no record: decoding says so.
            views = [memoryview(value or b"") for value in values]
            starts, stops = repeat(0), map(len, views)
        places = batch.offsets
        decoded = map(
            decode_record, views, starts, stops, repeat(self.region), repeat(self.log), places, repeat(self.verified)
        )
        return zip(places, decoded, strict=True) if on_bad is None else _decodable(places, decoded, on_bad)

    def writes(self, batch: StoredBatch) -> Writes | None:
        values = batch.rows()[0]
        if not (self.verified and isinstance(values, BinaryColumn)):
            return None
        _, offsets, data = values.buffers()
        return decode_writes(data, offsets[values.start : values.start + len(values) + 1].tolist(), self.region)


def _decodable(places: Sequence[int], decoded: Iterator[DataRecord], on_bad: OnBad) -> Iterator[tuple[int, DataRecord]]:
    for offset in places:
        try:
            record = next(decoded)  # a map continues after an error
        except Corrupt as error:
            on_bad(offset, error)
        else:
            yield offset, record
