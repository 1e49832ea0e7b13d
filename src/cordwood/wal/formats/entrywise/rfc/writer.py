"""The path of a write in the proposal's records: one append per write, one record per entry.

There are no owner records. So no write can be taken back or written again, and only a foreign record between its own
shows a writer that there is another one: then it stops.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from cordwood.errors import CordwoodError, Fenced, TooLarge, Unavailable
from cordwood.log.calls.outcome import copy_for_caller
from cordwood.records import Batch, Buffer
from cordwood.wal.formats.entrywise.codec import EntryKey
from cordwood.wal.formats.entrywise.log import EntrywiseLog
from cordwood.wal.formats.entrywise.rfc.codec import KEY_BYTES, encode_key, encode_value
from cordwood.wal.formats.pending import PendingWrites, why_broken_off
from cordwood.wal.formats.write_path import WritePath, after_append, after_resolving

APPENDS_IN_FLIGHT_MAX: Final = 16
STRAY_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of writes that may still arrive: the writer remembers them, so that it knows its own records."""
BATCH_SLACK_BYTES: Final = 512
RECORD_SLACK_BYTES: Final = 64
"""What a log may need for a batch, and for each record of it, beside its bytes."""


class RfcWrite:
    """One write on its way."""

    __slots__ = ("batch", "count", "error", "first", "found", "future", "keys", "offsets", "since", "size", "table")

    def __init__(
        self, keys: list[EntryKey], values: list[bytes], size: int, future: asyncio.Future[range], since: float
    ) -> None:
        self.since = since
        self.table = keys[0].table
        self.first = keys[0].sequence
        self.count = len(keys)
        self.keys = keys
        self.batch = Batch.of(values, keys=list(map(encode_key, keys)))
        self.size = size
        self.future = future
        self.offsets: Sequence[int] | None = None
        self.error: CordwoodError | None = None
        self.found: set[int] = set()
        """The numbers of its entries that were found in the log, after an append that failed or left a gap."""


