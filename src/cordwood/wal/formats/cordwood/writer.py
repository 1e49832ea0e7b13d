"""The path of a write: numbers, groups, acks; and the resolving of appends that fail or leave a gap.

Everything here runs on one event loop. Writes that come while others are on their way leave together, as one batch of
the data log; a few batches are under way at a time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from cordwood.errors import CordwoodError, Corrupt, Fenced, TooLarge, Unavailable
from cordwood.log.calls.outcome import copy_for_caller
from cordwood.records import Batch
from cordwood.wal.formats.cordwood.data_log import DataLog
from cordwood.wal.formats.cordwood.data_record import HEADER_BYTES, encode_payloads, encode_write, record_bytes
from cordwood.wal.formats.pending import PendingWrites, why_broken_off
from cordwood.wal.formats.write_path import WritePath, after_append, after_resolving
from cordwood.wal.record import WriteRecord

BATCHES_IN_FLIGHT_MAX: Final = 4
BATCH_BYTES_MAX: Final = 1024 * 1024
"""A batch is full with this many bytes: the write that passes it is the last one, if the log's own limit allows."""
ATTEMPTS_MAX: Final = 3
LAST_ATTEMPT: Final = 0.1
"""The part of the connection's timeout that a last attempt has, though the time of its writes is over."""
RECORD_SLACK_BYTES: Final = 512
"""What a log may need for a record beside its bytes."""


class Write:
    """One write on its way."""

    __slots__ = (
        "attempts",
        "column",
        "count",
        "error",
        "first",
        "future",
        "owner",
        "running_count",
        "since",
        "size",
        "table",
    )

    def __init__(
        self, table: int, first: int, count: int, column: bytes, future: asyncio.Future[range], since: float
    ) -> None:
        self.since = since
        self.table = table
        self.first = first
        self.count = count
        self.column = column
        self.size = HEADER_BYTES + len(column)
        self.future = future
        self.attempts = 0
        # The numbers of its latest attempt, by which it is found in the log; and why that failed.
        self.owner = self.running_count = -1
        self.error: CordwoodError | None = None


class _Group:
    """Writes that are one append; `offsets` once it has come back with some."""

    __slots__ = ("offsets", "settled", "size", "writes")

    def __init__(self, writes: list[Write]) -> None:
        self.writes = writes
        self.size = sum(write.size for write in writes)
        self.settled = False
        self.offsets: Sequence[int] | None = None


