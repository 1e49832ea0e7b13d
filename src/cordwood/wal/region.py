"""A region: one log that many tables share."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import NamedTuple, Self

from cordwood.errors import CordwoodError, InvalidInput, Timeout, Trimmed, Unavailable
from cordwood.log.arguments import checked_timeout
from cordwood.wal.cleaning.background import BackgroundCleaner, Flush
from cordwood.wal.cleaning.cleaner import Cleaner
from cordwood.wal.formats.applied_log import AppliedLog
from cordwood.wal.formats.interface import OpenRegion, RegionMetaWriter, RegionWriter, WriteUnderWay
from cordwood.wal.names import checked_id
from cordwood.wal.reading.reader import LogReader, Place, RegionReader
from cordwood.wal.reading.recovery import Apply, Recovery, RecoveryReport
from cordwood.wal.reading.scan import Channel
from cordwood.wal.reading.shared_scan import TableReader, TableReads
from cordwood.wal.record import checked_payloads
from cordwood.wal.state.state import TableMeta
from cordwood.wal.stats import RegionStats

_LOGGER = logging.getLogger("cordwood.wal")


class _Limit(NamedTuple):
    """The time that a write has, including the time for which it waits for room."""

    seconds: float
    until: float


@dataclass(slots=True)
class _Owned:
    """The parts of a region that only its owner has."""

    writer: RegionWriter
    meta_writer: RegionMetaWriter
    cleaner: Cleaner
    background: BackgroundCleaner | None = None


class Region:
    """A log that many tables share, with one owner. Made by `wal.region(id)`; used in the event loop that opened it.

    ```python
    async with wal.region(7) as region:
        await region.write(42, [b"first", b"second"])  # range(1, 3)
    ```
    """

    id: int

    def __init__(
        self,
        opened: OpenRegion,
        *,
        read_again: Callable[[], Awaitable[OpenRegion]],
        refusal: Callable[[], CordwoodError],
    ) -> None:
        """A region that was opened without a writer only reads, and `refusal` says why."""
        self.id = opened.data.region
        self._data = opened.data
        self._meta = opened.meta
        self._lost = opened.lost
        self._owned: _Owned | None = None
        if opened.writers is not None:
            writer, meta_writer = opened.writers
            self._owned = _Owned(writer, meta_writer, Cleaner(opened.data, meta_writer))
        self._read_again = read_again
        self._refusal = refusal
        self._closed = False
        self._table_reads = TableReads(self._scan, self._end)

    async def write(self, table: int, payloads: Sequence[bytes], *, timeout: float | None = None) -> range:
        """Write entries of one table, all or none of them, and return their sequence numbers once they are durable.

        Numbers of a table begin at 1 and only grow. `Fenced`: another owner has the region. A cancelled write, and one
        whose time is over, may become durable.

        ```python
        await region.write(42, [b"first", b"second"])  # range(1, 3)
        ```
        """
        writer = self._writable()
        limit = _limit(timeout)
        column = writer.column_of(self._table(table), checked_payloads(payloads))
        count = len(payloads)  # as in the column: while it waits for room, its caller may change the list
        if writer.full:
            await writer.room(None if limit is None else limit.seconds)
        write = writer.put(table, count, column)
        # Without a limit of its own the timeouts of its appends bound it.
        return await (write.future if limit is None else self._in_time(write, limit))

    async def write_many(
        self, writes: Mapping[int, Sequence[bytes]], *, timeout: float | None = None
    ) -> dict[int, range]:
        """Write entries of several tables, each table's all or none of them: {table: sequence numbers}.

        If some fail, the error has `written` and `unknown`: the numbers of the tables that did and that may have
        succeeded. `InvalidInput` and `TooLarge` come before anything is written.

        ```python
        await region.write_many({42: [b"a"], 43: [b"b", b"c"]})  # {42: range(3, 4), 43: range(1, 3)}
        ```
        """
        writer = self._writable()
        limit = _limit(timeout)
        columns = {
            table: (writer.column_of(self._table(table), checked_payloads(payloads)), len(payloads))
            for table, payloads in writes.items()
        }
        if not columns:
            return {}
        if writer.full:
            await writer.room(None if limit is None else limit.seconds)
        under_way = [writer.put(table, count, column) for table, (column, count) in columns.items()]
        waits = [w.future if limit is None else self._in_time(w, limit) for w in under_way]
        return _all_or_error(under_way, await asyncio.gather(*waits, return_exceptions=True))

    def replay(self) -> RegionReader:
        """Read the whole region in log order, to the end at the call, without deleted entries.

        ```python
        async with region.replay() as reader:
            async for entries in reader:
                print(entries.table, entries.sequences, list(entries.payloads))
        ```
        """
        self._check_open()
        return self._reader(_first_place(self._data), self._data.end)

    def read(self, table: int, start: int = 1, stop: int | None = None) -> RegionReader:
        """Read the entries of one table with the sequence numbers [start, stop), to the end at the call.

        On a read-only connection it is to the end at the first step. Deleted entries are left out. Readers of several
        tables that are open at once share one way through the log: none of them waits for another one.

        ```python
        async with region.read(42, start=2) as reader:
            async for entries in reader:
                print(entries.sequences, list(entries.payloads))
        ```
        """
        self._check_open()
        self._table(table)
        for name, sequence in (("start", start), ("stop", stop)):
            if sequence is not None and sequence < 1:
                raise InvalidInput(f"{name} is {sequence}: sequence numbers begin at 1")
        state = self._data.state
        found = state.offset_of(table, max(start, state.deleted.get(table, 0) + 1))
        # An owner has applied every acked write, and is the only writer.
        end = state.next_offset if self._owned is not None and self._usable() else self._data.end
        # The state knows no entry of it; another process may have written some since.
        begin = state.next_offset if found is None else found
        return TableReader(self._table_reads, Channel(table, begin, end, (start, stop)))

    async def recover(
        self, apply: Apply, tables: Collection[int] | None = None, concurrency: int = 8
    ) -> RecoveryReport:
        """Replay the tables, all or these, each in its order: `await apply(table, entries)` for each of their writes.

        The region is read once for all of them. Up to `concurrency` tables are applied at a time; one that is slow, or
        for which `apply` raises, holds back none of the others. The report has the exceptions, under `failed`.

        ```python
        report = await region.recover(apply)
        print(report.applied, report.failed)
        ```
        """
        self._check_open()
        if concurrency < 1:
            raise InvalidInput(f"concurrency is {concurrency}: at least 1 table is applied at a time")
        begun = time.monotonic()
        data = self._data
        stop = await self._end() if data.end is None else data.end

        report = await Recovery(self._scan, _first_place(data).start, stop, apply, tables).run(concurrency)
        _LOGGER.info(
            "region %d in %s is recovered in %.3f s: %d entries applied, %d skipped, %d tables failed",
            self.id, data.log.name, time.monotonic() - begun, report.applied, report.skipped, len(report.failed),
        )  # fmt: skip
        return report

    def tables(self) -> dict[int, TableMeta]:
        """The sequence numbers and offsets of each table that was written. No I/O.

        ```python
        region.tables()[42].next_sequence  # 3
        ```
        """
        self._check_open()
        return self._data.state.tables()

    async def mark_deleted(self, table: int, *, through: int, timeout: float | None = None) -> None:
        """Mark the entries of a table up to this sequence number, inclusive, as deleted.

        The mark is durable on return: no reader returns these entries again, and cleaning frees their space. At or
        below an earlier mark, and for a table that is dropped or was never written, it has no effect. Beyond the
        table's last entry it is `InvalidInput`.

        ```python
        await region.mark_deleted(42, through=2)
        ```
        """
        owned = self._owner()
        if type(through) is not int:
            raise TypeError(f"through: an int is needed, not {type(through).__name__}")
        found = self._data.state.known(self._table(table))
        if through < 0:
            raise InvalidInput(f"through is {through}: sequence numbers begin at 1", outcome="not_written")
        if found is None or through <= found.deleted_through:
            return
        if through >= found.next_sequence:
            raise InvalidInput(
                f"table {table} cannot be deleted through {through}: its last sequence number is "
                f"{found.next_sequence - 1}",
                outcome="not_written",
            )
        await owned.meta_writer.mark(table, through, dropped=False, timeout=_seconds(timeout))

    async def drop_table(self, table: int, *, timeout: float | None = None) -> None:
        """Delete all entries of a table that were written before the call, and the table; durable on return.

        Its sequence numbers never come back: a later write makes the table anew, and continues after them. A second
        call, and one for a table that was never written, have no effect.

        ```python
        await region.drop_table(42)
        ```
        """
        owned = self._owner()
        self._table(table)
        if self._data.state.known(table) is None and not owned.writer.has_given(table):
            return
        last = owned.writer.last_given(table)
        found = self._data.state.table_states.get(table)
        if found is None or found.dropped_through < last:
            await owned.meta_writer.mark(table, last, dropped=True, timeout=_seconds(timeout))

    async def snapshot(self, *, timeout: float | None = None) -> None:
        """Write a snapshot of the tables, so that the next open reads only the records after it.

        The region also makes one by itself: every 64 MiB, 10,000 writes or 10,000 marks (more, if it has more tables),
        on a drop, by the cleaner and on close.

        ```python
        await region.snapshot()
        ```
        """
        await self._owner().meta_writer.snapshot(_seconds(timeout))

    async def clean(self, *, timeout: float | None = None) -> None:
        """Trim the data log up to the oldest live entry of any table, after a snapshot that confirms it.

        The background cleaner does the same, see `cw.wal`.

        ```python
        await region.mark_deleted(42, through=2)
        await region.clean()
        ```
        """
        await self._owner().cleaner.clean(_seconds(timeout))

    def stats(self) -> RegionStats:
        """How the region is doing: its size, and the table that holds it back. No I/O.

        ```python
        region.stats().held_by  # 42
        ```
        """
        self._check_open()
        state = self._data.state
        oldest, table = min(state.holders(), default=(None, None))
        own = self._owned
        return RegionStats(
            tables=sum(not meta.dropped for meta in state.table_states.values()),
            next_offset=state.next_offset,
            oldest_offset=oldest,
            held_by=table,
            lag=0 if oldest is None else state.next_offset - oldest,
            bytes=0 if oldest is None else state.bytes_from(oldest),
            snapshot_lag=state.next_offset - (self._meta.snapshot_offset or self._data.start),
            pruned_to=self._data.start if own is None else own.cleaner.pruned_to,
            trimmed_to=self._data.start if own is None else own.cleaner.trimmed_to,
            trim_refused=None if own is None else own.cleaner.refused or own.meta_writer.refused,
            lost=self._lost,
            failure=self._failure(),
        )

    async def close(self) -> None:
        """Finish the writes under way, and leave a snapshot; twice is fine.

        It is closed for every user of this object.
        """
        self._closed = True
        owned = self._owned
        if owned is None:
            return
        owned.writer.closed = True  # before anything is awaited: a close that is cancelled leaves no open writer
        if owned.background is not None:
            await owned.background.close()
        await owned.writer.close()
        await owned.meta_writer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        state = "open" if self._owned else "read-only"
        if not self._usable():
            state = "closed" if self._closed else "fenced" if self._data.broken is None else "broken"
        return f"<cordwood.Region {self.id} in {self._data.log.name} {state}>"

    def _clean_in_background(self, every: float, bytes_max: int, flush: Flush | None) -> None:
        """Clean every so many seconds from now on, and ask `flush` for tables when the region is larger than that."""
        owned = self._owner()
        name = f"region {self.id} in {self._data.log.name}"
        owned.background = BackgroundCleaner(owned.cleaner, name, every, bytes_max, flush, self)

    def _failure(self) -> CordwoodError | None:
        """Why something in the background failed, and has not gone well since."""
        own = self._owned
        if own is None:
            return None
        return (own.background and own.background.failure) or own.cleaner.failure or own.meta_writer.failure

    def _usable(self) -> bool:
        if self._closed or self._data.broken is not None:
            return False
        return self._owned is None or self._owned.writer.fenced is None

    def _reader(self, place: Place, stop: int | None) -> LogReader:
        return LogReader(self._data.log, place, stop, self._start_over)

    def _scan(self, start: int, stop: int) -> LogReader:
        """Read from a write that counts, or from the end of the state, where there may be none."""
        data = self._data
        return self._reader(_end_place(data) if start == data.state.next_offset else _place_at(data, start), stop)

    async def _end(self) -> int:
        return (await self._data.log.bounds())[1]

    async def _start_over(self, trimmed: Trimmed) -> Place:
        """R16: the place at which a reader continues after a trim."""
        place = _first_place(self._data)
        if place.start >= trimmed.start:
            return place  # by this owner
        found = await self._read_again()
        if found.lost:
            raise trimmed
        return _first_place(found.data)

    def _table(self, table: int) -> int:
        return checked_id("table", table, self._data.table_max)

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable(f"region {self.id} in {self._data.log.name} is closed: open it again", reason="closed")

    def _writable(self) -> RegionWriter:
        return self._owner().writer

    def _owner(self) -> _Owned:
        if self._owned is None:
            raise self._refusal()
        self._owned.writer.check()
        return self._owned

    async def _in_time(self, write: WriteUnderWay, limit: _Limit) -> range:
        try:
            async with asyncio.timeout_at(limit.until):
                return await write.future
        except TimeoutError as error:
            if isinstance(error, CordwoodError):
                raise
            raise Timeout(
                f"region {self.id}: a write of table {write.table} took more than {limit.seconds} s:"
                " read the table to see",
                outcome="unknown",
            ) from error


def _first_place(data: AppliedLog) -> Place:
    """The place of the oldest live entry, or the end."""
    oldest = data.state.oldest_live
    return _end_place(data) if oldest is None else _place_at(data, oldest)


def _place_at(data: AppliedLog, offset: int) -> Place:
    """The place of a write that counts, as every offset in a mapping is."""
    return Place(offset, data.state.fence.at(offset), data.state.deleted, data)


def _end_place(data: AppliedLog) -> Place:
    return Place(data.state.next_offset, replace(data.state.fence), data.state.deleted, data)


def _all_or_error(writes: Sequence[WriteUnderWay], results: Sequence[range | BaseException]) -> dict[int, range]:
    numbers = {write.table: range(write.first, write.first + write.count) for write in writes}
    failed = {w.table: error for w, error in zip(writes, results, strict=True) if isinstance(error, BaseException)}
    if not failed:
        return numbers
    unknown = {table: error for table, error in failed.items() if getattr(error, "outcome", None) != "not_written"}
    worst = next(iter((unknown or failed).values()))
    if isinstance(worst, CordwoodError):
        worst.written = {table: range_ for table, range_ in numbers.items() if table not in failed}
        worst.unknown = {table: numbers[table] for table in unknown}
        if worst.written and worst.outcome == "not_written":
            worst.outcome = "unknown"
    raise worst


def _limit(timeout: float | None) -> _Limit | None:
    if timeout is None:
        return None
    seconds = checked_timeout(timeout)
    return _Limit(seconds, asyncio.get_running_loop().time() + seconds)


def _seconds(timeout: float | None) -> float | None:
    return None if timeout is None else checked_timeout(timeout)
