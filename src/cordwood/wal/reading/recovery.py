"""Recovering tables: scans of a region that one task drives, and workers that apply the entries of many tables at once.

A table that is slow or fails holds back none of the others, memory is bounded, and the entries of a table are applied
in their order. `scan` says how: each table has a channel.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from cordwood.wal.formats.pending import why_broken_off
from cordwood.wal.reading.reader import TableEntries
from cordwood.wal.reading.scan import Channel, ChannelState, Scan, Scans, StartScan

CHANNELS_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes that wait for all tables together: then the scan waits until a worker has applied some."""

Apply: TypeAlias = Callable[[int, TableEntries], Awaitable[None]]


@dataclass(slots=True)
class RecoveryReport:
    """The result of a recovery.

    >>> RecoveryReport(applied=3, bytes=12).failed
    {}
    """

    applied: int = 0
    """Entries that were applied."""
    skipped: int = 0
    """Entries that were read and not applied: of tables that were not asked for, or marked deleted."""
    bytes: int = 0
    """Bytes of the payloads that were applied."""
    failed: dict[int, BaseException] = field(default_factory=dict)
    """The exceptions that `apply` raised, by table: the rest of such a table was left out."""


class Recovery:
    """One call of `recover`."""

    def __init__(
        self, start_scan: StartScan, start: int, stop: int, apply: Apply, tables: Collection[int] | None
    ) -> None:
        """Applies the writes at the offsets [start, stop)."""
        self.report = RecoveryReport()
        self._scans = Scans(start_scan)
        self._start = start
        self._stop = stop
        self._apply = apply
        self._tables = None if tables is None else frozenset(tables)
        self._channels: dict[int, Channel] = {}
        self._size = 0
        self._ready: deque[Channel] = deque()  # those with something to apply, each at most once: bounded
        self._resting: list[asyncio.Future[None]] = []
        self._waking = False  # a worker is about to run, and wakes the next if there is more than it can do
        self._progress: asyncio.Event | None = None
        self._ended = False
        self._broken: BaseException | None = None

    async def run(self, concurrency: int) -> RecoveryReport:
        workers = [asyncio.create_task(self._work(), name="cordwood-recover") for _ in range(concurrency)]
        for worker in workers:
            worker.add_done_callback(self._on_worker_end)
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
        first = Scan(self._scans, self._start, self._stop)
        first.open_channels = lambda table: self._open_channels(first, table)
        await self._drive(first, self._tables)
        self.report.skipped += first.reader.skipped
        while parked := [each for each in self._channels.values() if each.state is ChannelState.PARKED]:
            await self._until(lambda parked=parked: any(each.idle for each in parked))  # type: ignore[misc]
            # One of them may have failed meanwhile, and is not parked any more.
            drained = [each for each in parked if each.idle and each.state is ChannelState.PARKED]
            for channel in drained:
                self._scans.wait(channel)
            if drained:
                further = self._scans.place(drained[0])
                await self._drive(further, further.channels)

    async def _drive(self, scan: Scan, only: Collection[int] | None) -> None:
        """Read a scan until it ends, or until all of these tables are parked."""
        try:
            while only is not scan.channels or scan.channels:
                self._check()
                batch = await scan.read(only)
                if batch is None:
                    return
                rest = iter(batch)
                while not self._offer(scan, rest):
                    await self._until(lambda: self._size < CHANNELS_BYTES_MAX)
                await asyncio.sleep(0)  # entries that can be applied at once need no copy
                if self._size and batch:
                    scan.copy_views(batch)
        finally:
            await scan.close()

    def _offer(self, scan: Scan, batch: Iterator[TableEntries]) -> bool:
        """Put writes into the channels of their tables; False where too much waits, and there may be more of them."""
        self._size += scan.offer(batch, CHANNELS_BYTES_MAX - self._size)
        if self._ready and not self._waking:
            self._wake_one()
        return self._size < CHANNELS_BYTES_MAX

    def _open_channels(self, scan: Scan, table: int) -> tuple[Channel, ...]:
        if table in self._channels:
            return ()  # it is parked, or has failed
        channel = self._channels[table] = Channel(table, self._start, self._stop, ready=self._ready)
        scan.join(channel)
        return (channel,)

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
            waiting = channel.entries
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
                # A CancelledError here is of something that `apply` awaited.
                report.failed[channel.table] = error
                waiting.clear()
                channel.leave(ChannelState.FAILED)
                weight = channel.size
            channel.size -= weight
            self._size -= weight
            if waiting:
                ready.append(channel)  # behind the others: each gets its turn
            else:
                channel.idle = True
            if self._progress is not None:
                self._progress.set()

    def _on_worker_end(self, worker: asyncio.Task[None]) -> None:
        """Break off the recovery: a table's failure ends no worker, so the program is ending."""
        if not self._ended and self._broken is None:
            self._broken = why_broken_off(worker)
            if self._progress is not None:
                self._progress.set()

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Wait until the condition holds. It is checked after each write that is applied."""
        self._check()  # a worker that ended before this call wakes nobody
        self._progress = progress = asyncio.Event()
        while not holds():
            progress.clear()
            await progress.wait()
            self._check()
        self._progress = None

    def _check(self) -> None:
        if self._broken is not None:
            raise self._broken
