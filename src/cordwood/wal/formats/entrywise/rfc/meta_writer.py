"""The way of marks in the proposal's records: one task appends those that wait, in one append.

A mark makes the earlier ones of its table needless. So when there are many of those, all marks are written once more,
and the log is trimmed before them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from copy import copy
from typing import Final, TypeAlias

from cordwood.errors import CordwoodError, Fenced, Timeout, Trimmed
from cordwood.log.calls.deadline import deadline
from cordwood.records import Batch
from cordwood.wal.formats.applied_log import keys_of, values_of
from cordwood.wal.formats.entrywise.log import EntrywiseLog, EntrywiseMeta
from cordwood.wal.formats.entrywise.rfc.codec import ALL_MARKS, encode_mark
from cordwood.wal.formats.entrywise.rfc.writer import BATCH_SLACK_BYTES, RECORD_SLACK_BYTES, RfcWriter
from cordwood.wal.formats.interface import Snapshotted
from cordwood.wal.formats.marks import Mark, fail, failure, in_time
from cordwood.wal.formats.pending import why_broken_off
from cordwood.wal.formats.up_to_end import read_up_to_end

NEEDLESS_MAX: Final = 10_000
"""So many needless marks, and as many again as there are needed ones, are left in the log."""
MARKS_MAX: Final = 10_000
"""Marks in one append, if it may be so large."""
STRAYS_MAX: Final = 10_000
"""So many marks, and as many again as there are needed ones, are remembered because they may still arrive: when they
do, they are no other writer's."""
RETRY_SECONDS: Final = 5.0

_MARK_BYTES = 14 + RECORD_SLACK_BYTES
_LOGGER = logging.getLogger("cordwood.wal")

MarkRecord: TypeAlias = tuple[bytes, bytes]
"""Key and value."""


