"""Readers of single tables that share scans: a reader that has nothing left reads the next batch for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from cordwood.wal.reading.reader import RegionReader, TableEntries
from cordwood.wal.reading.scan import Channel, ChannelState, Scan, Scans, StartScan


class TableReads:
    """The readers of single tables of one region that are open."""

    def __init__(self, start_scan: StartScan, find_end: Callable[[], Awaitable[int]]) -> None:
        self._scans = Scans(start_scan)
        self._find_end = find_end
        self._looking = asyncio.Lock()

    async def scan_for(self, channel: Channel) -> None:
        """Have the channel take part in a scan that has not passed its place."""
        self._scans.wait(channel)
        try:
            await asyncio.sleep(0)  # readers that are asked in the same turn of the loop begin together
            if channel.stop is None:
                await self._look_for_the_end()
            if channel.scan is None and not channel.ended:
                self._scans.place(channel)
        finally:
            self._scans.waiting.pop(channel, None)

    async def _look_for_the_end(self) -> None:
        """One look for all that wait: with the same end they can share a scan."""
        async with self._looking:
            if any(each.stop is None for each in self._scans.waiting):
                end = await self._find_end()
                for each in self._scans.waiting:
                    if each.stop is None:
                        each.stop = end


class TableReader(RegionReader):
    """The entries of one table."""

    def __init__(self, reads: TableReads, channel: Channel) -> None:
        self._reads = reads
        self._channel = channel

    def __repr__(self) -> str:
        return f"<cordwood.RegionReader of table {self._channel.table}{' at its end' if self._channel.ended else ''}>"

    async def __anext__(self) -> TableEntries:
        channel = self._channel
        while not channel.entries:
            if channel.ended:
                raise StopAsyncIteration
            scan = channel.scan
            if scan is None:
                await self._reads.scan_for(channel)
                continue
            async with scan.turn:
                if not channel.entries and channel.scan is scan:
                    await self._read_on(scan)
        entries = channel.entries.popleft()
        channel.size -= entries.weight
        return entries

    async def close(self) -> None:
        channel = self._channel
        channel.entries.clear()
        scan = channel.scan
        channel.leave(ChannelState.ENDED)
        if scan is not None and not scan.channels:
            await scan.close()

    async def _read_on(self, scan: Scan) -> None:
        """Read one batch for all channels of the scan."""
        batch = await scan.read(scan.channels)
        if batch:
            scan.offer(iter(batch))
            scan.copy_views(batch, but=self._channel)
        if not scan.channels:
            await scan.close()
