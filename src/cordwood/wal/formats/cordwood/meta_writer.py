"""The path of marks and snapshots: one task appends them to the meta log, in the order of the state.

A mark is applied to the state when it is durable, and a snapshot is made of the state by the same task. So a snapshot
holds every mark before it, and the meta log can be trimmed up to it.
"""

from __future__ import annotations

import asyncio
import logging
from copy import copy
from typing import Final

from cordwood.errors import CordwoodError, Corrupt, Fenced, Timeout
from cordwood.wal.formats.cordwood.data_log import DataLog
from cordwood.wal.formats.cordwood.meta_log import MetaLog
from cordwood.wal.formats.cordwood.meta_record import HEADER_BYTES, MARK_BYTES, Marks, MetaRecord
from cordwood.wal.formats.cordwood.snapshot import snapshot_of
from cordwood.wal.formats.cordwood.snapshot_policy import Growth, is_due, is_due_after_drop, is_due_on_close
from cordwood.wal.formats.cordwood.writer import Writer
from cordwood.wal.formats.interface import Snapshotted
from cordwood.wal.formats.marks import Mark, fail, failure, in_time
from cordwood.wal.formats.pending import why_broken_off

MARKS_MAX: Final = 20_000
"""Marks in one record, if it may be so large: 340 KB."""
ATTEMPTS_MAX: Final = 3
PAUSE_SECONDS: Final = 0.05
RETRY_SECONDS: Final = 5.0
"""A snapshot that was due and failed is tried again after this time, at the next write or mark."""

_LOGGER = logging.getLogger("cordwood.wal")