class RfcMetaWriter:
    """The meta log of a region that this process has opened."""

    def __init__(
        self, data: EntrywiseLog, meta: EntrywiseMeta, writer: RfcWriter, batch_bytes_max: int, timeout: float
    ) -> None:
        self.failure: CordwoodError | None = None
        """Why all marks could not be written once more, when they were to be."""
        self.refused: CordwoodError | None = None
        self._data = data
        self._log = meta.log
        self._codec = meta.codec
        self._writer = writer
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._marks_max = min(MARKS_MAX, (batch_bytes_max - BATCH_SLACK_BYTES) // _MARK_BYTES)
        self._marks: list[Mark] = []
        self._strays: dict[MarkRecord, None] = {}
        self._task: asyncio.Task[None] | None = None
        # Everything before it was read, or is of this writer; and how many records the log has.
        self._next_offset = meta.end
        self._records = meta.end - meta.start
        self._not_before = 0.0

    async def mark(self, table: int, through: int, *, dropped: bool, timeout: float | None) -> None:
        """Make it durable, then apply it. A table is dropped by deleting all its entries: there is no other record."""
        if through <= self._data.state.deleted.get(table, 0):
            return
        self.check_owner()
        mark = Mark(table, through, dropped, self._loop.create_future())
        self._marks.append(mark)
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._run(), name="cordwood-meta_writer")
            self._task.add_done_callback(self._on_task_end)
        await in_time(self._data.region, mark.future, timeout, f"a mark of table {table}")

    async def snapshot(self, timeout: float | None) -> Snapshotted:
        """Return the state as it is: this format has no snapshots."""
        self.check_owner()
        state = self._data.state
        return Snapshotted(state.next_offset, state.trim_target)

    def check_owner(self) -> None:
        """Raise if this writer is fenced."""
        if self._writer.fenced is not None:
            raise copy(self._writer.fenced)

    async def close(self) -> None:
        if self._task is not None and asyncio.get_running_loop() is self._loop:
            await asyncio.wait([self._task])

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        """Fail the callers that wait for a cancelled task: a program that ends its loop cancels all tasks."""
        broken_off = why_broken_off(task)
        if broken_off is not None and self._task is task:  # else another one has begun, which sees to them
            marks, self._marks = self._marks, []
            error = failure(self._log, broken_off)
            for mark in marks:
                fail(mark.future, error)

    async def _run(self) -> None:
        while self._marks:
            await self._append_marks()
            needed = len(self._data.state.deleted)
            if needed and self._records > 2 * needed + NEEDLESS_MAX and self._loop.time() >= self._not_before:
                await self._append_all()

    async def _append_marks(self) -> None:
        marks, self._marks = self._marks[: self._marks_max], self._marks[self._marks_max :]
        records = [encode_mark(mark.table, mark.through + 1) for mark in marks]
        try:
            self.check_owner()
            await self._append(records)
        except BaseException as failed:
            error = failure(self._log, failed)
            if error.outcome != "not_written":
                self._remember(records)
            for mark in marks:
                fail(mark.future, error)
            if not isinstance(failed, Exception):
                raise
            return
        for mark in marks:
            self._data.state.mark(mark.table, mark.through)
            if not mark.future.done():
                mark.future.set_result(None)

    async def _append_all(self) -> None:
        """Write all marks once more, in records of which the first one says so, and trim the log before them."""
        records = [encode_mark(table, through + 1) for table, through in self._data.state.deleted.items()]
        starts = range(0, len(records), self._marks_max)
        try:
            self.check_owner()
            first, *_ = [
                await self._append(records[start : start + self._marks_max], whole=start == 0) for start in starts
            ]
            self.check_owner()  # another writer's marks may be before them
        except Exception as failed:
            self.failure = failure(self._log, failed)
            if self.failure.outcome != "not_written":
                self._remember(records)
            self._not_before = self._loop.time() + RETRY_SECONDS
            if not isinstance(failed, Fenced):
                _LOGGER.warning("%s: writing all marks once more failed: %s", self._log.name, self.failure)
            return
        self.failure = None
        try:
            await self._log.trim(first, timeout=self._timeout)
            self.refused = None
        except CordwoodError as error:
            self.refused = error
        self._records = len(records)

    async def _append(self, records: Sequence[MarkRecord], *, whole: bool = False) -> int:
        """Append marks, read the gaps before and between them, and return the offset of the first."""
        headers = [[ALL_MARKS], *([] for _ in records[1:])] if whole else None
        batch = Batch.of([value for _, value in records], keys=[key for key, _ in records], headers=headers)
        late = f"{self._log.name}: an append took more than {self._timeout} s"
        async with deadline(self._timeout, lambda: Timeout(late, outcome="unknown")):
            offsets = await self._log.append(batch, timeout=self._timeout)
            self._records += len(records)
            stop = offsets[-1] + 1
            if stop - self._next_offset != len(records):
                await self._look(stop, records)
        self._next_offset = stop
        return offsets[0]

    async def _look(self, stop: int, records: Sequence[MarkRecord]) -> None:
        """Read the marks of another writer, which count too. It has the region, so this one is fenced."""
        own = set(records)
        try:
            async with read_up_to_end(self._log, self._next_offset, stop) as reader:
                async for batch in reader:
                    for offset, key, value in zip(batch.offsets, keys_of(batch), values_of(batch), strict=True):
                        if (key, bytes(value)) in own or (key, bytes(value)) in self._strays:
                            continue
                        for known in self._codec.decode_meta(key, value, self._data.region, self._log.name, offset):
                            self._data.state.mark(known.table, known.deleted_through)
                        self._fence(f"the record at offset {offset} of {self._log.name} is not of this writer")
        except Trimmed as trimmed:
            self._fence(f"{self._log.name} was trimmed before {trimmed.start} by another one")

    def _fence(self, why: str) -> None:
        self._writer.fence(
            Fenced(f"region {self._data.region}: {why}: another writer has the region: open it again to take it back")
        )

    def _remember(self, records: Sequence[MarkRecord]) -> None:
        for record in records:
            self._strays.pop(record, None)  # the latest are kept
            self._strays[record] = None
        while len(self._strays) > STRAYS_MAX + len(self._data.state.deleted):
            del self._strays[next(iter(self._strays))]
