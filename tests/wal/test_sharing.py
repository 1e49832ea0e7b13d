"""Readers of several tables at once: one way through the log for all of them, and none waits for another one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import cordwood
from cordwood import Client, Fenced, Reader, Region, StoredBatch, TableEntries, Trimmed, Unavailable
from cordwood.wal import RegionReader
from cordwood.wal.reading import scan
from cordwood.wal.reading.reader import Place
from tests.support.wal.region_internals import data_of


@pytest.fixture
async def region(cw: Client) -> Region:
    """20 tables of 10 writes each, which interleave."""
    region = await cw.wal("metrics").region(7)
    for number in range(10):
        await asyncio.gather(*(region.write(table, written(table, number)) for table in range(20)))
    return region


def written(table: int, number: int) -> list[bytes]:
    return [b"%d: %d, %d" % (table, number, place) for place in range(3)]


def all_of(table: int) -> list[bytes]:
    return [payload for number in range(10) for payload in written(table, number)]


async def payloads_of(reader: RegionReader) -> list[bytes | None]:
    return [payload async for entries in reader for payload in entries.payloads]


def counted(region: Region, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int | None, int | None]]:
    """Where each reading of the log begins and ends, from now on."""
    log = data_of(region).log
    begun = []
    read = log.read

    def counting(start: int | None = None, stop: int | None = None, follow: bool = False) -> Any:
        begun.append((start, stop))
        return read(start, stop, follow)

    monkeypatch.setattr(log, "read", counting)
    return begun


async def test_readers_of_several_tables_share_one_reading_of_the_log(
    region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = counted(region, monkeypatch)
    found = await asyncio.gather(*(payloads_of(region.read(table)) for table in reversed(range(20))))
    assert found == [all_of(table) for table in reversed(range(20))]
    assert len(begun) == 1


async def test_a_table_may_have_several_readers_each_with_its_own_part(
    region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = counted(region, monkeypatch)
    found = await asyncio.gather(
        payloads_of(region.read(5, start=7)),
        payloads_of(region.read(5, start=7, stop=9)),
        payloads_of(region.read(6, stop=4)),
        payloads_of(region.read(99)),
    )
    assert list(found) == [all_of(5)[6:], all_of(5)[6:8], all_of(6)[:3], []]
    assert len(begun) == 1


@pytest.mark.parametrize("engine", ["embedded"])  # on Kafka the first batch holds all of it
async def test_one_that_comes_later_joins_if_its_place_was_not_passed(
    region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = counted(region, monkeypatch)
    early = region.read(3)
    first = await anext(early)
    assert await payloads_of(region.read(4, start=28)) == all_of(4)[27:]
    assert len(begun) == 1
    assert await payloads_of(region.read(4)) == all_of(4), "its first logs were passed, so it reads for itself"
    assert [*first.payloads, *await payloads_of(early)] == all_of(3)
    assert len(begun) == 2


async def test_one_that_does_not_take_its_logs_holds_back_none(region: Region, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "CHANNEL_BYTES_MAX", 40)
    slow = region.read(0)
    first, *others = await asyncio.gather(anext(slow), *(payloads_of(region.read(table)) for table in range(1, 20)))
    assert isinstance(first, TableEntries)
    assert others == [all_of(table) for table in range(1, 20)]
    assert [*first.payloads, *await payloads_of(slow)] == all_of(0), "it goes on where it was parked"


async def test_one_that_is_closed_or_cancelled_takes_nothing_from_the_others(region: Region) -> None:
    closed, cancelled, last = (region.read(table) for table in range(3))
    step = asyncio.create_task(anext(cancelled))
    await asyncio.gather(anext(closed), asyncio.sleep(0))
    step.cancel()
    await closed.close()
    with pytest.raises(StopAsyncIteration):
        await anext(closed)
    assert await payloads_of(last) == all_of(2)
    assert (await payloads_of(cancelled))[-1] == all_of(1)[-1]


async def trimmed_under(region: Region) -> None:
    """All open readers begin in the trimmed part."""
    await asyncio.gather(*(region.mark_deleted(table, through=15) for table in range(20)))
    await region.clean()


class Closing(Reader):
    """A reader that does something before it closes."""

    def __init__(self, reader: Reader, before: Callable[[], Awaitable[None]]) -> None:
        self._reader = reader
        self._before = before

    async def __anext__(self) -> StoredBatch:
        return await anext(self._reader)

    async def close(self) -> None:
        await self._before()
        await self._reader.close()


def stopped_at(region: Region, step: str, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """The first reader that continues after a trim hangs at this step, and signals that."""
    reached = asyncio.Event()
    log = data_of(region).log
    read, start_over = log.read, region._start_over

    async def stay() -> None:
        if not reached.is_set():
            reached.set()
            await asyncio.Event().wait()

    def reading(start: int | None = None, stop: int | None = None, follow: bool = False) -> Reader:
        return Closing(read(start, stop, follow), stay)

    async def starting_over(trimmed: Trimmed) -> Place:
        await stay()
        return await start_over(trimmed)

    if step == "it closes its reader":
        monkeypatch.setattr(log, "read", reading)
    else:
        monkeypatch.setattr(region, "_start_over", starting_over)
    return reached


STEPS = ["it looks where to go on", "it closes its reader"]


@pytest.mark.parametrize("step", STEPS)
async def test_a_reader_cancelled_during_a_trim_ends_none_of_the_others(
    region: Region, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    reached = stopped_at(region, step, monkeypatch)
    cancelled, other = region.read(0), region.read(1)
    await trimmed_under(region)
    first, rest = asyncio.create_task(anext(cancelled)), asyncio.create_task(payloads_of(other))
    await reached.wait()
    first.cancel()
    assert await rest == all_of(1)[15:]
    assert await payloads_of(cancelled) == all_of(0)[15:], "nor does it itself, when it is asked again"


@pytest.mark.parametrize("step", STEPS)
async def test_a_replay_that_was_cancelled_during_a_trim_continues(
    region: Region, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    reached = stopped_at(region, step, monkeypatch)
    replay = region.replay()
    await trimmed_under(region)
    first = asyncio.create_task(anext(replay))
    await reached.wait()
    first.cancel()
    found = await payloads_of(replay)
    assert len(found) == 20 * 15
    assert set(found) == {payload for table in range(20) for payload in all_of(table)[15:]}


async def test_an_error_is_of_the_one_that_read_and_the_others_go_on(
    region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = data_of(region).log
    read = log.read
    broken = iter([True])

    def breaking(start: int | None = None, stop: int | None = None, follow: bool = False) -> Any:
        reader = read(start, stop, follow)
        if next(broken, False):

            async def fail() -> None:
                raise Unavailable("no disk", reason="failed")

            monkeypatch.setattr(type(reader), "__anext__", lambda self: fail() if self is reader else step(self))
        return reader

    step = type(read()).__anext__
    monkeypatch.setattr(log, "read", breaking)
    results = await asyncio.gather(*(payloads_of(region.read(table)) for table in range(5)), return_exceptions=True)
    assert sum(isinstance(result, Unavailable) for result in results) == 1
    assert [result for result in results if not isinstance(result, BaseException)] == [
        all_of(table) for table, result in enumerate(results) if not isinstance(result, BaseException)
    ]


async def test_what_is_written_after_the_call_is_not_given_out(region: Region) -> None:
    before = region.read(0)
    await region.write(0, [b"later"])
    after = region.read(0)
    found = await asyncio.gather(payloads_of(before), payloads_of(after))
    assert list(found) == [all_of(0), [*all_of(0), b"later"]]


async def test_readers_of_a_region_share_a_scan_and_see_later_writes(
    region: Region, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cordwood.connect(url, read_only=True) as cw, cw.wal("metrics").region(7) as beside:
        for table in (0, 99):  # one that the opening knows, and one that is new
            await region.write(table, [b"since"])
        begun = counted(beside, monkeypatch)
        tables = [99, *range(20)]
        found = await asyncio.gather(*(payloads_of(beside.read(table)) for table in tables))
        assert found == [[b"since"], [*all_of(0), b"since"], *map(all_of, range(1, 20))]
        assert len(begun) == 1
        await region.write(99, [b"again"])
        assert await payloads_of(beside.read(99, start=2)) == [b"again"]


async def test_readers_of_a_fenced_owner_see_what_the_newer_one_writes(
    region: Region, cw: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = await cw.wal("metrics").region(7)
    with pytest.raises(Fenced):
        await region.write(0, [b"zombie"])
    await newer.write(99, [b"newer"])
    begun = counted(region, monkeypatch)
    found = await asyncio.gather(payloads_of(region.read(99)), payloads_of(region.read(0)))
    assert list(found) == [[b"newer"], all_of(0)]
    assert len(begun) == 1
