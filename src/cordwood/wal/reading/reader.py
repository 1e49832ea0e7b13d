"""Reading a region: one write of one table at a time, in log order."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import add, ge
from types import TracebackType
from typing import NamedTuple, Self, TypeAlias

from cordwood.errors import Trimmed
from cordwood.log import Log, Reader
from cordwood.records import BinaryColumn, StoredBatch
from cordwood.wal.formats.applied_log import AppliedLog
from cordwood.wal.formats.up_to_end import read_up_to_end
from cordwood.wal.record import DataRecord, OwnerRecord
from cordwood.wal.state.fence import Fence


@dataclass(slots=True)  # not frozen: there is one for each write, and it would take three times as long to make
class TableEntries:
    """Entries of one table that were written together: one write, or the part of it that was asked for.

    The payloads are views of the buffer that was read: a program that keeps a few of many should keep `bytes` of them.

    >>> entries = TableEntries.of(42, range(1, 3), BinaryColumn.of([b"a", b"b"]), 1)
    >>> list(zip(entries.sequences, entries.payloads))
    [(1, b'a'), (2, b'b')]
    """

    table: int
    sequences: range
    """Their numbers in their table."""
    payloads: BinaryColumn
    offset: int
    """The place of the write in the region's data log."""
    weight: int
    """The bytes that the payloads take in memory, with their bounds."""

    @classmethod
    def of(cls, table: int, sequences: range, payloads: BinaryColumn, offset: int) -> TableEntries:
        """Entries of one table, with their weight.

        >>> TableEntries.of(42, range(1, 3), BinaryColumn.of([b"a", b"b"]), 1).weight
        14
        """
        return cls(table, sequences, payloads, offset, payloads.nbytes)

    def __len__(self) -> int:
        return len(self.sequences)

    def within(self, start: int, stop: int | None) -> TableEntries | None:
        """Those with numbers in [start, stop), if there are any.

        >>> TableEntries.of(42, range(1, 3), BinaryColumn.of([b"a", b"b"]), 1).within(2, None).sequences
        range(2, 3)
        """
        sequences = self.sequences
        low = max(start - sequences.start, 0)
        high = len(sequences) if stop is None else min(len(sequences), stop - sequences.start)
        if low >= high:
            return None
        if high - low == len(sequences):
            return self
        return TableEntries.of(self.table, sequences[low:high], self.payloads[low:high], self.offset)

    def copy(self) -> TableEntries:
        """The same entries in memory of their own: a view of a few bytes would keep its whole batch alive."""
        _, offsets, data = self.payloads.compact()
        column = BinaryColumn(memoryview(offsets.tobytes()).cast("i"), memoryview(data.tobytes()))
        return TableEntries(self.table, self.sequences, column, self.offset, self.weight)


class Place(NamedTuple):
    """An offset to read from, who owns the log there, and which entries are deleted."""

    start: int
    fence: Fence
    deleted: Mapping[int, int]
    """By table, through which number."""
    log: AppliedLog
    """It decodes its records."""


StartOver: TypeAlias = Callable[[Trimmed], Awaitable[Place]]
"""The place at which a reader continues after the log was trimmed under it; raises if entries are lost by that."""


