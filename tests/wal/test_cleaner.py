"""Cleaning: snapshot, decide, sync the snapshot, trim; in the background, by size, and against a log that refuses."""

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest

import cordwood
from cordwood import (
    Client,
    CordwoodError,
    Corrupt,
    Fenced,
    InvalidInput,
    Region,
    TableEntries,
    Timeout,
    Trimmed,
    Unavailable,
)
from cordwood.simulation.faulty_log import FaultyEngine, FaultyLog, lose_end
from cordwood.wal.cleaning.background import BackgroundCleaner
from cordwood.wal.formats.cordwood.meta_record import SnapshotPart
from tests.support.wal.region_contents import by_table, meta_records, snapshots, taken
from tests.support.wal.region_internals import background_task_of, cleaner_of, data_of, meta_writer_of


class Watch:
    """Sees every round of cleaning end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ended = asyncio.Event()
        original = BackgroundCleaner._round

        async def round_(background: BackgroundCleaner) -> None:
            try:
                await original(background)
            finally:
                self._ended.set()

        monkeypatch.setattr(BackgroundCleaner, "_round", round_)

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self.another()

    async def another(self) -> None:
        self._ended.clear()
        await self._ended.wait()


@pytest.fixture
async def background(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


async def bounds(cw: Client) -> tuple[int, int]:
    return await cw.log("metrics_data_7").bounds()


async def numbers(region: Region) -> dict[int, list[int]]:
    return {table: list(entries) for table, entries in (await by_table(region)).items()}


async def test_what_no_table_needs_is_trimmed_and_what_one_needs_is_not(cw: Client) -> None:
    region = await cw.wal("metrics").region(7)
    await region.write_many({42: [b"a"], 43: [b"b"]})
    await region.write_many({42: [b"c"], 43: [b"d"]})
    start = (await bounds(cw))[0]
    await region.clean()
    oldest = min(meta.mapping[1] for meta in region.tables().values())
    assert (await bounds(cw))[0] == oldest, "the owner's record before the first write goes"
    await region.mark_deleted(42, through=2)
    await region.clean()
    assert (await bounds(cw))[0] == region.tables()[43].mapping[1] > start
    assert await numbers(region) == {43: [1, 2]}
    stats = region.stats()
    assert (stats.oldest_offset, stats.held_by) == (region.tables()[43].mapping[1], 43)
    assert stats.trimmed_to == stats.pruned_to == stats.oldest_offset
    assert stats.trim_refused is None


async def test_r15_when_all_is_deleted_the_last_record_stays_for_the_numbers(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        await region.write_many({42: [b"a"] * 3, 43: [b"b"] * 2})
        await region.mark_deleted(42, through=3)
        await region.drop_table(43)
        await region.clean()
        start, stop = await bounds(cw)
        assert start == stop - 1
        assert await taken(region.replay()) == []
        assert (region.stats().oldest_offset, region.stats().held_by, region.stats().bytes) == (None, None, 0)
        assert await region.write_many({42: [b"c"], 43: [b"d"]}) == {42: range(4, 5), 43: range(3, 4)}
        assert await numbers(region) == {42: [4], 43: [3]}
    async with cw.wal("metrics").region(7) as region:
        assert await numbers(region) == {42: [4], 43: [3]}


async def test_a_clean_with_nothing_to_do_writes_nothing(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        await region.write(42, [b"a"])
        await region.mark_deleted(42, through=1)
        await region.clean()
        before = await cw.log("metrics_meta_7").bounds()
        await region.clean()
        await region.clean()
        assert await cw.log("metrics_meta_7").bounds() == before


async def test_a_fully_cleaned_region_opens_at_once(cw: Client) -> None:
    # HoraeDB #1061: the opening of a region whose logs were all flushed waited for ever.
    async with cw.wal("metrics").region(7) as region:
        await region.write(42, [b"a"])
        await region.drop_table(42)
        await region.clean()
    async with asyncio.timeout(30), cw.wal("metrics").region(7) as region:
        assert region.tables() == {}


@pytest.mark.parametrize("point", ["before the snapshot", "after the snapshot", "after the trim"])
async def test_a_crash_at_any_point_of_a_clean_loses_nothing(
    cw: Client, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    # HoraeDB #643: logs were trimmed before the snapshot that says so was durable.
    class Crash(Exception):
        pass

    region = await FaultyEngine(cw, 0, 0, part="_").wal("metrics").region(7)
    await region.write_many({42: [b"a"] * 3, 43: [b"b"] * 3})
    await region.mark_deleted(42, through=3)
    if point == "before the snapshot":
        monkeypatch.setattr(meta_writer_of(region), "snapshot", failing(Crash))
    elif point == "after the snapshot":
        monkeypatch.setattr(cleaner_of(region), "_trim", failing(Crash))
    trimmed = data_of(region).log.trim
    order: list[str] = []

    async def noted(before: int, **settings: Any) -> None:
        (found,) = await snapshots(cw)
        assert found.trim_target == before, "the snapshot that says so is there"
        order.append("trim")
        await trimmed(before, **settings)

    monkeypatch.setattr(data_of(region).log, "trim", noted)
    if point == "after the trim":
        await region.clean()
        assert order == ["trim"]
    else:
        with pytest.raises(Crash):
            await region.clean()
    async with cw.wal("metrics").region(7) as again:  # the first one is never closed
        assert await numbers(again) == {43: [1, 2, 3]}
        assert again.stats().lost == {}
        assert again.tables()[42].next_sequence == 4


def failing(kind: type[Exception]) -> Any:
    async def fail(*arguments: Any, **settings: Any) -> None:
        raise kind

    return fail


async def test_r12_a_zombie_trims_nothing_that_the_newer_owner_needs(
    cw: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GreptimeDB #6500: pruning races with the opening of a region.
    old = await cw.wal("metrics").region(7)
    await old.write_many({42: [b"a"] * 3, 43: [b"b"] * 3})
    await old.mark_deleted(42, through=3)
    paused, go_on = asyncio.Event(), asyncio.Event()
    trim = cleaner_of(old)._trim

    async def slow(timeout: float | None) -> None:
        paused.set()
        await go_on.wait()
        await trim(timeout)

    monkeypatch.setattr(cleaner_of(old), "_trim", slow)
    cleaning = asyncio.create_task(old.clean())
    await paused.wait()  # its snapshot is durable, its trim is to come
    new = await cw.wal("metrics").region(7)
    await new.write(42, [b"c"])
    expected = {42: [4], 43: [1, 2, 3]}
    assert await numbers(new) == expected
    go_on.set()
    await cleaning
    assert await numbers(new) == expected
    assert await numbers(await cw.wal("metrics").region(7)) == expected
    with pytest.raises(Fenced):
        await old.clean()
        await old.mark_deleted(43, through=3)


async def test_r12_a_zombie_whose_gap_was_trimmed_is_fenced_too(cw: Client) -> None:
    old = await cw.wal("metrics").region(7)
    await old.write(42, [b"a"])
    new = await cw.wal("metrics").region(7)
    await new.write(42, [b"b"])
    await new.drop_table(42)
    await new.write(43, [b"c"])
    await new.clean()  # what the old one would look into is gone
    with pytest.raises(Fenced, match=r"was trimmed before \d+ by another owner") as gone:
        await old.write(42, [b"zombie"])
    assert gone.value.outcome == "unknown", "it may have been written before the newer one opened the region"
    with pytest.raises(Fenced) as still:
        await old.write(42, [b"zombie"])
    assert still.value.outcome == "not_written"
    with pytest.raises(Fenced):
        await old.mark_deleted(42, through=1)
    assert await numbers(new) == {43: [1]}


async def test_r16_a_reader_continues_after_a_trim_of_deleted_entries(cw: Client) -> None:
    # HoraeDB: a mark during a scan "may lead to an error".
    region = await cw.wal("metrics").region(7)
    for n in range(50):
        await region.write_many({42: [b"%d" % n], 43: [b"x" * 100_000]})
    reader = region.replay()
    begun = region.read(42)
    assert (await anext(begun)).sequences == range(1, 2)
    await region.mark_deleted(43, through=50)
    await region.mark_deleted(42, through=40)
    await region.clean()
    for rest in (await taken(reader), await taken(begun)):
        left = [n for table, ns, _ in rest if table == 42 for n in ns]
        assert left[-10:] == [*range(41, 51)], "it may have read some before they were deleted"
        assert left == sorted(set(left))
    fresh = region.replay()
    assert [(t, list(ns)) for t, ns, _ in await taken(fresh)] == [(42, [n]) for n in range(41, 51)]


async def test_r16_an_earlier_owner_reads_anew_after_the_log_was_trimmed(cw: Client) -> None:
    old = await cw.wal("metrics").region(7)
    await old.write_many({42: [b"a"] * 3, 43: [b"b"] * 3})
    new = await cw.wal("metrics").region(7)
    await new.mark_deleted(42, through=3)
    await new.mark_deleted(43, through=2)
    await new.write(44, [b"c"])
    await new.clean()
    # The earlier owner reads, as everybody may. Its state is now before the start of the log.
    oldest = old.stats().oldest_offset
    assert oldest is not None
    assert oldest < (await bounds(cw))[0]
    assert await numbers(old) == {43: [3], 44: [1]}
    got: list[tuple[int, range]] = []

    async def apply(table: int, entries: TableEntries) -> None:
        got.append((table, entries.sequences))

    await old.recover(apply)
    assert sorted(got) == [(43, range(3, 4)), (44, range(1, 2))]


async def test_r16_a_read_only_opening_reads_on_while_the_owner_cleans(url: str, cw: Client) -> None:
    owner = await cw.wal("metrics").region(7)
    await owner.write_many({42: [b"a"] * 3, 43: [b"b"] * 3})
    async with cordwood.connect(url, read_only=True) as beside:
        reading = await beside.wal("metrics").region(7)
        await owner.mark_deleted(42, through=3)
        await owner.mark_deleted(43, through=2)
        await owner.write(44, [b"c"])
        await owner.clean()
        assert await numbers(reading) == {43: [3], 44: [1]}
        assert list((await beside.wal("metrics").region(7)).tables()) == [42, 43, 44]
        for call in (reading.mark_deleted(43, through=3), reading.drop_table(43), reading.snapshot(), reading.clean()):
            with pytest.raises(Unavailable, match="read_only=True"):
                await call
        assert reading.stats().held_by is not None
    await owner.write(44, [b"nobody has fenced it"])


async def test_r16_a_trim_beyond_the_target_is_a_loss_and_a_reader_says_so(cw: Client) -> None:
    region = await cw.wal("metrics").region(7)
    await region.write_many({42: [b"a"] * 3, 43: [b"b"] * 3})
    await region.snapshot()
    await cw.log("metrics_data_7").trim(before=(await bounds(cw))[1] - 1)
    with pytest.raises(Trimmed):
        await taken(region.replay())


async def test_an_open_that_the_cleaner_overtakes_starts_over(cw: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    # GreptimeDB #6500, the other way round: trimmed between the opening's look at the meta log and its reading.
    owner = await cw.wal("metrics").region(7)
    await owner.write_many({42: [b"a"] * 3, 43: [b"b"] * 3})
    engine = FaultyEngine(cw, 0, 0)
    bounds_of = FaultyLog.bounds
    looked = 0

    async def overtaken(self: FaultyLog, **settings: Any) -> tuple[int, int]:
        nonlocal looked
        found = await bounds_of(self, **settings)
        looked += 1
        if looked == 1:
            await owner.mark_deleted(42, through=3)
            await owner.drop_table(43)
            await owner.write(44, [b"c"])
            await owner.clean()
        return found

    monkeypatch.setattr(FaultyLog, "bounds", overtaken)
    new = await engine.wal("metrics").region(7)
    assert looked > 1
    assert await numbers(new) == {44: [1]}
    assert new.stats().lost == {}
    assert list(new.tables()) == [42, 44]


@pytest.mark.parametrize(
    "error", [Unavailable("DeleteRecords is disabled", reason="permission"), InvalidInput("policy")]
)
async def test_where_the_log_refuses_to_trim_the_region_is_pruned_all_the_same(
    cw: Client, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    # GreptimeDB #8259: brokers that know no DeleteRecords.
    async def refuse(self: FaultyLog, before: int, **settings: Any) -> None:
        raise error

    monkeypatch.setattr(FaultyLog, "trim", refuse)
    region = await FaultyEngine(cw, 0, 0, part="_").wal("metrics").region(7)
    await region.write_many({42: [b"a"] * 3, 43: [b"b"] * 3})
    await region.mark_deleted(42, through=3)
    for _ in range(3):
        await region.clean()
        await region.write(43, [b"c"])
    stats = region.stats()
    assert stats.trim_refused is error
    assert stats.trimmed_to < stats.pruned_to == region.tables()[43].mapping[1]
    assert (await bounds(cw))[0] == stats.trimmed_to == 0
    await region.close()
    again = await FaultyEngine(cw, 0, 0, part="_").wal("metrics").region(7)
    assert await numbers(again) == {43: [*range(1, 7)]}
    monkeypatch.undo()
    async with cw.wal("metrics").region(7) as again:
        await again.clean()
        assert again.stats().trim_refused is None
        assert (await bounds(cw))[0] == again.tables()[43].mapping[1]


async def test_a_region_that_fails_in_background_cleaning_stops_no_other(
    cw: Client, background: Watch, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wal = cw.wal("metrics", clean_every=0.01)
    failing_one, well = await wal.region(6), await wal.region(7)
    cleaner = cleaner_of(failing_one)
    cleaning = cleaner._clean
    monkeypatch.setattr(cleaner, "_clean", failing(OSError))
    await well.write_many({42: [b"a"] * 3, 43: [b"b"]})
    await well.mark_deleted(42, through=3)
    await background.until(lambda: well.stats().trimmed_to >= well.tables()[43].mapping[1])
    await background.until(lambda: failing_one.stats().failure is not None)
    assert "region 6 in metrics_data_6/0: a round of cleaning failed" in caplog.text
    assert well.stats().failure is None
    with pytest.raises(OSError):
        await failing_one.clean()
    monkeypatch.setattr(cleaner, "_clean", cleaning)
    await background.until(lambda: failing_one.stats().failure is None)
    await wal.close()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "cordwood-clean"]


async def test_a_clean_by_hand_that_goes_well_takes_back_the_failure_of_a_round(
    cw: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    region = await cw.wal("metrics", clean_every=3600).region(7)
    cleaner = cleaner_of(region)
    with monkeypatch.context() as broken:
        broken.setattr(cleaner, "_clean", failing(OSError))
        with pytest.raises(OSError):
            await cleaner.clean()  # as a round does
    assert isinstance(region.stats().failure, Unavailable)
    await region.clean()
    assert region.stats().failure is None


async def test_a_clean_ends_in_its_time_though_another_one_is_under_way(
    cw: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    region = await cw.wal("metrics").region(7)
    cleaner = cleaner_of(region)
    begun = asyncio.Event()

    async def stuck(timeout: float | None) -> None:
        begun.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as slow:
        slow.setattr(cleaner, "_clean", stuck)
        other = asyncio.create_task(region.clean())
        await begun.wait()
        with pytest.raises(Timeout, match=r"metrics_data_7/0: cleaning it took more than 0.01 s"):
            await region.clean(timeout=0.01)
        other.cancel()
    await region.clean(timeout=30)


async def test_a_region_over_its_size_names_the_tables_that_hold_it_back(cw: Client, background: Watch) -> None:
    # GreptimeDB #5877, #6722, HoraeDB #1038: an idle table pins the log.
    asked: list[list[int]] = []
    done = asyncio.Event()

    async def flush(region: Region, tables: list[int]) -> None:
        asked.append(tables)
        for table in tables:
            await region.mark_deleted(table, through=region.tables()[table].next_sequence - 1)
        done.set()

    wal = cw.wal("metrics", clean_every=0.01, region_bytes_max=20_000, on_flush_needed=flush)
    region = await wal.region(7)
    await region.write(1, [b"idle, from the start"])
    await region.write(2, [b"idle too"])
    for n in range(40):
        await region.write(3, [b"x" * 1000])
        if n < 39:
            await region.mark_deleted(3, through=n + 1)
    await done.wait()
    assert asked[0][:2] == [1, 2], "the oldest first"
    await background.until(lambda: region.stats().bytes <= 20_000)
    assert not {1, 2} & {table for _, table in data_of(region).state.holders()}
    assert set((await numbers(region)).keys()) <= {3}
    await wal.close()


async def test_without_a_callback_the_tables_are_named_in_the_log_once(
    cw: Client, background: Watch, caplog: pytest.LogCaptureFixture
) -> None:
    wal = cw.wal("metrics", clean_every=0.01, region_bytes_max=100)
    region = await wal.region(7)
    await region.write(42, [b"x" * 1000])
    await region.write(43, [b"x" * 1000])
    await background.until(lambda: "2 tables hold it back" in caplog.text)
    for _ in range(3):
        await background.another()
    assert caplog.text.count("2 tables hold it back") == 1
    await wal.close()


async def test_a_callback_that_raises_is_told_and_cleaning_goes_on(
    cw: Client, background: Watch, caplog: pytest.LogCaptureFixture
) -> None:
    calls = 0
    failures: list[CordwoodError | None] = []

    async def flush(region: Region, tables: list[int]) -> None:
        nonlocal calls
        calls += 1
        failures.append(region.stats().failure)
        if calls == 1:
            raise KeyError("no such table")
        await region.drop_table(tables[0])

    region = await cw.wal("metrics", clean_every=0.01, region_bytes_max=100, on_flush_needed=flush).region(7)
    await region.write(42, [b"x" * 1000])
    await background.until(lambda: not region.tables())
    assert "on_flush_needed raised KeyError('no such table')" in caplog.text
    assert "in flush" in caplog.text, "with the place in the callback, which nobody else would see"
    assert failures[0] is None
    assert isinstance(failures[1], Unavailable)
    assert isinstance(failures[1].__cause__, KeyError)
    await background.until(lambda: region.stats().failure is None)
    await region.close()


async def test_a_callback_of_which_something_was_cancelled_is_asked_again(cw: Client) -> None:
    asked_again = asyncio.Event()
    failures: list[CordwoodError | None] = []

    async def flush(region: Region, tables: list[int]) -> None:
        failures.append(region.stats().failure)
        if len(failures) > 1:
            asked_again.set()
        own = asyncio.get_running_loop().create_future()
        own.cancel()
        await own

    region = await cw.wal("metrics", clean_every=0.01, region_bytes_max=100, on_flush_needed=flush).region(7)
    await region.write(42, [b"x" * 1000])
    async with asyncio.timeout(10):
        await asked_again.wait()
    assert "on_flush_needed raised CancelledError()" in str(failures[1])
    await region.close()


async def test_the_size_of_what_is_live_is_known_however_much_was_cleaned(cw: Client) -> None:
    region = await cw.wal("metrics").region(7)
    for _ in range(600):
        await region.write(42, [b"x" * 1000])
    await region.mark_deleted(42, through=590)
    await region.clean()
    for _ in range(60):
        await region.write(42, [b"x" * 1000])
    stats = region.stats()
    assert stats.oldest_offset is not None
    exact = sum(1000 + 64 + 8 for _ in range(stats.lag))
    assert exact <= stats.bytes <= 1.2 * exact


@pytest.mark.parametrize("what", ["the region", "the region, in time", "the log", "the connection"])
async def test_a_callback_may_close_what_it_is_called_for(url: str, what: str) -> None:
    closed = asyncio.Event()

    async def flush(region: Region, tables: list[int]) -> None:
        if what == "the log":
            await wal.close()
        elif what == "the connection":
            await cw.close()
        else:
            await (region.close() if what == "the region" else asyncio.wait_for(region.close(), 30))
        closed.set()

    async with cordwood.connect(url) as cw:
        wal = cw.wal("metrics", clean_every=0.01, region_bytes_max=100, on_flush_needed=flush)
        region = await wal.region(7)
        await region.write(42, [b"x" * 1000])
        async with asyncio.timeout(30):
            await closed.wait()
        with pytest.raises(Unavailable):
            await region.write(42, [b"y"])
        await background_task_of(region)
    async with cordwood.connect(url) as cw:
        assert (await snapshots(cw))[-1].high_watermark == (await bounds(cw))[1], "it was closed in order"


async def test_a_region_whose_close_is_cancelled_takes_no_writes(cw: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    region = await cw.wal("metrics").region(7)
    begun = asyncio.Event()

    async def close(background: BackgroundCleaner) -> None:
        begun.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as hanging:
        hanging.setattr(BackgroundCleaner, "close", close)
        closing = asyncio.create_task(region.close())
        await begun.wait()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
    with pytest.raises(Unavailable, match="is closed"):
        await region.write(42, [b"x"])
    await region.close()


async def test_a_fenced_region_is_not_cleaned_any_more(cw: Client) -> None:
    old = await cw.wal("metrics", clean_every=0.01).region(7)
    await old.write_many({42: [b"a"], 43: [b"b"]})
    await old.mark_deleted(42, through=1)
    new = await cw.wal("metrics").region(7)
    with pytest.raises(Fenced):
        await old.write(42, [b"zombie"])
    await background_task_of(old)  # it ends by itself
    await new.close()
    assert isinstance((await meta_records(cw))[-1], SnapshotPart)


async def test_a_broken_region_is_not_cleaned_any_more(cw: Client) -> None:
    wal = cw.wal("metrics", clean_every=0.01)
    old = await wal.region(7)
    await old.write_many({42: [b"a"], 43: [b"b"]})
    await lose_end(cw, "metrics_data_7", 2)
    with pytest.raises(Corrupt):
        await old.write(42, [b"b"])
    assert await wal.region(7) is not old
    async with asyncio.timeout(10):
        await background_task_of(old)  # it ends by itself: the log's close knows the new one


async def test_a_region_that_nobody_has_any_more_is_closed_with_its_connection(url: str) -> None:
    async with cordwood.connect(url) as cw:

        async def use() -> None:
            region = await cw.wal("metrics").region(7)
            await region.write(42, [b"a"])

        await use()
        gc.collect()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "cordwood-clean"]
    async with cordwood.connect(url) as cw:
        assert (await snapshots(cw))[-1].high_watermark == (await bounds(cw))[1], "it was closed in order"


async def test_what_cannot_be_a_setting_is_refused(cw: Client) -> None:
    with pytest.raises(InvalidInput, match="clean_every is 0"):
        cw.wal("metrics", clean_every=0)
    with pytest.raises(InvalidInput, match="region_bytes_max is 0"):
        cw.wal("metrics", region_bytes_max=0)
    region = await cw.wal("metrics", clean_every=None).region(7)
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "cordwood-clean"]
    await region.clean()
