"""The scan scheduler without a log: which state a channel is in, and who starts, joins and leaves which scan."""

import pytest

from cordwood.records import BinaryColumn
from cordwood.wal.reading import scan as scanning
from cordwood.wal.reading.reader import LogReader, TableEntries
from cordwood.wal.reading.scan import Channel, ChannelState, Scan, Scans, Wanted

STOP = 100
WEIGHT = 10
"""Of each write here: two bytes, and two bounds of four."""


class _Reader(LogReader):
    """Gives out one write a batch: of tables 1 and 2 by turns, one at each offset."""

    def __init__(self, start: int, stop: int) -> None:
        self.offset = start
        self.closed = False
        self._end = stop

    @property
    def ordered(self) -> bool:
        return True

    async def batch(self, only: object) -> list[TableEntries]:
        if self.offset >= self._end:
            raise StopAsyncIteration
        self.offset += 1
        return [write(self.offset - 1)]

    async def close(self) -> None:
        self.closed = True


def write(offset: int) -> TableEntries:
    number = offset // 2 + 1
    return TableEntries.of(1 + offset % 2, range(number, number + 1), BinaryColumn.of([b"ab"]), offset)


def make_scans() -> tuple[Scans, list[_Reader]]:
    readers: list[_Reader] = []

    def start(start: int, stop: int) -> _Reader:
        readers.append(_Reader(start, stop))
        return readers[-1]

    return Scans(start), readers


def place(scans: Scans, table: int = 1, start: int = 0, stop: int = STOP, wanted: Wanted | None = None) -> Channel:
    channel = Channel(table, start, stop, wanted)
    scans.wait(channel)
    scans.place(channel)
    return channel


async def drive(scan: Scan, batches: int) -> None:
    for _ in range(batches):
        batch = await scan.read(scan.channels)
        if batch is not None:
            scan.offer(iter(batch))


def offsets(channel: Channel) -> list[int]:
    return [entries.offset for entries in channel.entries]


async def test_a_channel_waits_runs_and_ends_with_its_scan() -> None:
    scans, readers = make_scans()
    channel = Channel(1, 0, 4)
    assert channel.state is ChannelState.WAITING
    scans.wait(channel)
    scan = scans.place(channel)
    assert (channel.state, channel.scan) == (ChannelState.RUNNING, scan)
    await drive(scan, 5)
    assert (channel.state, channel.scan) == (ChannelState.ENDED, None)
    assert offsets(channel) == [0, 2]
    assert readers[0].closed
    assert not scans.running


async def test_r18_a_full_channel_parks_at_the_write_that_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "CHANNEL_BYTES_MAX", 2 * WEIGHT)
    scans, _ = make_scans()
    full, other = place(scans, 1), place(scans, 2)
    scan = full.scan
    assert scan is not None
    assert other.scan is scan, "both are on one scan"
    await drive(scan, 2)
    other.entries.clear()  # its consumer takes what comes
    other.size = 0
    await drive(scan, 4)
    assert (full.state, full.start, offsets(full)) == (ChannelState.PARKED, 4, [0, 2])
    assert (other.state, offsets(other)) == (ChannelState.RUNNING, [3, 5])
    full.entries.clear()
    full.size = 0
    scans.wait(full)
    further = scans.place(full)
    assert further is not scan, "that one has passed its offset"
    await drive(further, 1)
    assert offsets(full) == [4], "nothing twice, nothing left out"


async def test_a_channel_joins_a_scan_that_has_not_passed_it() -> None:
    scans, readers = make_scans()
    first = place(scans, start=0)
    assert first.scan is not None
    await drive(first.scan, 10)
    assert place(scans, 2, start=11).scan is first.scan
    assert place(scans, 2, start=9).scan is not first.scan
    assert place(scans, 2, start=20, stop=STOP + 1).scan is not first.scan, "it ends too early"
    assert [reader.offset for reader in readers] == [10, 9, 20]


async def test_a_further_scan_takes_all_channels_that_wait() -> None:
    scans, readers = make_scans()
    early, late, closed = Channel(1, 5, STOP), Channel(2, 8, STOP), Channel(1, 2, STOP)
    for channel in (late, early, closed):
        scans.wait(channel)
    closed.leave(ChannelState.ENDED)
    scan = scans.place(late)
    assert (early.scan, late.scan, closed.scan) == (scan, scan, None)
    assert [reader.offset for reader in readers] == [5], "from the first place of those that are open"


@pytest.mark.parametrize(
    ("wanted", "stop", "taken", "state"),
    [
        (None, STOP, [0, 2, 4], ChannelState.RUNNING),
        ((2, None), STOP, [2, 4], ChannelState.RUNNING),
        ((1, 2), STOP, [0], ChannelState.ENDED),
        ((1, None), 3, [0, 2], ChannelState.ENDED),
    ],
)
async def test_a_channel_takes_what_it_wants_and_ends_when_it_has_it(
    wanted: Wanted | None, stop: int, taken: list[int], state: ChannelState
) -> None:
    scans, _ = make_scans()
    scan = Scan(scans, 0, STOP)
    channel = Channel(1, 0, stop, wanted)
    scan.join(channel)
    await drive(scan, 5)
    assert (offsets(channel), channel.state) == (taken, state)


async def test_what_still_waits_is_copied_and_what_is_taken_at_once_is_not() -> None:
    scans, _ = make_scans()
    scan = Scan(scans, 0, STOP)
    asks, waits, left = (Channel(1, 0, STOP, (1, None)) for _ in range(3))
    for channel in (asks, waits, left):
        scan.join(channel)
    batch = [write(0)]
    scan.offer(iter(batch))
    left.leave(ChannelState.PARKED)
    scan.copy_views(batch, but=asks)
    same = [channel.entries[0] is batch[0] for channel in (asks, waits, left)]
    assert same == [True, False, False]


async def test_an_error_leaves_the_channels_waiting_at_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    scans, readers = make_scans()
    channel = place(scans)
    scan = channel.scan
    assert scan is not None
    await drive(scan, 3)
    readers[0].offset = STOP

    async def fail(only: object) -> list[TableEntries]:
        raise OSError("no disk")

    monkeypatch.setattr(readers[0], "batch", fail)
    with pytest.raises(OSError, match="no disk"):
        await scan.read(None)
    assert (channel.state, channel.start, channel.after, readers[0].closed) == (ChannelState.WAITING, 2, 2, True)
    assert not scans.running
