"""The scan scheduler: `recover` and readers of single tables share it (R18).

A *channel* holds the entries that wait for one consumer: a table of a recovery, or a reader of one table. A *scan* is
one way through the data log, and any number of channels take part in it.

    WAITING --joins a scan--> RUNNING --is full--> PARKED --is empty, and asks for more--> WAITING
    RUNNING --has all that it wants, or is closed--> ENDED
    any state --its consumer fails--> FAILED

- A scan offers each write of a batch to the running channels of its table.
- A channel holds `CHANNEL_BYTES_MAX`, or one write. A full one parks at the offset that it refuses, and the scan
  continues without it.
- Entries are views of the batch. The scan copies those that still wait when their consumers have had their turn.
- A parked channel continues with a scan that has not passed its offset. If there is none, a further scan starts for
  all channels that wait.

No task runs for a scan: its driver asks for each batch. `recovery` drives one scan after the other and has workers that
apply the entries; in `shared_scan` a reader that has nothing left asks for the next batch. All of it runs on one event
loop and takes no lock, except `Scan.turn`, by which several drivers read one scan in turns.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from cordwood.wal.reading.reader import LogReader, TableEntries

CHANNEL_BYTES_MAX: Final = 2 * 1024 * 1024
"""Bytes that wait in one channel; one write may always wait."""

StartScan: TypeAlias = Callable[[int, int], LogReader]
"""Reads from an offset at which a write counts, or the known part of the log ends, to below another offset."""
Wanted: TypeAlias = tuple[int, int | None]
"""The sequence numbers that a channel takes: the first, and the one below which it ends."""


class ChannelState(Enum):
    WAITING = "waiting for a scan"
    RUNNING = "on a scan"
    PARKED = "full: its scan continued without it"
    ENDED = "complete, or closed"
    FAILED = "its consumer failed"


@dataclass(slots=True, eq=False)
class Channel:
    """Entries of one table that wait for their consumer."""

    table: int
    start: int
    """The offset at which a scan for it starts: of the last write that it took, or of the first that it refused."""
    stop: int | None
    """The offset at which it ends; None until that is known."""
    wanted: Wanted | None = None
    """Without it the channel takes whole writes."""
    ready: deque[Channel] | None = None
    """The queue for its consumer, where that does not come by itself."""
    state: ChannelState = ChannelState.WAITING
    scan: Scan | None = None
    entries: deque[TableEntries] = field(default_factory=deque)
    size: int = 0
    after: int = -1
    """It has taken its entries up to this offset."""
    idle: bool = True
    """Whether its consumer has nothing to do."""

    @property
    def ended(self) -> bool:
        return self.state is ChannelState.ENDED or (self.stop is not None and self.start >= self.stop)

    def offer(self, entries: TableEntries) -> int:
        """Take the wanted part, or park; return the bytes that this adds."""
        offset = entries.offset
        if offset <= self.after:
            return 0
        if self.wanted is not None:
            part = self._part_of(entries, *self.wanted)
            if part is None:
                return 0
            entries = part
        waiting, weight = self.entries, entries.weight
        if waiting and self.size + weight > CHANNEL_BYTES_MAX:
            self.start = offset
            self.leave(ChannelState.PARKED)  # R18
            return 0
        waiting.append(entries)
        self.after = offset
        self.size += weight
        if self.idle:
            self.idle = False
            if self.ready is not None:
                self.ready.append(self)
        return weight

    def leave(self, state: ChannelState) -> None:
        """Take nothing more of the scan, if it is on one."""
        self.state = state
        self.start = max(self.start, self.after)
        if self.scan is not None:
            self.scan.remove(self)

    def copy_views(self, start: int) -> None:
        """Copy the entries that were read from that offset on: a view of a few bytes would keep its batch alive."""
        for place in range(-1, -len(self.entries) - 1, -1):
            entries = self.entries[place]
            if entries.offset < start:
                break
            self.entries[place] = entries.copy()

    def _part_of(self, entries: TableEntries, first: int, until: int | None) -> TableEntries | None:
        assert self.scan is not None
        part = None
        if self.stop is not None and entries.offset >= self.stop:
            self.leave(ChannelState.ENDED)
        else:
            part = entries.within(first, until)
            if until is not None and entries.sequences.start >= until and self.scan.reader.ordered:
                self.leave(ChannelState.ENDED)
        return part


class Scans:
    """The scans that are under way, and the channels that wait for one."""

    def __init__(self, start_scan: StartScan) -> None:
        self.start_scan = start_scan
        self.running: dict[Scan, None] = {}
        self.waiting: dict[Channel, None] = {}  # in the order of their coming

    def wait(self, channel: Channel) -> None:
        """Have the channel take part in the next scan that starts; `place` starts one."""
        channel.state = ChannelState.WAITING
        self.waiting[channel] = None

    def place(self, channel: Channel) -> Scan:
        """Put a waiting channel on a scan that has not passed it, or on a further one with all others that wait."""
        stop = channel.stop
        assert stop is not None
        for scan in self.running:
            if scan.reader.offset <= channel.start and scan.stop >= stop:
                scan.join(channel)
                return scan
        together = [each for each in self.waiting if not each.ended and each.stop is not None and each.stop <= stop]
        scan = Scan(self, min(each.start for each in together), stop)
        for each in together:
            scan.join(each)
        return scan


class Scan:
    """One way through the log, and the channels that take part in it."""

    def __init__(self, scans: Scans, start: int, stop: int) -> None:
        self.reader = scans.start_scan(start, stop)
        self.stop = stop
        self.channels: dict[int, tuple[Channel, ...]] = {}  # the running ones, by table
        self.turn = asyncio.Lock()
        self.open_channels: Callable[[int], tuple[Channel, ...]] = lambda table: ()
        """Called for a write of a table that has no channel here: one may join."""
        self._left: list[Channel] = []  # channels that left since the last batch: views of it may wait in them
        self._scans = scans
        scans.running[self] = None

    def join(self, channel: Channel) -> None:
        self._scans.waiting.pop(channel, None)
        channel.scan = self
        channel.state = ChannelState.RUNNING
        self.channels[channel.table] = (*self.channels.get(channel.table, ()), channel)

    def remove(self, channel: Channel) -> None:
        channel.scan = None
        self._left.append(channel)
        others = tuple(each for each in self.channels.pop(channel.table) if each is not channel)
        if others:
            self.channels[channel.table] = others

    async def read(self, only: Collection[int] | None) -> Sequence[TableEntries] | None:
        """Return the next batch, of these tables or of all; None at the end. A call that is cancelled loses nothing.

        An error is raised in the driver that meets it: the channels wait for another scan.
        """
        try:
            return await self.reader.batch(only)
        except StopAsyncIteration:
            await self.close()
            return None
        except Exception:
            await self.close(ChannelState.WAITING)
            raise

    def offer(self, batch: Iterator[TableEntries], room: int = sys.maxsize) -> int:
        """Offer writes until the channels have taken so many bytes; return how many they took."""
        channels_of, taken = self.channels.get, 0
        for entries in batch:
            for channel in channels_of(entries.table) or self.open_channels(entries.table):
                taken += channel.offer(entries)
            if taken >= room:
                break
        return taken

    def copy_views(self, batch: Sequence[TableEntries], but: Channel | None = None) -> None:
        """Copy what stays of a batch; `but`: the channel whose consumer takes its entries at once."""
        stayed = [each for table in {entries.table for entries in batch} for each in self.channels.get(table, ())]
        for channel in (*stayed, *self._left):
            if channel is not but:
                channel.copy_views(batch[0].offset)
        self._left.clear()

    async def close(self, state: ChannelState = ChannelState.ENDED) -> None:
        """End it for the channels that it has; they are in this state then."""
        self._scans.running.pop(self, None)
        for channel in [each for channels in self.channels.values() for each in channels]:
            channel.leave(state)
        await self.reader.close()
