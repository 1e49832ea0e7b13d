"""Recovering tables: one scan of a region, split into a channel for each table.

A channel holds little, and a scan does not wait for one that is full: it parks the table at that offset (R18), and a
further scan, which parked tables share, goes on from there. So a table that is slow or fails holds back none of the
others, memory is bounded, and the logs of a table are applied in their order.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from cordwood.wal.formats.pending import why_broken_off
from cordwood.wal.reading.reader import LogReader, TableEntries

CHANNEL_BYTES_MAX: Final = 2 * 1024 * 1024
"""What waits for one table; one write may always wait."""
CHANNELS_BYTES_MAX: Final = 64 * 1024 * 1024
"""What waits for all tables together: then the scan waits until something is applied."""

_NOWHERE: Final = sys.maxsize

Apply: TypeAlias = Callable[[int, TableEntries], Awaitable[None]]
Scan: TypeAlias = "Callable[[int | None], LogReader]"
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
    """What waits for one table."""

    __slots__ = ("active", "after", "parked", "size", "table", "waiting")

    def __init__(self, table: int) -> None:
        self.table = table
        self.waiting: deque[TableEntries] = deque()
        self.size = 0
        self.active = False  # whether something waits, or is being applied
        self.parked: int | None = None  # the offset of the first write that found it full
        self.after = -1  # what it takes lies behind this offset: the last one that it took, or no place at all

    def park(self, offset: int) -> None:
        """R18: it is full. It takes nothing more of this scan, and a further one begins for it there."""
        self.parked = offset
        self.after = _NOWHERE

    def resume(self, offset: int) -> None:
        self.parked = None
        self.after = offset - 1

    def fail(self) -> None:
        """The rest is left out."""
        self.waiting.clear()
        self.parked = None
        self.after = _NOWHERE

    def copy_views(self, start: int) -> None:
        """What was read from that offset on and goes on waiting: a view of a few bytes would keep all of it alive."""
        waiting = self.waiting
        for place in range(-1, -len(waiting) - 1, -1):
            entries = waiting[place]
            if entries.offset < start:
                break
            waiting[place] = entries.copied()


class Recovery:
    """One call of `recover`."""

    def __init__(self, scan: Scan, apply: Apply, tables: Collection[int] | None) -> None:
        self.report = RecoveryReport()
        self._scan = scan
        self._apply = apply
        self._tables = None if tables is None else frozenset(tables)
        self._channels: dict[int, _Channel] = {}
        self._size = 0
        self._ready: deque[_Channel] = deque()  # those with something to do, each at most once: bounded
        self._resting: list[asyncio.Future[None]] = []
        self._waking = False  # one is on its way, and wakes the next if there is more than it can do
        self._progress: asyncio.Event | None = None
        self._ended = False
        self._broken: BaseException | None = None

    async def run(self, concurrency: int) -> RecoveryReport:
        workers = [asyncio.create_task(self._work(), name="cordwood-recover") for _ in range(concurrency)]
        for worker in workers:
            worker.add_done_callback(self._on_worker_end)
        try:
            await self._scan_all()
            await self._until(lambda: not any(channel.active for channel in self._channels.values()))
        finally:
            self._ended = True
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        return self.report

    async def _scan_all(self) -> None:
        self.report.skipped += await self._distribute(None, self._tables)
        while parked := {channel for channel in self._channels.values() if channel.parked is not None}:
            await self._until(lambda parked=parked: not all(channel.active for channel in parked))  # type: ignore[misc]
            # One that has nothing to do because it failed is not parked any more.
            again = {
                channel.table: channel.parked for channel in parked if channel.parked is not None and not channel.active
            }
            for table, offset in again.items():
                self._channels[table].resume(offset)
            if again:
                await self._distribute(min(again.values()), again.keys())

    async def _distribute(self, start: int | None, only: Collection[int] | None) -> int:
        """Read on from there, and offer what is of these tables; how many logs were read over."""
        async with self._scan(start) as reader:
            while True:
                self._check()
                try:
                    batch = await reader.batch(only)
                except StopAsyncIteration:
                    return reader.skipped
                rest = iter(batch)
                while not self._offer(rest):
                    await self._until(lambda: self._size < CHANNELS_BYTES_MAX)
                await asyncio.sleep(0)  # what can be applied at once, is, and needs no copy
                if self._size and batch:
                    for table in {entries.table for entries in batch}:
                        self._channels[table].copy_views(batch[0].offset)

    def _offer(self, batch: Iterator[TableEntries]) -> bool:
        """Put writes into the channels of their tables; False where too much waits, and there may be more of them."""
        channels, ready, size = self._channels, self._ready, self._size
        for entries in batch:
            channel = channels.get(entries.table)
            if channel is None:
                channel = channels[entries.table] = _Channel(entries.table)
            if entries.offset <= channel.after:
                continue
            weight = entries.weight
            waiting = channel.waiting
            if waiting and channel.size + weight > CHANNEL_BYTES_MAX:
                channel.park(entries.offset)
                continue
            if not channel.active:
                channel.active = True
                ready.append(channel)
            waiting.append(entries)
            channel.after = entries.offset
            channel.size += weight
            size += weight
            if size >= CHANNELS_BYTES_MAX:
                break
        self._size = size
        if ready and not self._waking:
            self._wake_one()
        return size < CHANNELS_BYTES_MAX

    def _wake_one(self) -> None:
        """An `apply` that waits for nothing needs one worker, and waking all of them would cost more than it does."""
        while self._resting:
            rest = self._resting.pop()
            if not rest.done():  # else its worker was cancelled
                self._waking = True
                rest.set_result(None)
                return

    async def _work(self) -> None:
        ready, report, apply = self._ready, self.report, self._apply
        loop = asyncio.get_running_loop()
        while not self._ended:  # looked at each time: an `apply` may keep to itself that its worker was cancelled
            while not ready:
                rest: asyncio.Future[None] = loop.create_future()
                self._resting.append(rest)
                await rest
                self._waking = False
            channel = ready.popleft()
            if ready and not self._waking:
                self._wake_one()
            waiting = channel.waiting
            entries = waiting.popleft()
            weight = entries.weight
            try:
                await apply(channel.table, entries)
                count = len(entries.sequences)
                report.applied += count
                report.bytes += weight - 4 * (count + 1)  # less what their bounds weigh
            except (Exception, asyncio.CancelledError) as error:
                if self._ended:
                    raise
                # If it was cancelled: something of its own that `apply` awaited was.
                report.failed[channel.table] = error
                channel.fail()
                weight = channel.size
            channel.size -= weight
            self._size -= weight
            if waiting:
                ready.append(channel)  # behind the others: each gets its turn
            else:
                channel.active = False
            if self._progress is not None:
                self._progress.set()

    def _on_worker_end(self, worker: asyncio.Task[None]) -> None:
        """No failure of a table ends a worker: somebody wants all of it to end, and nobody sees to what it had."""
        if not self._ended and self._broken is None:
            self._broken = why_broken_off(worker)
            if self._progress is not None:
                self._progress.set()

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Wait until that holds, which it may after each write that is applied."""
        self._check()  # who ended it all before nobody waited here makes no more progress
        self._progress = progress = asyncio.Event()
        while not holds():
            progress.clear()
            await progress.wait()
            self._check()
        self._progress = None

    def _check(self) -> None:
        if self._broken is not None:
            raise self._broken