class MetaWriter:
    """The meta log of a region that this process owns."""

    def __init__(
        self, data: DataLog, meta: MetaLog, writer: Writer, record_bytes_max: int, timeout: float, *, due: bool
    ) -> None:
        """`due`: the meta log lacks something, which a snapshot makes good."""
        self._record_bytes_max = record_bytes_max
        self._marks_max = min(MARKS_MAX, (record_bytes_max - HEADER_BYTES) // MARK_BYTES - 1)
        self.failure: CordwoodError | None = None
        """Why the last snapshot failed; None: it did not."""
        self.refused: CordwoodError | None = None
        """Why the meta log was not trimmed, if it was not: it is longer than it must be, and no more than that."""
        self._data = data
        self._meta = meta
        self._writer = writer
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._marks: list[Mark] = []
        self._snapshots: list[asyncio.Future[Snapshotted]] = []
        self._due = due
        self._not_before = 0.0
        self._task: asyncio.Task[None] | None = None
        self._number = 0
        # What the last snapshot has seen; of one that an earlier owner made, as far as it was found.
        found = meta.fold.snapshot
        self._snapshot_writes = found[0].writes if found else 0
        self._snapshot_bytes = found[0].bytes if found else 0
        self._marks_since = len(meta.fold.marks)
        meta.forget()
        data.on_growth = self._look_whether_due
        self._look_whether_due()
        if due:
            self._run_soon()

    async def mark(self, table: int, through: int, *, dropped: bool, timeout: float | None) -> None:
        """Make it durable, then apply it."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._marks.append(Mark(table, through, dropped, future))
        self._run_soon()
        await in_time(self._data.region, future, timeout, f"a mark of table {table}")

    async def snapshot(self, timeout: float | None) -> Snapshotted:
        """Write one of the state as it is when its turn comes."""
        future: asyncio.Future[Snapshotted] = self._loop.create_future()
        self._snapshots.append(future)
        self._run_soon()
        return await in_time(self._data.region, future, timeout, "a snapshot")

    async def close(self) -> None:
        """After the writer: leave a snapshot if anything is new, so that the next open has nothing to read."""
        if asyncio.get_running_loop() is not self._loop:
            return
        self._data.on_growth = lambda: None
        owned = self._writer.fenced is None and self._data.broken is None
        next_offset, marks = self._data.state.next_offset, len(self._marks) + self._marks_since
        if owned and is_due_on_close(next_offset=next_offset, snapshot_offset=self._meta.snapshot_offset, marks=marks):
            self._due = True
            self._run_soon()
        if self._task is not None:
            await asyncio.wait([self._task])

    def _growth(self) -> Growth:
        state = self._data.state
        return Growth(
            state.writes - self._snapshot_writes,
            state.bytes - self._snapshot_bytes,
            self._marks_since,
            len(state.table_states),
        )

    def _look_whether_due(self) -> None:
        if is_due(self._growth()) and self._loop.time() >= self._not_before:
            self._due = True
            self._run_soon()

    def _run_soon(self) -> None:
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._run(), name="cordwood-meta_writer")
            self._task.add_done_callback(self._on_task_end)

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        """Fail the callers that wait for a cancelled task: a program that ends its loop cancels all tasks."""
        broken_off = why_broken_off(task)
        if broken_off is not None and self._task is task:  # else another one has begun, which sees to them
            marks, self._marks = self._marks, []
            snapshots, self._snapshots = self._snapshots, []
            self.failure = error = failure(self._meta.log, broken_off)
            for mark in marks:
                fail(mark.future, error)
            for future in snapshots:
                fail(future, error)

    async def _run(self) -> None:
        while self._marks or self._snapshots or self._due:
            if self._marks:
                await self._append_marks()
            # By turns: while marks are appended others come, and a snapshot would wait for ever.
            if self._snapshots or self._due:
                await self._append_snapshot()

    async def _append_marks(self) -> None:
        marks, self._marks = self._marks[: self._marks_max], self._marks[self._marks_max :]
        columns = ([m.table for m in marks], [m.through for m in marks], [m.dropped for m in marks])
        try:
            self.check_owner()
            await self._append(Marks(self._data.owner, *columns))
        except BaseException as failed:
            error = failure(self._meta.log, failed)
            for mark in marks:
                fail(mark.future, error)
            if not isinstance(failed, Exception):
                raise
            return
        state = self._data.state
        for mark in marks:
            state.mark(mark.table, mark.through, dropped=mark.dropped)
            if not mark.future.done():
                mark.future.set_result(None)
        self._marks_since += len(marks)
        if any(mark.dropped for mark in marks) and is_due_after_drop(self._growth()):
            self._due = True
        self._look_whether_due()

    async def _append_snapshot(self) -> None:
        waiting, self._snapshots = self._snapshots, []
        self._due = False
        try:
            done = await self._snapshot()
        except BaseException as failed:
            self.failure = error = failure(self._meta.log, failed)
            self._not_before = self._loop.time() + RETRY_SECONDS
            for future in waiting:
                fail(future, error)
            if not isinstance(failed, Exception):
                raise
            if not waiting and not isinstance(error, Fenced):
                _LOGGER.warning("region %d in %s: a snapshot failed: %s", self._data.region, self._meta.log.name, error)
            return
        for future in waiting:
            if not future.done():
                future.set_result(done)

    async def _snapshot(self) -> Snapshotted:
        self.check_owner()
        self._number += 1
        made = await snapshot_of(self._data.state, self._data.owner, self._number, self._record_bytes_max)
        done = Snapshotted(made.high_watermark, made.trim_target)
        first, *_ = [await self._append(part) for part in made.parts()]
        self._snapshot_writes, self._snapshot_bytes = made.writes, made.bytes
        self._meta.snapshot_offset = done.high_watermark
        self._marks_since = 0
        self.failure = None
        await self._trim(first)
        return done

    async def _trim(self, before: int) -> None:
        """R14: a complete snapshot that counts holds everything before it."""
        try:
            await self._meta.log.trim(before)
            self.refused = None
        except CordwoodError as error:
            self.refused = error

    async def _append(self, record: MetaRecord) -> int:
        """Append it until it is there. Twice is no harm: marks fold by maximum, parts of a snapshot by number."""
        unknown = False
        failed: CordwoodError | None = None
        try:
            async with asyncio.timeout(self._timeout):
                for attempt in range(ATTEMPTS_MAX):
                    if attempt:
                        await asyncio.sleep(PAUSE_SECONDS)
                    self.check_owner()
                    try:
                        return await self._meta.append(record)
                    except Fenced:
                        raise
                    except CordwoodError as error:
                        failed = error
                        unknown = unknown or error.outcome != "not_written"
                        self._data.broken = self._data.broken or self._meta.broken
        except TimeoutError as error:
            if isinstance(error, CordwoodError):
                raise
            unknown = True
            failed = Timeout(f"{self._meta.log.name}: an append took more than {self._timeout} s")
        except Fenced as error:
            self._writer.fence(error)
            failed = error
        except Corrupt as error:
            failed = error
        assert failed is not None
        own = copy(failed)
        own.outcome = "unknown" if unknown else "not_written"
        raise own from failed

    def check_owner(self) -> None:
        """Raise if this owner is fenced or its log was replaced."""
        if self._writer.fenced is not None:
            raise copy(self._writer.fenced)
        self._data.check_owner()
