"""Recovering tables: one scan of a region, split into a channel for each table.

A channel holds little, and a scan does not wait for one that is full: it parks the table at that offset (R18), and a
further scan, which parked tables share, goes on from there. So a table that is slow or fails holds back none of the
others, memory is bounded, and the logs of a table are applied in their order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from cordwood.records import BinaryColumn
from cordwood.wal.reader import RegionReader, TableLogs

CHANNEL_BYTES_MAX: Final = 2 * 1024 * 1024
"""What waits for one table; one write may always wait."""
CHANNELS_BYTES_MAX: Final = 64 * 1024 * 1024
"""What waits for all tables together: then the scan waits until something is applied."""

Apply: TypeAlias = Callable[[int, TableLogs], Awaitable[None]]
Scan: TypeAlias = "Callable[[int | None], RegionReader]"
"""A reader of the region, from its start or from the offset of a write that counts, always to the same end."""


@dataclass(slots=True)
class RecoveryReport:
    """What a recovery has done.

    >>> RecoveryReport(applied=3, bytes=12).failed
    {}
    """

    applied: int = 0
    """Logs that were applied."""
    skipped: int = 0
    """Logs that were read and are not to be applied: of tables that were not asked for, or marked deleted."""
    bytes: int = 0
    """Bytes of the payloads that were applied."""
    failed: dict[int, BaseException] = field(default_factory=dict)
    """Tables for which `apply` raised, and what: the rest of such a table was left out."""


class _Channel:
    __slots__ = ("busy", "parked", "size", "taken_to", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[TableLogs] = deque()
        self.size = 0
        self.busy = False
        self.parked: int | None = None  # the offset of the first write that found it full
        self.taken_to = -1  # the offset of the last write that it took

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.busy


class Recovery:
    """One call of `recover`."""

    def __init__(self, scan: Scan, apply: Apply, tables: Collection[int] | None) -> None:
        self.report = RecoveryReport()
        self._scan = scan
        self._apply = apply
        self._tables = None if tables is None else frozenset(tables)
        self._channels: dict[int, _Channel] = {}
        self._size = 0
        self._ready: asyncio.Queue[int] = asyncio.Queue()  # tables with something to do, each at most once: bounded
        self._progress = asyncio.Event()
        self._ended = False

    async def run(self, concurrency: int) -> RecoveryReport:
        workers = [asyncio.create_task(self._work(), name="cordwood-recover") for _ in range(concurrency)]
        try:
            await self._scan_all()
            await self._until(lambda: all(channel.idle for channel in self._channels.values()))
        finally:
            self._ended = True
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        return self.report

    async def _scan_all(self) -> None:
        await self._distribute(None, None)
        while parked := [channel for channel in self._channels.values() if channel.parked is not None]:
            await self._until(lambda parked=parked: any(channel.idle for channel in parked))  # type: ignore[misc]
            again = {table for table, channel in self._channels.items() if channel.parked is not None and channel.idle}
            start = min(offset for table in again if (offset := self._channels[table].parked) is not None)
            for table in again:
                self._channels[table].parked = None
            await self._distribute(start, again)

    async def _distribute(self, start: int | None, only: Collection[int] | None) -> None:
        async with self._scan(start) as reader:
            async for logs in reader:
                if only is not None and logs.table not in only:
                    continue
                if self._tables is not None and logs.table not in self._tables:
                    self.report.skipped += len(logs)
                    continue
                if self._size >= CHANNELS_BYTES_MAX:
                    await self._until(lambda: self._size < CHANNELS_BYTES_MAX)
                self._offer(logs)
            if only is None:
                self.report.skipped += reader.skipped

    def _offer(self, logs: TableLogs) -> None:
        table = logs.table
        channel = self._channels.get(table)
        if channel is None:
            channel = self._channels[table] = _Channel()
        if channel.parked is not None or logs.offset <= channel.taken_to or table in self.report.failed:
            return
        weight = logs.weight
        if channel.waiting and channel.size + weight > CHANNEL_BYTES_MAX:
            channel.parked = logs.offset  # R18
            return
        channel.waiting.append(TableLogs(table, logs.sequences, _copied(logs.payloads), logs.offset))
        channel.taken_to = logs.offset
        channel.size += weight
        self._size += weight
        if len(channel.waiting) == 1 and not channel.busy:
            self._ready.put_nowait(table)

    async def _work(self) -> None:
        while True:
            table = await self._ready.get()
            channel = self._channels[table]
            logs = channel.waiting.popleft()
            channel.busy = True
            try:
                await self._apply(table, logs)
                self.report.applied += len(logs)
                self.report.bytes += logs.payloads.data_bytes
            except asyncio.CancelledError as error:
                if self._ended:
                    raise
                self.report.failed[table] = error  # something of its own that `apply` awaited was cancelled
            except Exception as error:
                self.report.failed[table] = error
            channel.busy = False
            self._let_go(table, channel, logs)

    def _let_go(self, table: int, channel: _Channel, logs: TableLogs) -> None:
        size = logs.weight
        if table in self.report.failed:
            size = channel.size
            channel.waiting.clear()
            channel.parked = None
        channel.size -= size
        self._size -= size
        if channel.waiting:
            self._ready.put_nowait(table)  # behind the others: each gets its turn
        self._progress.set()

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._progress.clear()
            await self._progress.wait()


def _copied(column: BinaryColumn) -> BinaryColumn:
    """What waits is copied: a view of a few bytes would keep everything alive that was read with it."""
    _, offsets, data = column.compact()
    return BinaryColumn(memoryview(offsets.tobytes()).cast("i"), memoryview(data.tobytes()))
