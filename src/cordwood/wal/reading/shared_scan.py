"""Readers of several tables share one way through the data log: whoever has nothing left reads on for all of them.

What is read is put into a channel for each reader. One whose channel is full is parked: it holds back nobody, and goes
on from its place when it has taken what is there, with whoever else is to begin then.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeAlias

from cordwood.wal.reading.reader import LogReader, RegionReader, TableEntries

CHANNEL_BYTES_MAX: Final = 2 * 1024 * 1024
"""What waits for one reader, besides the first write."""


class Wanted(NamedTuple):
    """Which logs a reader gives out: of one table, with numbers in [start, stop)."""

    table: int
    start: int
    stop: int | None


StartScan: TypeAlias = "Callable[[int, int], LogReader]"
"""Reads all tables from an offset where a write is that counts to below another one."""


class TableReads:
    """The readers of single tables of one region that are open."""

    def __init__(self, start_scan: StartScan, find_end: Callable[[], Awaitable[int]]) -> None:
        self._start_scan = start_scan
        self._find_end = find_end
        self._looking = asyncio.Lock()
        self._scans: list[_Scan] = []
        self._hungry: dict[TableReader, None] = {}  # those that wait for a scan, in the order of their coming

    def reader(self, wanted: Wanted, start: int, stop: int | None) -> TableReader:
        """Of one table, from an offset on at which a scan may start; `stop` None: to where the log ends then."""
        return TableReader(self, wanted, start, stop)

    async def scan_for(self, reader: TableReader) -> None:
        """Have the reader take part in a scan that has not passed its place."""
        self._hungry[reader] = None
        try:
            await asyncio.sleep(0)  # those that are asked in the same turn of the loop begin together
            if reader.stop is None:
                await self._look_for_the_end()
            if reader.scan is None and not reader.ended:
                self._start_or_join(reader)
        finally:
            self._hungry.pop(reader, None)

    async def _look_for_the_end(self) -> None:
        """One look for all that wait: with the same end they can share a scan."""
        async with self._looking:
            if any(each.stop is None for each in self._hungry):
                end = await self._find_end()
                for each in self._hungry:
                    if each.stop is None:
                        each.ends_at(end)

    def on_scan_end(self, scan: _Scan) -> None:
        if scan in self._scans:
            self._scans.remove(scan)

    def _start_or_join(self, reader: TableReader) -> None:
        stop = reader.stop
        assert stop is not None
        for scan in self._scans:
            if scan.reader.offset <= reader.start and scan.stop >= stop:
                scan.join(reader)
                return
        together = [
            each
            for each in self._hungry
            if each.scan is None and not each.ended and each.stop is not None and each.stop <= stop
        ]
        first = min(each.start for each in together)
        scan = _Scan(self, self._start_scan(first, stop), stop)
        self._scans.append(scan)
        for each in together:
            scan.join(each)


class _Scan:
    """One way through the log, and who is on it."""

    def __init__(self, reads: TableReads, reader: LogReader, stop: int) -> None:
        self.reader = reader
        self.stop = stop
        self.turn = asyncio.Lock()
        self._reads = reads
        self._by_table: dict[int, list[TableReader]] = {}

    def join(self, reader: TableReader) -> None:
        reader.scan = self
        self._by_table.setdefault(reader.table, []).append(reader)

    def leave(self, reader: TableReader) -> None:
        reader.scan = None
        others = self._by_table[reader.table]
        others.remove(reader)
        if not others:
            del self._by_table[reader.table]

    async def read_on(self, asked_by: TableReader) -> None:
        """One batch for all; `asked_by` has the turn. An error is its own: the others go on from their places.

        Where it is cancelled, the scan stays as it is, and whoever is next reads on.
        """
        try:
            batch = await self.reader.batch(self._by_table)
        except StopAsyncIteration:
            self._reads.on_scan_end(self)
            for reader in self._all():
                reader.end()
            return
        except Exception:
            self._reads.on_scan_end(self)
            for reader in self._all():
                self.leave(reader)
            await self.reader.close()
            raise
        for entries in batch:
            for reader in tuple(self._by_table.get(entries.table, ())):
                reader.offer(entries, keep=reader is asked_by)
        await self.close_if_left()

    async def close_if_left(self) -> None:
        if not self._by_table:
            self._reads.on_scan_end(self)
            await self.reader.close()

    def _all(self) -> list[TableReader]:
        return [reader for readers in self._by_table.values() for reader in readers]


class TableReader(RegionReader):
    """The logs of one table."""

    def __init__(self, reads: TableReads, wanted: Wanted, start: int, stop: int | None) -> None:
        self.table = wanted.table
        self.start = start
        """Where it goes on: where it began, or at a write that counts, of which it may have been given some."""
        self.stop = stop
        """None until it is known."""
        self.scan: _Scan | None = None
        self.ended = stop is not None and start >= stop
        self._reads = reads
        self._wanted = wanted
        self._ready: deque[TableEntries] = deque()
        self._size = 0
        self._taken_to = -1

    async def __anext__(self) -> TableEntries:
        while not self._ready:
            if self.ended:
                raise StopAsyncIteration
            if self.scan is None:
                await self._reads.scan_for(self)
                continue
            scan = self.scan
            async with scan.turn:
                if not self._ready and self.scan is scan:
                    await scan.read_on(self)
        entries = self._ready.popleft()
        self._size -= entries.weight
        return entries

    async def close(self) -> None:
        self._ready.clear()
        scan = self.scan
        self.end()
        if scan is not None:
            await scan.close_if_left()

    def offer(self, entries: TableEntries, *, keep: bool) -> None:
        """Take logs of the table into the channel; with `keep` as they are, since they are given out at once."""
        wanted = self._wanted
        if entries.offset <= self._taken_to:
            return
        if self.stop is not None and entries.offset >= self.stop:
            self.end()
            return
        part = entries.within(wanted.start, wanted.stop)
        if part is None:
            beyond = wanted.stop is not None and entries.sequences.start >= wanted.stop
            if beyond and self.scan is not None and self.scan.reader.ordered:
                self.end()
            return
        if not keep:
            part = part.copied()
        if self._ready and self._size + part.weight > CHANNEL_BYTES_MAX:
            self.start = entries.offset  # R18
            if self.scan is not None:
                self.scan.leave(self)
            return
        self._ready.append(part)
        self._size += part.weight
        self.start = self._taken_to = entries.offset

    def ends_at(self, stop: int) -> None:
        self.stop = stop
        self.ended = self.ended or self.start >= stop

    def end(self) -> None:
        """There is nothing more for it."""
        self.ended = True
        if self.scan is not None:
            self.scan.leave(self)