class RfcWriter(PendingWrites):
    """The writes of a region that this process has opened."""

    def __init__(self, data: EntrywiseLog, batch_bytes_max: int, timeout: float) -> None:
        super().__init__(data, timeout)
        self._data: EntrywiseLog = data
        self._batch_bytes_max = batch_bytes_max - BATCH_SLACK_BYTES
        # One write of a table is under way at a time, as appends may overtake each other; its others wait behind it.
        self._behind: dict[int, deque[RfcWrite]] = {}
        self._queue: deque[RfcWrite] = deque()
        self._appends: set[asyncio.Task[Sequence[int]]] = set()
        self._arrived: dict[int, RfcWrite] = {}  # behind a gap, by their first offsets
        self._odd: list[RfcWrite] = []  # failed, or with a gap in themselves
        self._strays: dict[tuple[int, int], bytes] = {}
        self._stray_bytes = 0
        self._path = WritePath.WRITING
        self._resolving: asyncio.Task[None] | None = None  # kept so that it is not collected

    def column_of(self, table: int, payloads: Sequence[bytes]) -> list[bytes]:
        """The values of its records; `TooLarge` before anything has a number."""
        size = _size_of(payloads)
        if size > self._batch_bytes_max:
            raise TooLarge(
                f"table {table}: {len(payloads)} payloads are {size} bytes as records, the limit of "
                f"{self._data.log.name} is {self._batch_bytes_max}: split the write",
                outcome="not_written",
            )
        return list(map(encode_value, payloads))

    def put(self, table: int, count: int, column: list[bytes]) -> RfcWrite:
        """Give the write its numbers, and queue it after all others. Numbers are used once, even after a failure."""
        first = self.last_given(table) + 1
        self._next[table] = first + count
        # R17: by numbers that are given out, not by those that are acked: a write under way is not deleted by this one.
        is_start = first == self._data.state.deleted.get(table, 0) + 1
        keys = [EntryKey(table, first + place, is_start and not place) for place in range(count)]
        write = RfcWrite(keys, column, _size_of(column), self._loop.create_future(), self._loop.time())
        self._pending_bytes += write.size
        if table in self._behind:
            self._behind[table].append(write)
        else:
            self._behind[table] = deque()
            self._queue.append(write)
            self._send()
        return write

    async def close(self) -> None:
        """No more writes; returns when those under way are decided."""
        self.closed = True
        if asyncio.get_running_loop() is self._loop:
            while self._behind or self._path is WritePath.RESOLVING:
                await self._progress()

    def _send(self) -> None:
        # Without owner records there is nothing to renew: after UNRESOLVED the next append shows the gap again.
        sends = self._path in (WritePath.WRITING, WritePath.UNRESOLVED)
        while sends and self._queue and len(self._appends) < APPENDS_IN_FLIGHT_MAX:
            write = self._queue.popleft()
            # Half of the time, so that there is some left to find out what became of an append without an answer.
            append = self._loop.create_task(self._data.log.append(write.batch, timeout=self._timeout / 2))
            self._appends.add(append)
            append.add_done_callback(lambda done, write=write: self._on_append_done(write, done))  # type: ignore[misc]

    def _enter(self, path: WritePath) -> None:
        """Change the state, at this place only."""
        self._path = path
        if path is WritePath.RESOLVING:
            writes = [*self._odd, *self._arrived.values()]
            self._odd.clear()
            self._arrived.clear()
            self._resolving = self._loop.create_task(self._resolve(writes))
            self._resolving.add_done_callback(lambda done: self._on_resolve_done(writes, done))

    def _on_append_done(self, write: RfcWrite, append: asyncio.Task[Sequence[int]]) -> None:
        self._appends.discard(append)
        failure = None if append.cancelled() else append.exception()
        if append.cancelled() or failure is not None:
            write.error = failure if isinstance(failure, CordwoodError) else self._broken_off(failure)
            self._odd.append(write)
        else:
            write.offsets = offsets = append.result()
            if offsets[-1] == offsets[0] + write.count - 1:
                self._arrived[offsets[0]] = write
            else:
                self._odd.append(write)
        self._ack()
        self._enter(after_append(odd=bool(self._odd or self._arrived), all_returned=not self._appends))
        self._send()

    def _on_resolve_done(self, writes: list[RfcWrite], task: asyncio.Task[None]) -> None:
        # Not in the task: one that is cancelled before its first step does nothing.
        failed = why_broken_off(task)
        error = None if failed is None else self._why_not_found(failed)
        if error is not None:
            self._give_up(writes, error)
        self._enter(after_resolving(error))
        self._wake()
        self._send()

    def _ack(self) -> None:
        """Complete the writes that have returned, in log order, up to the first gap: it may hold another writer's
        records."""
        while (write := self._arrived.pop(self._data.state.next_offset, None)) is not None:
            for offset, key in enumerate(write.keys, self._data.state.next_offset):
                self._data.apply(offset, key)
            self._data.note_growth(write.count, write.size)
            self._finish(write)

    async def _resolve(self, writes: list[RfcWrite]) -> None:
        """Find the open writes that are in the log, and records of another writer."""
        async with asyncio.timeout(self._timeout / 2):
            await self._look_for(writes)
        failed = [error for write in writes if (error := self._decide(write)) is not None]
        if failed:
            self._fail_late_ones(failed[0])

    async def _look_for(self, writes: list[RfcWrite]) -> None:
        """Apply the rest of the log; `Fenced` if it has a foreign record."""
        own = {(key.table, key.sequence): (write, place) for write in writes for place, key in enumerate(write.keys)}
        strange: list[int] = []

        def seen(offset: int, key: EntryKey, value: Buffer) -> None:
            found = own.get((key.table, key.sequence))
            if found is not None and found[0].batch[found[1]].value == bytes(value):
                found[0].found.add(key.sequence)
            elif self._strays.get((key.table, key.sequence)) != bytes(value):
                strange.append(offset)

        await self._data.catch_up(seen=seen)
        if strange:
            raise Fenced(
                f"region {self._data.region}: the record at offset {strange[0]} of {self._data.log.name} is not of this"
                " writer: somebody else has the region: open it again to take it back"
            )
        last = max((write.offsets[-1] for write in writes if write.offsets is not None), default=-1)
        if self._data.state.next_offset <= last:
            raise Unavailable(
                f"{self._data.log.name} can be read up to {self._data.state.next_offset}, though {last} was appended",
                reason="failed",
            )

    def _decide(self, write: RfcWrite) -> CordwoodError | None:
        """Complete the write for its caller; return why it failed, if it did."""
        if len(write.found) == write.count:
            self._finish(write)
            return None
        error = write.error or Unavailable(
            f"region {self._data.region}: a write of table {write.table} is not there", reason="failed"
        )
        refused = error.outcome == "not_written" and not write.found
        if not refused:
            self._remember(write)
        self._finish(write, copy_for_caller(error, "not_written" if refused else "unknown"))
        return error

    def _fail_late_ones(self, error: CordwoodError) -> None:
        """Where appends fail, each of many writes would wait until all those before it have, one after the other."""
        waiting, in_time = self._queue, deque[RfcWrite]()
        self._queue = deque()
        while waiting:
            write = waiting.popleft()
            if self._loop.time() < write.since + self._timeout:
                in_time.append(write)
                continue
            self._finish(write, copy_for_caller(error, "not_written"))
            waiting.extend(self._queue)  # the next one of its table
            self._queue.clear()
        self._queue = in_time

    def _give_up(self, writes: list[RfcWrite], error: CordwoodError) -> None:
        if isinstance(error, Fenced):
            self.fence(error)
        for write in writes:
            refused = write.error is not None and write.error.outcome == "not_written"
            if not refused:
                self._remember(write)
            self._finish(write, copy_for_caller(error, "not_written" if refused else "unknown"))
        while self._queue:
            self._finish(self._queue.popleft(), copy_for_caller(error, "not_written"))

    def _remember(self, write: RfcWrite) -> None:
        """It may arrive later."""
        for key, value in zip(write.keys, write.batch.rows()[0], strict=True):
            self._strays[key.table, key.sequence] = value or b""
            self._stray_bytes += len(value or b"")
        while self._stray_bytes > STRAY_BYTES_MAX:
            self._stray_bytes -= len(self._strays.pop(next(iter(self._strays))))

    def _finish(self, write: RfcWrite, error: CordwoodError | None = None) -> None:
        if behind := self._behind[write.table]:
            self._queue.append(behind.popleft())
        else:
            del self._behind[write.table]
        self._answer(write, write.size, error)

    def _broken_off(self, cause: BaseException | None) -> CordwoodError:
        error = Unavailable(f"{self._data.log.name}: an append was broken off", outcome="unknown", reason="failed")
        error.__cause__ = cause
        return error


def _size_of(payloads: Sequence[bytes]) -> int:
    return sum(map(len, payloads)) + len(payloads) * (KEY_BYTES + RECORD_SLACK_BYTES)
