"""Reading regions whose records hold one entry each, without owner records.

Without owner records an acked record looks like one whose append failed, so all of them count. If a sequence number of
a table is there twice, its writer has used it again after a failure: the later record counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from cordwood.errors import Corrupt, NotFound, Trimmed, Unavailable
from cordwood.log import Log
from cordwood.records import Buffer, StoredBatch
from cordwood.wal.formats.applied_log import AppliedLog, keys_of, size_of, values_of
from cordwood.wal.formats.decoder import OnBad
from cordwood.wal.formats.entrywise.codec import EntryCodec, EntryKey, Known, new_entry_record
from cordwood.wal.formats.interface import OpenRegion, RegionLogs
from cordwood.wal.formats.up_to_end import read_up_to_end
from cordwood.wal.record import NOBODY, DataRecord, Writes
from cordwood.wal.state.fence import Unfenced
from cordwood.wal.state.state import RegionState

ATTEMPTS_MAX: Final = 20
"""Each further attempt means that another process has trimmed one of the two logs meanwhile."""

_LOGGER = logging.getLogger("cordwood.wal")

Seen: TypeAlias = Callable[[int, EntryKey, Buffer], None]


class EntrywiseLog(AppliedLog):
    """One data log with such records, and the state that follows from it."""

    def __init__(self, log: Log, region: int, codec: EntryCodec, permissive: bool = False) -> None:
        super().__init__(log, region, permissive)
        self.table_max = codec.table_max
        self.later: dict[tuple[int, int], int] = {}
        """By entry whose number did not follow: an earlier record with the same number does not count."""
        self._codec = codec

    def begin(self, offset: int) -> None:
        """Nothing is applied, and reading begins there."""
        self.later.clear()
        self.state = RegionState(offset, Unfenced(offset))

    @property
    def end(self) -> int:
        """A later record may use a number again, so a reader stops where the log was applied."""
        return self.state.next_offset

    @property
    def decoder(self) -> EntryDecoder:
        return EntryDecoder(self._codec, self.region, self.log.name, self.later)

    async def catch_up(self, stop: int | None = None, seen: Seen | None = None) -> None:
        """Apply the rest of the log, up to `stop` or to its present end."""
        region, name, codec = self.region, self.log.name, self._codec
        async with read_up_to_end(self.log, self.state.next_offset, stop) as reader:
            async for batch in reader:
                for offset, key, value in zip(batch.offsets, keys_of(batch), values_of(batch), strict=True):
                    try:
                        found = codec.decode_key(key, region, name, offset)
                    except Corrupt:
                        if not self.permissive:
                            raise
                        self.state.pass_over(offset)
                        continue
                    if seen is not None:
                        seen(offset, found, value)
                    self.apply(offset, found)
                self.note_growth(len(batch), size_of(batch))
                await asyncio.sleep(0)
        if stop is not None and self.state.next_offset < stop:
            raise Unavailable(
                f"{name} can be read up to {self.state.next_offset}, though {stop - 1} was appended", reason="failed"
            )

    def apply(self, offset: int, key: EntryKey) -> None:
        """Take in the next record."""
        table, sequence, is_start = key
        state = self.state
        state.next_offset = offset + 1
        state.last_counted = offset
        if is_start and sequence > 1:
            state.mark(table, sequence - 1)  # R17: also where the mark itself was lost
        known = state.table_of(table)
        known.high_watermark = offset + 1
        if known.deleted_through < sequence < known.next_sequence:
            self.later[table, sequence] = offset
        else:
            known.grow(sequence, sequence + 1, offset)


@dataclass(frozen=True)
class EntryDecoder:
    """The `RecordDecoder` of one data log."""

    codec: EntryCodec
    region: int
    log: str
    """Its name, for the text of errors."""
    later: Mapping[tuple[int, int], int]
    """As that of the `EntrywiseLog`."""

    bare = True

    def records(self, batch: StoredBatch, on_bad: OnBad | None = None) -> Iterator[tuple[int, DataRecord]]:
        region, name, codec, later = self.region, self.log, self.codec, self.later
        for offset, key, value in zip(batch.offsets, keys_of(batch), values_of(batch), strict=True):
            try:
                table, sequence, _ = codec.decode_key(key, region, name, offset)
                if later and later.get((table, sequence), offset) > offset:
                    continue
                payload = codec.decode_payload(value, name, offset)
            except Corrupt as error:
                if on_bad is None:
                    raise
                on_bad(offset, error)
                continue
            yield offset, new_entry_record((NOBODY, 0, table, sequence, 1, payload))

    def writes(self, batch: StoredBatch) -> Writes | None:
        return None


class EntrywiseMeta:
    """One meta log with such records, and the tables that follow from it."""

    snapshot_offset = 0  # an open reads the data log

    def __init__(
        self, log: Log, region: int, codec: EntryCodec, begins_whole: Callable[[StoredBatch], bool] = lambda batch: True
    ) -> None:
        """`begins_whole`: whether nothing is missing before the first batch of a log that was trimmed."""
        self.log = log
        self.codec = codec
        self.known: dict[int, Known] = {}
        self.start = self.end = 0
        self._region = region
        self._begins_whole = begins_whole

    async def read(self) -> None:
        """All of it, to the end as of now. That it is empty, or was emptied, is no error: the data log is there."""
        self.known = {}
        try:
            self.start, self.end = await self.log.bounds()
        except NotFound:
            self.start = self.end = 0
        if self.start == self.end > 0:
            _LOGGER.warning(
                "%s was emptied: tables are rebuilt from the data log, and deleted entries may return", self.log.name
            )
        if self.start == self.end:
            return
        async with self.log.read(self.start, self.end) as reader:
            async for batch in reader:
                for offset, key, value in zip(batch.offsets, keys_of(batch), values_of(batch), strict=True):
                    for known in self.codec.decode_meta(key, value, self._region, self.log.name, offset):
                        self._fold(known)
                # Only now: a log with records of another format was not cut.
                if batch.offsets[0] == self.start > 0 and not self._begins_whole(batch):
                    _LOGGER.warning(
                        "%s was cut before offset %d: deleted entries may return, and numbers of empty tables",
                        self.log.name,
                        self.start,
                    )
                await asyncio.sleep(0)

    def _fold(self, new: Known) -> None:
        old = self.known.get(new.table, new)
        self.known[new.table] = Known(
            new.table,
            max(old.next_sequence, new.next_sequence),
            max(old.deleted_through, new.deleted_through),
            max(old.high_watermark, new.high_watermark),
            new.oldest,
        )


async def restore_entrywise(data: EntrywiseLog, meta: EntrywiseMeta) -> dict[int, range]:
    """Apply the data log to its present end, append nothing, and return the lost numbers by table."""
    for _ in range(ATTEMPTS_MAX):
        try:
            await meta.read()
            seen = meta.end
            lost = await _restore_once(data, meta)
            if lost:
                await meta.read()
            if not lost or meta.end == seen:
                return _warn_of_loss(lost, data)
        except Trimmed:
            continue  # its owner has trimmed it, after it had said so in the meta log
    raise Unavailable(
        f"{data.log.name} was trimmed {ATTEMPTS_MAX} times while it was read: open the region again", reason="failed"
    )


async def _restore_once(data: EntrywiseLog, meta: EntrywiseMeta) -> dict[int, range]:
    data.start, _ = await data.log.bounds()
    oldest = min((known.oldest for known in meta.known.values() if known.oldest is not None), default=data.start)
    data.begin(max(oldest, data.start))
    state = data.state
    for known in meta.known.values():
        if known.deleted_through:
            state.mark(known.table, known.deleted_through)
    await data.catch_up()
    lost = {}
    for known in meta.known.values():
        table = state.table_of(known.table)
        if known.oldest is not None and known.oldest < data.start:
            first = table.mapping[0][0] if table.mapping else known.next_sequence
            if known.deleted_through + 1 < first:
                lost[known.table] = range(known.deleted_through + 1, first)
        table.next_sequence = max(table.next_sequence, known.next_sequence)
        table.high_watermark = max(table.high_watermark, known.high_watermark)
    return lost


def _warn_of_loss(lost: dict[int, range], data: EntrywiseLog) -> dict[int, range]:
    if lost:
        _LOGGER.warning(
            "%s was cut before offset %d, and entries of %d tables are lost", data.log.name, data.start, len(lost)
        )
    return lost


class ReadingFormat:
    """Regions that other programs write."""

    only_reads = True

    def __init__(self, codec: EntryCodec) -> None:
        self.codec = codec
        self.table_max = codec.table_max

    async def read(self, logs: RegionLogs) -> OpenRegion:
        data, meta = self._logs(logs)
        return OpenRegion(data, meta, await restore_entrywise(data, meta))

    async def own(self, logs: RegionLogs) -> OpenRegion:
        raise NotImplementedError("a format that only reads")

    def _logs(self, logs: RegionLogs) -> tuple[EntrywiseLog, EntrywiseMeta]:
        data = EntrywiseLog(logs.data, logs.region, self.codec, logs.permissive)
        return data, EntrywiseMeta(logs.meta, logs.region, self.codec)