class RegionReader(ABC):
    """The entries of a region, in the order in which they were written: an async iterator, and a context manager.

    ```python
    async with region.replay() as reader:
        async for entries in reader:
            print(entries.table, entries.sequences, list(entries.payloads))
    ```
    It may be iterated bare; then it closes at its end, or with the connection.
    """

    def __aiter__(self) -> Self:
        return self

    @abstractmethod
    async def __anext__(self) -> TableEntries: ...

    @abstractmethod
    async def close(self) -> None:
        """Stop reading; twice is fine. A step that waits ends with StopAsyncIteration."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


class LogReader(RegionReader):
    """Reads the data log: all tables, or those that are asked for with each batch."""

    def __init__(self, log: Log, place: Place, stop: int | None, start_over: StartOver) -> None:
        self.skipped = 0
        """Entries that it passed over: they are deleted, or of no table that was asked for."""
        self.offset = place.start
        """Everything before it was read."""
        self._log = log
        self._reader: Reader | None = read_up_to_end(log, place.start, stop)
        self._trimmed: Trimmed | None = None
        self._place = place
        self._stop = stop
        self._start_over = start_over
        self._ready: deque[TableEntries] = deque()
        self._only: Collection[int] | None = None

    def __repr__(self) -> str:
        return f"<cordwood.RegionReader of {self._log.name} at offset {self.offset}>"

    async def __anext__(self) -> TableEntries:
        while not self._ready:
            await self._read_on()
            await asyncio.sleep(0)
        return self._ready.popleft()

    async def close(self) -> None:
        self._ready.clear()
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.close()

    @property
    def ordered(self) -> bool:
        """Whether the numbers of a table only grow from write to write."""
        return self._place.fence.ordered

    async def batch(self, only: Collection[int] | None) -> Sequence[TableEntries]:
        """All that the next batch of the log holds, of these tables or of all; StopAsyncIteration at the end.

        A call that is cancelled loses nothing: the next one continues.
        """
        self._only = only
        await self._read_on()
        ready, self._ready = self._ready, deque()
        return ready

    async def _read_on(self) -> None:
        if self._reader is None:
            raise StopAsyncIteration
        try:
            if self._trimmed is not None:  # a call that was cancelled had met it, and a log raises it once
                raise self._trimmed
            batch = await anext(self._reader)
        except Trimmed as trimmed:
            self._trimmed = trimmed
            await self._continue_after(trimmed)
            return
        if not self._take_whole(batch):
            self._take(self._place.log.records(batch))
        self.offset = batch.offsets[-1] + 1

    async def _continue_after(self, trimmed: Trimmed) -> None:
        """R16: the trimmed part is deleted. The rest is there, all of it after the entries that were given out."""
        place = await self._start_over(trimmed)
        reader = self._reader
        if reader is None:
            return  # closed meanwhile
        more = self._stop is None or place.start < self._stop
        # Before the old one is closed: without a reader this would pass for the end, if that is cancelled.
        self._reader = read_up_to_end(self._log, place.start, self._stop) if more else None
        self._trimmed = None
        self._place = place
        await reader.close()

    def _take_whole(self, batch: StoredBatch) -> bool:
        """Take a batch of which every write counts and none is deleted, as most are: with little Python per write."""
        place = self._place
        writes = place.log.writes(batch) if self._only is None else None
        if writes is None:
            return False
        owners, running_counts, tables, firsts, counts, payloads, weights = writes
        if any(map(ge, map(place.deleted.get, tables, repeat(0)), firsts)):
            return False
        if not place.fence.take_writes(owners, running_counts, counts):
            return False
        sequences = map(range, firsts, map(add, firsts, counts))
        self._ready.extend(map(TableEntries, tables, sequences, payloads, batch.offsets, weights))
        return True

    def _take(self, records: Iterator[tuple[int, DataRecord]]) -> None:
        """Keep the entries of records that count, if they are asked for and not deleted."""
        (_, fence, deleted, _), only, ready = self._place, self._only, self._ready
        for offset, record in records:
            if isinstance(record, OwnerRecord):
                fence.take_owner(offset, record)
                continue
            owner, running_count, table, first, count, _ = record
            if not fence.take_write(owner, running_count, count):
                continue
            if only is not None and table not in only:
                self.skipped += count
                continue
            gone = deleted.get(table, 0) + 1 - first
            if gone >= count:
                self.skipped += count
                continue
            numbers, payloads = range(first, first + count), record.payloads
            if gone > 0:
                self.skipped += gone
                numbers, payloads = numbers[gone:], payloads[gone:]
            ready.append(TableEntries.of(table, numbers, payloads, offset))