class Writer(PendingWrites):
    """The writes of a region that this process owns."""

    def __init__(self, data: DataLog, record_bytes_max: int, timeout: float) -> None:
        super().__init__(data, timeout)
        self._data: DataLog = data
        self._record_bytes_max = record_bytes_max
        self._running_count = data.state.fence.running_count
        self._queue: deque[Write] = deque()
        self._groups: deque[_Group] = deque()
        self._flushing = False
        self._path = WritePath.WRITING
        self._resolving: asyncio.Task[None] | None = None  # kept so that it is not collected
        self._appends: set[asyncio.Task[Sequence[int]]] = set()

    def check(self) -> None:
        super().check()
        if self._data.broken is not None:
            raise copy_for_caller(self._data.broken, "not_written")

    def column_of(self, table: int, payloads: Sequence[bytes]) -> bytes:
        """The payloads as they are stored; `TooLarge` before anything has a number."""
        size = record_bytes(payloads)  # before they are joined, which may be more than there is memory
        if size > self._record_bytes_max:
            raise TooLarge(
                f"table {table}: {len(payloads)} payloads are {size} bytes as a record, the limit of "
                f"{self._data.log.name} is {self._record_bytes_max}: split the write",
                outcome="not_written",
            )
        return encode_payloads(payloads)

    def put(self, table: int, count: int, column: bytes) -> Write:
        """Give the write its sequence numbers and a place behind all others. It is never taken back from there."""
        first = self._next.get(table) or self._data.state.next_sequence(table)
        self._next[table] = first + count
        write = Write(table, first, count, column, self._loop.create_future(), self._loop.time())
        self._pending_bytes += write.size
        self._queue.append(write)
        self._flush_soon()
        return write

    async def close(self) -> None:
        """No more writes; returns when those under way are decided."""
        self.closed = True
        if asyncio.get_running_loop() is not self._loop:
            return  # another loop cannot wait for this one; the engine finishes the writes under way
        while self._queue or self._groups or self._path is WritePath.RESOLVING:
            await self._progress()

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            # Behind everything that is about to run: what that writes leaves together.
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        writing = self._path is WritePath.WRITING
        broken = writing and self._data.broken is not None  # as the meta log shows: nothing more is appended
        if self._queue and (self._path is WritePath.UNRESOLVED or (broken and not self._groups)):
            self._enter(WritePath.RESOLVING)
            return  # it flushes when it is done
        while writing and not broken and self._queue and len(self._groups) < BATCHES_IN_FLIGHT_MAX:
            group = _Group(self._take_batch())
            self._groups.append(group)
            # Half of the time, so that there is some left to find out what became of an append without an answer.
            left = self._seconds_left(group.writes) / 2
            batch = Batch.of([self._record(write) for write in group.writes])
            append = self._loop.create_task(self._data.log.append(batch, timeout=left))
            self._appends.add(append)
            append.add_done_callback(lambda done, group=group: self._on_append_done(group, done))  # type: ignore[misc]

    def _take_batch(self) -> list[Write]:
        queue = self._queue
        size = 0
        writes: list[Write] = []
        while queue and (not writes or size + queue[0].size + RECORD_SLACK_BYTES <= BATCH_BYTES_MAX):
            # A topic's limit was lowered: a write that is too large now must not have others refused with it.
            alone = isinstance(queue[0].error, TooLarge)
            if alone and writes:
                break
            write = queue.popleft()
            size += write.size + RECORD_SLACK_BYTES
            writes.append(write)
            if alone:
                break
        return writes

    def _seconds_left(self, writes: Iterable[Write]) -> float:
        """Until the time of the oldest one is over; a little, if it is."""
        until = min((write.since for write in writes), default=self._loop.time()) + self._timeout
        return max(until - self._loop.time(), self._timeout * LAST_ATTEMPT)

    def _record(self, write: Write) -> bytes:
        write.attempts += 1
        write.error = None
        write.owner, write.running_count = self._data.owner, self._running_count
        self._running_count += write.count
        return encode_write(
            self._data.region, write.owner, write.running_count, write.table, write.first, write.count, write.column
        )

    def _enter(self, path: WritePath) -> None:
        """Change the state, at this place only."""
        before, self._path = self._path, path
        if path is WritePath.RESOLVING:
            self._resolve_soon(renew=before is WritePath.UNRESOLVED)

    def _odd(self) -> bool:
        """Whether an append has failed or left a gap, or the log is broken while some are under way."""
        groups = self._groups
        if not groups:
            return False
        if groups[0].settled or self._data.broken is not None:
            return True
        return any(group.settled and group.offsets is None for group in groups)

    def _on_append_done(self, group: _Group, append: asyncio.Task[Sequence[int]]) -> None:
        self._appends.discard(append)
        group.settled = True
        error = CordwoodError("the append was broken off", outcome="unknown")
        if not append.cancelled():
            failure = append.exception()
            if failure is None:
                group.offsets = append.result()
                if group.offsets[0] < self._data.state.next_offset:
                    # R11: nothing is read before all appends have come back. So no own record lands below what is
                    # applied, in a log that has all it had. One of a later group may be the only one that shows it.
                    self._data.broken = self._data.lost_its_end(group.offsets[0])
            elif isinstance(failure, CordwoodError):
                error = failure
            else:
                error.__cause__ = failure
        if group.offsets is None:
            for write in group.writes:
                write.error = error
            if isinstance(error, TooLarge) and len(group.writes) == 1:
                group.writes[0].attempts = ATTEMPTS_MAX  # it is refused for itself, and would be again
        self._ack()
        self._enter(after_append(odd=self._odd(), all_returned=all(each.settled for each in self._groups)))
        self._flush()

    def _ack(self) -> None:
        """Complete the writes that have returned, in log order, up to the first gap."""
        state = self._data.state
        while self._groups and self._groups[0].offsets is not None and self._data.broken is None:
            group = self._groups[0]
            assert group.offsets is not None
            # R10: own records follow each other. A gap may hold another owner's record, so nothing after it is acked
            # before it is read.
            if group.offsets[0] != state.next_offset or group.offsets[-1] - group.offsets[0] != len(group.writes) - 1:
                return
            self._groups.popleft()
            for offset, write in zip(group.offsets, group.writes, strict=True):
                counts = state.apply_write(
                    offset, write.owner, write.running_count, write.table, write.first, write.count
                )
                assert counts, "own records that follow each other count"
                self._finish(write)
            self._data.last = write.owner, write.running_count, write.table, write.first
            self._data.note_growth(len(group.writes), group.size)

    def _finish(self, write: Write, error: CordwoodError | None = None) -> None:
        self._answer(write, write.size, error)

    def _resolve_soon(self, *, renew: bool) -> None:
        open_writes = {(w.owner, w.running_count): w for group in self._groups for w in group.writes}
        self._groups.clear()
        self._resolving = self._loop.create_task(self._resolve(open_writes, renew))
        self._resolving.add_done_callback(lambda done: self._on_resolve_done(open_writes, done))

    def _on_resolve_done(self, open_writes: dict[tuple[int, int], Write], task: asyncio.Task[None]) -> None:
        # Not in the task: one that is cancelled before its first step does nothing.
        failed = why_broken_off(task)
        error = None if failed is None else self._why_not_found(failed)
        if error is not None:
            self._give_up(list(open_writes.values()), error)
        self._enter(after_resolving(error))
        self._wake()
        self._flush()

    async def _resolve(self, open_writes: dict[tuple[int, int], Write], renew: bool) -> None:
        """R11: find the open writes that are in the log; write the rest again, where none can come twice."""

        def found(offset: int, record: WriteRecord) -> None:
            write = open_writes.pop((record.owner, record.running_count), None)
            if write is not None:
                self._finish(write)

        async with asyncio.timeout(self._seconds_left(open_writes.values() or self._queue)):
            self._data.check_owner()
            known = await self._data.knows_its_end()
            if known:  # else the renewal shows what there is
                await self._data.catch_up(seen=found)
                self._data.check_owner()
            if open_writes or renew or not known:
                await self._data.renew(self._running_count, found)
                self._running_count = self._data.state.fence.running_count
        again = [write for write in open_writes.values() if self._may_try_again(write)]
        self._queue.extendleft(reversed(again))

    def _may_try_again(self, write: Write) -> bool:
        """After a renewal: it is not in the log, and never will be."""
        if write.attempts < ATTEMPTS_MAX and self._loop.time() < write.since + self._timeout:
            return True
        failed = f"region {self._data.region}: {write.attempts} appends of a write of table {write.table} failed"
        self._finish(write, copy_for_caller(write.error or Unavailable(failed, reason="failed"), "not_written"))
        return False

    def _give_up(self, open_writes: list[Write], error: CordwoodError) -> None:
        if isinstance(error, Fenced):
            self.fence(error)
        if isinstance(error, Corrupt):
            # R11: for good. The renewal may be in the log, where readers count it and this owner does not. A next one,
            # at an offset that seems to follow, would be void for them, and every write that is acked behind it.
            self._data.broken = error
        for write in open_writes:
            # Behind another owner's record nothing of ours counts, whenever it lands. Otherwise it may be there.
            fenced = isinstance(error, Fenced) and error.outcome != "unknown"
            lost = fenced or (write.error is not None and write.error.outcome == "not_written")
            self._finish(write, copy_for_caller(error, "not_written" if lost else "unknown"))
        queued = list(self._queue)
        self._queue.clear()
        # R15: they have numbers, which are not given out again. The renewal that comes before the next write says so.
        self._running_count += sum(write.count for write in queued)
        for write in queued:
            self._finish(write, copy_for_caller(error, "not_written"))
