"""A region's meta log: reading it, taking it over, and appending records that must count."""

from __future__ import annotations

import asyncio
from typing import Final

from cordwood.errors import CordwoodError, Corrupt, Fenced, NotFound, Trimmed, Unavailable
from cordwood.log import Log
from cordwood.records import Batch
from cordwood.wal.formats.applied_log import values_of
from cordwood.wal.formats.cordwood.meta_fold import MetaFold
from cordwood.wal.formats.cordwood.meta_record import MetaOwner, MetaRecord, decode_meta, encode_meta
from cordwood.wal.formats.up_to_end import read_up_to_end

ATTEMPTS_MAX: Final = 20
"""Each one more means that the region's owner has made a snapshot and trimmed in the meantime."""


class MetaLog:
    """One meta log, and what its records come to as far as they were read."""

    def __init__(self, log: Log, region: int) -> None:
        self.log = log
        self.region = region
        self.fold = MetaFold()
        self.start = 0
        """Where the log began when it was read."""
        self.next_offset = 0
        """Everything before it was read, or is the owner's own."""
        self.snapshot_offset = 0
        """Up to where the data log is applied in the last snapshot; 0: there is none."""
        self.broken: Corrupt | None = None
        """Why nothing more may be appended: the log was replaced, or lost records that were read."""

    @property
    def cut(self) -> bool:
        """Whether something is missing: the owners trim it to the first part of a complete snapshot, and no further."""
        return self.start > 0 and self.fold.snapshot is None and self.fold.outdated is None

    async def read(self) -> None:
        """All of it, from its start, to the end as of now."""
        for _ in range(ATTEMPTS_MAX):
            try:
                self.start, end = await self.log.bounds()
            except NotFound:
                self.start = end = 0  # somebody has deleted the topic; the data log is all that is needed to read
            self.fold = MetaFold()
            self.next_offset = self.start
            try:
                await self._read_to(end)
            except Trimmed:
                continue  # R16: its owner has trimmed it, since there is a newer snapshot
            parts = self.fold.snapshot
            self.snapshot_offset = parts[0].high_watermark if parts else 0
            return
        raise Unavailable(
            f"{self.log.name} was trimmed {ATTEMPTS_MAX} times while it was read: try again", reason="failed"
        )

    async def claim(self, owner: int, session: int, who: str, *, anew: bool) -> None:
        """Whose records count from here on, unless there is a higher id: then `Fenced`. All before it is read then.

        `anew`: the data log has lost its end, so that higher ids before this record mean nothing any more.
        """
        record = MetaOwner(owner, session, who, anew)
        try:
            (offset,) = await self.log.append(Batch.of([encode_meta(self.region, record)]))
            self._check_end(offset)
        except CordwoodError as error:
            error.outcome = None  # it is that of an owner record, not of a write
            raise
        if offset == self.next_offset:
            self.fold.take(record)
            self.next_offset = offset + 1
        else:
            try:
                await self._read_to(offset + 1)
            except Trimmed:
                await self.read()
        self.check(owner)

    async def append(self, record: MetaRecord) -> int:
        """Append a record of the owner, and return its offset; `Fenced` if it does not count."""
        (offset,) = await self.log.append(Batch.of([encode_meta(self.region, record)]))
        self._check_end(offset)
        if offset == self.next_offset:
            self.next_offset = offset + 1
            return offset
        # R12: a gap. Its records decide whether this one counts.
        try:
            await self._read_to(offset + 1)
        except Trimmed:
            await self.read()  # only a newer owner trims here: its record is behind the place it trimmed to
        except CordwoodError as error:
            error.outcome = "unknown"
            raise
        self.check(record.owner)
        return offset

    def forget(self) -> None:
        """Drop the marks and snapshots, which are in the state now; the owner is still needed."""
        self.fold = MetaFold(owner=self.fold.owner, who=self.fold.who)

    def check(self, owner: int) -> None:
        """`Fenced` if a higher id was read."""
        if self.fold.owner > owner:
            raise Fenced(
                f"region {self.region} was opened by {self.fold.who} at offset {self.fold.owner} of its data log, "
                f"says {self.log.name}, after this owner's {owner}: open it again to take it back"
            )

    def _check_end(self, offset: int) -> None:
        """R12: a record that lands below the part that was read follows records that this owner has not seen."""
        if offset < self.next_offset:
            self.broken = Corrupt(
                f"{self.log.name} continues at {offset}, and had a record at {self.next_offset - 1}: it was made anew"
                f" or lost its end, and marks with it: open region {self.region} again, and repeat the marks",
                outcome="unknown",
            )
            raise self.broken

    async def _read_to(self, stop: int) -> None:
        if self.next_offset >= stop:
            return
        async with read_up_to_end(self.log, self.next_offset, stop) as reader:
            async for batch in reader:
                for offset, value in zip(batch.offsets, values_of(batch), strict=True):
                    self.fold.take(decode_meta(value, self.region, f"{self.log.name} at offset {offset}"))
                    self.next_offset = offset + 1
                await asyncio.sleep(0)
        if self.next_offset < stop:
            # On Kafka: a new leader does not know the end yet. The missing records may decide whether this one counts.
            raise Unavailable(
                f"{self.log.name} can be read up to {self.next_offset}, though {stop - 1} was appended: try again",
                reason="failed",
            )
