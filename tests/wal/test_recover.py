"""R18: one scan, split by table; nobody waits for the slow one, and memory stays bounded."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from mmap import mmap
from typing import Any

import pytest

from cordwood import Client, InvalidInput, Region, TableEntries, Unavailable
from cordwood.records import BinaryColumn
from cordwood.wal.reading import recovery, scan
from cordwood.wal.reading.reader import LogReader
from cordwood.wal.record import WriteRecord
from tests.support.wal.region_contents import by_table

TABLES = 20
STEPS = 15


async def filled(cw: Client) -> Region:
    """Tables that interleave, some with a write of their own now and then."""
    region = await cw.wal("metrics").region(7)
    for step in range(STEPS):
        writes = {table: [b"%d.%d" % (table, step)] * (1 + step % 3) for table in range(TABLES)}
        if step % 4 == 0:
            del writes[step]
        await region.write_many(writes)
    return region


class Applied:
    """What `apply` was given: by table, in order, no table twice at a time."""

    def __init__(self) -> None:
        self.tables: dict[int, dict[int, bytes]] = defaultdict(dict)
        self.running: set[int] = set()
        self.most = 0

    async def __call__(self, table: int, entries: TableEntries) -> None:
        assert table == entries.table
        assert table not in self.running, "two writes of a table at a time"
        self.running.add(table)
        self.most = max(self.most, len(self.running))
        await asyncio.sleep(0)
        self.running.discard(table)
        for number, payload in zip(entries.sequences, entries.payloads, strict=True):
            assert number > max(self.tables[table], default=0), "out of order, or twice"
            assert payload is not None
            self.tables[table][number] = payload


@pytest.mark.parametrize("channel_bytes", [1, 60, scan.CHANNEL_BYTES_MAX])
@pytest.mark.parametrize("all_bytes", [1, 200, recovery.CHANNELS_BYTES_MAX])
@pytest.mark.parametrize("concurrency", [1, 8])
async def test_every_table_gets_its_logs_in_order_however_small_the_channels(
    cw: Client, monkeypatch: pytest.MonkeyPatch, channel_bytes: int, all_bytes: int, concurrency: int
) -> None:
    monkeypatch.setattr(scan, "CHANNEL_BYTES_MAX", channel_bytes)
    monkeypatch.setattr(recovery, "CHANNELS_BYTES_MAX", all_bytes)
    region = await filled(cw)
    applied = Applied()
    report = await region.recover(applied, concurrency=concurrency)
    assert applied.tables == await by_table(region)
    entries = [payload for table in applied.tables.values() for payload in table.values()]
    assert (report.applied, report.bytes, report.skipped, report.failed) == (
        len(entries),
        sum(map(len, entries)),
        0,
        {},
    )
    assert applied.most <= concurrency


async def test_only_the_tables_that_were_asked_for_are_applied(cw: Client) -> None:
    region = await filled(cw)
    applied = Applied()
    report = await region.recover(applied, tables=[3, 5, 999])
    tables = await by_table(region)
    assert applied.tables == {3: tables[3], 5: tables[5]}
    assert report.skipped == sum(map(len, tables.values())) - report.applied


async def test_of_what_is_deleted_or_not_asked_for_no_payload_is_decoded(
    cw: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cw.wal("metrics").region(7) as region:
        for _ in range(10):
            await region.write_many({table: [b"x"] * 3 for table in (1, 2, 3)})
        await region.mark_deleted(1, through=30)
        await region.mark_deleted(2, through=15)
        decoded: list[tuple[int, int]] = []
        payloads: property = vars(WriteRecord)["payloads"]

        def noted(record: WriteRecord) -> BinaryColumn:
            decoded.append((record.table, record.first))
            column: BinaryColumn = payloads.__get__(record)
            return column

        monkeypatch.setattr(WriteRecord, "payloads", property(noted))
        report = await region.recover(Applied(), tables=[1, 2])
        assert decoded == [(2, first) for first in range(16, 31, 3)]
        assert report.applied == 15


async def test_a_failing_table_is_reported_and_holds_back_none_of_the_others(cw: Client) -> None:
    region = await filled(cw)
    applied = Applied()

    async def apply(table: int, entries: TableEntries) -> None:
        if table == 3 and entries.sequences.start > 5:
            raise OSError("no memory")
        if table == 4:
            raise asyncio.CancelledError
        await applied(table, entries)

    report = await region.recover(apply)
    tables = await by_table(region)
    assert isinstance(report.failed.pop(3), OSError)
    assert isinstance(report.failed.pop(4), asyncio.CancelledError)
    assert report.failed == {}
    assert 0 < len(applied.tables.pop(3)) < len(tables[3]), "what came before its failure"
    assert applied.tables == {table: entries for table, entries in tables.items() if table not in (3, 4)}


@pytest.mark.parametrize("slow", [{0}, {0, 7, 19}])
async def test_r18_a_table_that_stands_still_holds_back_none_of_the_others(
    cw: Client, monkeypatch: pytest.MonkeyPatch, slow: set[int]
) -> None:
    # The slow tables continue when all others are complete: a scan that waited for them would never end.
    monkeypatch.setattr(scan, "CHANNEL_BYTES_MAX", 40)
    monkeypatch.setattr(recovery, "CHANNELS_BYTES_MAX", 400)
    region = await filled(cw)
    tables = await by_table(region)
    others = sum(len(entries) for table, entries in tables.items() if table not in slow)
    complete = asyncio.Event()
    applied = Applied()

    async def apply(table: int, entries: TableEntries) -> None:
        if table in slow:
            await complete.wait()
        await applied(table, entries)
        if sum(len(each) for each in applied.tables.values()) == others:
            complete.set()

    report = await region.recover(apply, concurrency=4)
    assert applied.tables == tables
    assert report.failed == {}


async def test_r18_a_parked_table_that_fails_leaves_another_parked_one_alone(
    cw: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "CHANNEL_BYTES_MAX", 40)
    region = await filled(cw)
    tables = await by_table(region)
    others = sum(len(entries) for table, entries in tables.items() if table not in (0, 7))
    scanned, failed = asyncio.Event(), asyncio.Event()
    applied = Applied()

    async def apply(table: int, entries: TableEntries) -> None:
        if table == 0:
            await scanned.wait()
            # The other one continues long after this failure is known.
            asyncio.get_running_loop().call_later(0.05, failed.set)
            raise OSError("no memory")
        if table == 7:
            await failed.wait()
        await applied(table, entries)
        if sum(len(each) for each in applied.tables.values()) == others:
            scanned.set()

    report = await region.recover(apply, concurrency=4)
    assert [*report.failed] == [0]
    del tables[0]
    assert applied.tables == tables


async def test_what_waits_stays_within_its_bounds(cw: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "CHANNELS_BYTES_MAX", 500)
    region = await filled(cw)
    sizes = []
    offer = recovery.Recovery._offer

    def watched(self: recovery.Recovery, on: scan.Scan, batch: Iterator[TableEntries]) -> bool:
        room = offer(self, on, batch)
        sizes.append(self._size)
        assert self._size == sum(channel.size for channel in self._channels.values())
        return room

    monkeypatch.setattr(recovery.Recovery, "_offer", watched)
    await region.recover(Applied())
    assert 500 <= max(sizes) < 500 + 100, "the write that passes the limit is the last one"


async def test_what_goes_on_waiting_is_no_view_of_what_was_read(cw: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    region = await filled(cw)
    scanned = asyncio.Event()
    drive = recovery.Recovery._drive

    async def watched(self: recovery.Recovery, *arguments: Any) -> None:
        await drive(self, *arguments)
        scanned.set()

    monkeypatch.setattr(recovery.Recovery, "_drive", watched)
    views = []

    async def apply(table: int, entries: TableEntries) -> None:
        await scanned.wait()
        _, _, data = entries.payloads.buffers()
        assert isinstance(data.obj, bytes | bytearray | memoryview | mmap)
        if len(data.obj) != entries.payloads.data_bytes:
            views.append(entries)

    report = await region.recover(apply, concurrency=3)
    assert report.failed == {}
    assert len(views) <= 3, "what was being applied when the batch was read, and nothing else, keeps the batch"


async def test_a_recovery_that_is_cancelled_leaves_nothing_running(cw: Client) -> None:
    region = await filled(cw)
    started = asyncio.Event()

    async def apply(table: int, entries: TableEntries) -> None:
        started.set()
        await asyncio.Event().wait()

    before = asyncio.all_tasks()
    recovering = asyncio.create_task(region.recover(apply))
    await started.wait()
    recovering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await recovering
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("ends_by", ["a cancellation", "an error of the scan"])
async def test_a_recovery_ends_also_where_apply_keeps_its_cancellation_to_itself(
    cw: Client, monkeypatch: pytest.MonkeyPatch, ends_by: str
) -> None:
    region = await filled(cw)
    started = asyncio.Event()

    async def apply(table: int, entries: TableEntries) -> None:
        started.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    async def fails(run: recovery.Recovery) -> None:
        await scan_all(run)
        await started.wait()
        raise Unavailable("no disk", reason="failed")

    scan_all = recovery.Recovery._scan_all
    if ends_by == "an error of the scan":
        monkeypatch.setattr(recovery.Recovery, "_scan_all", fails)
    before = asyncio.all_tasks()
    recovering = asyncio.create_task(region.recover(apply))
    await started.wait()
    if ends_by == "a cancellation":
        recovering.cancel()
    done, _ = await asyncio.wait([recovering], timeout=10)
    assert done
    with pytest.raises((asyncio.CancelledError, Unavailable)):
        await recovering
    assert asyncio.all_tasks() == before


class Stop(BaseException):
    """Ends a program, as its kind does."""


@pytest.mark.parametrize("all_bytes", [1, recovery.CHANNELS_BYTES_MAX])
async def test_what_is_no_failure_of_a_table_ends_the_recovery(
    cw: Client, monkeypatch: pytest.MonkeyPatch, all_bytes: int
) -> None:
    monkeypatch.setattr(recovery, "CHANNELS_BYTES_MAX", all_bytes)
    region = await filled(cw)

    async def apply(table: int, entries: TableEntries) -> None:
        await asyncio.sleep(0)
        if table == 3:
            raise Stop

    before = asyncio.all_tasks()
    recovering = asyncio.create_task(region.recover(apply))
    done, _ = await asyncio.wait([recovering], timeout=10)
    assert done
    with pytest.raises(Stop):
        await recovering
    assert asyncio.all_tasks() == before


async def test_an_error_ends_a_recovery_that_waits_for_the_end_of_the_log(
    cw: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    region = await filled(cw)
    at_the_end, stopped = asyncio.Event(), asyncio.Event()
    batch = LogReader.batch

    async def late_at_the_end(reader: LogReader, only: Collection[int] | None) -> Sequence[TableEntries]:
        try:
            return await batch(reader, only)
        except StopAsyncIteration:
            at_the_end.set()
            await stopped.wait()
            raise

    async def apply(table: int, entries: TableEntries) -> None:
        await at_the_end.wait()
        stopped.set()
        raise Stop

    monkeypatch.setattr(LogReader, "batch", late_at_the_end)
    recovering = asyncio.create_task(region.recover(apply, concurrency=1))
    done, _ = await asyncio.wait([recovering], timeout=10)
    assert done
    with pytest.raises(Stop):
        await recovering


@pytest.mark.parametrize("turns", [0, 1, 2])  # before they begin, and while they wait for the first batch
async def test_a_recovery_whose_tasks_are_cancelled_ends(cw: Client, turns: int) -> None:
    """Somebody ends all tasks of the loop but the one that waits here."""
    region = await filled(cw)

    async def apply(table: int, entries: TableEntries) -> None:
        await asyncio.sleep(0)

    workers: list[asyncio.Task[None]] = []
    before = asyncio.all_tasks()
    recovering = asyncio.create_task(region.recover(apply, concurrency=4))
    async with asyncio.timeout(10):
        while not workers:
            await asyncio.sleep(0)
            workers = [task for task in asyncio.all_tasks() if task.get_name() == "cordwood-recover"]
    for _ in range(turns):
        await asyncio.sleep(0)
    for worker in workers:
        worker.cancel()
    done, _ = await asyncio.wait([recovering], timeout=10)
    assert done
    with pytest.raises(asyncio.CancelledError):
        await recovering
    assert asyncio.all_tasks() == before


async def test_a_region_without_logs_is_recovered_at_once(cw: Client) -> None:
    region = await cw.wal("metrics").region(7)
    report = await region.recover(Applied())
    assert (report.applied, report.failed) == (0, {})
    with pytest.raises(InvalidInput, match="concurrency is 0"):
        await region.recover(Applied(), concurrency=0)
