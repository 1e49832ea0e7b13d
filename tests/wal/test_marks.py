"""Marking logs deleted and dropping tables: durable on return, filtered everywhere, and no number comes back."""

import asyncio
from typing import Any

import pytest

import cordwood
from cordwood import Client, Corrupt, Fenced, InvalidInput, Region, Timeout, Unavailable
from cordwood.simulation.faulty_log import FAULTS, FaultyEngine, lose_end
from tests.support.wal.region_contents import by_table, taken
from tests.support.wal.region_internals import meta_log_of


async def filled(cw: Client) -> Region:
    """Table 43 has 1 to 9 in writes of 3, table 42 the same, between them."""
    region = await cw.wal("metrics").region(7)
    for first in (1, 4, 7):
        await region.write_many({table: [b"%d.%d" % (table, first + n) for n in range(3)] for table in (43, 42)})
    return region


async def numbers(region: Region) -> dict[int, list[int]]:
    return {table: list(entries) for table, entries in (await by_table(region)).items()}


async def test_what_is_marked_is_left_out_of_every_reading_and_after_a_reopening(cw: Client) -> None:
    region = await filled(cw)
    await region.mark_deleted(42, through=5)

    async def check(region: Region) -> None:
        assert await numbers(region) == {42: [6, 7, 8, 9], 43: [*range(1, 10)]}
        assert [n for _, ns, _ in await taken(region.read(42)) for n in ns] == [6, 7, 8, 9]
        assert [n for _, ns, _ in await taken(region.read(42, 3, 8)) for n in ns] == [6, 7]
        assert await taken(region.read(42, 1, 5)) == []
        applied: dict[int, list[int]] = {42: [], 43: []}

        async def apply(table: int, entries: object) -> None:
            applied[table] += entries.sequences  # type: ignore[attr-defined]

        report = await region.recover(apply)
        assert applied == {42: [6, 7, 8, 9], 43: [*range(1, 10)]}
        assert (report.applied, report.skipped) == (13, 5)
        meta = region.tables()[42]
        assert (meta.next_sequence, meta.deleted_through) == (10, 5)
        assert next(iter(meta.mapping)) == 4, "rounded down to a write"

    await check(region)
    await check(await cw.wal("metrics").region(7))  # the first one was not closed: marks alone tell
    await region.close()
    async with cw.wal("metrics").region(7) as again:
        await check(again)


async def test_a_mark_below_an_earlier_one_or_of_an_unknown_table_has_no_effect(cw: Client) -> None:
    region = await filled(cw)
    await region.mark_deleted(42, through=5)
    end = (await cw.log("metrics_meta_7").bounds())[1]
    await region.mark_deleted(42, through=5)
    await region.mark_deleted(42, through=2)
    await region.mark_deleted(42, through=0)
    await region.mark_deleted(99, through=7)
    await region.drop_table(99)
    assert region.tables()[42].deleted_through == 5
    assert list(region.tables()) == [42, 43]
    assert (await cw.log("metrics_meta_7").bounds())[1] == end, "nothing is written for that"


async def test_a_mark_beyond_the_last_number_is_refused_with_the_limit(cw: Client) -> None:
    region = await filled(cw)
    with pytest.raises(
        InvalidInput, match="table 42 cannot be deleted through 10: its last sequence number is 9"
    ) as no:
        await region.mark_deleted(42, through=10)
    assert no.value.outcome == "not_written"
    with pytest.raises(InvalidInput, match="through is -1"):
        await region.mark_deleted(42, through=-1)
    with pytest.raises(InvalidInput, match="table -1"):
        await region.mark_deleted(-1, through=1)
    with pytest.raises(TypeError):
        await region.mark_deleted(42, through=1.5)  # type: ignore[arg-type]
    await region.mark_deleted(42, through=9)
    assert await numbers(region) == {43: [*range(1, 10)]}
    assert await region.write(42, [b"x"]) == range(10, 11)


async def test_a_dropped_table_is_gone_and_its_numbers_never_come_back(cw: Client) -> None:
    region = await filled(cw)
    await region.drop_table(42)
    await region.drop_table(42)
    assert list(region.tables()) == [43]
    await region.mark_deleted(42, through=3)
    assert await numbers(region) == {43: [*range(1, 10)]}
    region = await cw.wal("metrics").region(7)
    assert list(region.tables()) == [43]
    assert await region.write(42, [b"anew"]) == range(10, 11)
    assert await numbers(region) == {42: [10], 43: [*range(1, 10)]}
    await region.mark_deleted(42, through=10)
    await region.close()
    async with cw.wal("metrics").region(7) as region:
        assert region.tables()[42].deleted_through == 10
        await region.drop_table(42)
    async with cw.wal("metrics").region(7) as region:
        assert list(region.tables()) == [43]
        assert await region.write(42, [b"anew"]) == range(11, 12)


async def test_a_drop_covers_the_writes_that_were_called_before_it(cw: Client) -> None:
    region = await filled(cw)
    under_way = [asyncio.create_task(region.write(table, [b"late"] * 2)) for table in (42, 44)]
    await asyncio.sleep(0)  # they have their numbers
    await asyncio.gather(region.drop_table(42), region.drop_table(44))
    assert await asyncio.gather(*under_way) == [range(10, 12), range(1, 3)]
    for opened in (region, await cw.wal("metrics").region(7)):
        assert await numbers(opened) == {43: [*range(1, 10)]}
        assert list(opened.tables()) == [43]
    assert await opened.write_many({42: [b"a"], 44: [b"b"]}) == {42: range(12, 13), 44: range(3, 4)}


async def test_many_marks_at_once_share_a_record(cw: Client) -> None:
    region = await cw.wal("metrics").region(7)
    await region.write_many({table: [b"a", b"b"] for table in range(200)})
    before = (await cw.log("metrics_meta_7").bounds())[1]
    await asyncio.gather(*(region.mark_deleted(table, through=1) for table in range(200)))
    assert (await cw.log("metrics_meta_7").bounds())[1] <= before + 2
    assert await numbers(await cw.wal("metrics").region(7)) == {table: [2] for table in range(200)}


async def test_a_mark_that_nobody_waits_for_any_more_takes_no_other_with_it(cw: Client) -> None:
    region = await filled(cw)
    cancelled = asyncio.create_task(region.mark_deleted(42, through=2))
    other = asyncio.create_task(region.mark_deleted(43, through=4))
    await asyncio.sleep(0)
    cancelled.cancel()
    with pytest.raises(Timeout, match="table 42 took more than 0 s") as late:
        await region.mark_deleted(42, through=6, timeout=0)
    assert late.value.outcome == "unknown"
    await other
    await region.mark_deleted(42, through=7)
    assert await numbers(region) == {42: [8, 9], 43: [*range(5, 10)]}


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("codec", ["cordwood", "rfc"])
async def test_marks_whose_task_is_cancelled_fail_and_later_ones_do_not(
    cw: Client, monkeypatch: pytest.MonkeyPatch, codec: str, begun: bool
) -> None:
    """As a loop that ends cancels all its tasks: before this one has begun, or while it appends."""
    region = await cw.wal("metrics", codec=codec).region(7)
    await region.write_many({42: [b"a"], 43: [b"b"]})
    log = meta_log_of(region)
    append, appended = log.append, asyncio.Event()

    async def append_without_an_answer(*arguments: Any, **settings: Any) -> None:
        # How long a real append takes is a matter of the machine: this one never returns.
        await append(*arguments, **settings)
        appended.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as hanging:
        hanging.setattr(log, "append", append_without_an_answer)
        waiting = [asyncio.create_task(region.mark_deleted(42, through=1))]
        if codec == "cordwood":
            waiting.append(asyncio.create_task(region.snapshot()))
        if begun:
            await appended.wait()
        waiting.append(asyncio.create_task(region.mark_deleted(43, through=1)))
        await asyncio.sleep(0)  # the last one waits, too; the task has had no step yet, unless it appends
        (task,) = (task for task in asyncio.all_tasks() if task.get_name() == "cordwood-meta_writer")
        task.cancel()
        async with asyncio.timeout(10):
            ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert appended.is_set() == begun
    assert [type(error) for error in ended] == [Unavailable] * len(waiting)
    assert [getattr(error, "outcome", None) for error in ended] == ["unknown"] * len(waiting)
    async with asyncio.timeout(10):
        await region.mark_deleted(42, through=1)
        await region.close()
    assert await numbers(await cw.wal("metrics", codec=codec).region(7)) == {43: [1]}


async def test_who_may_only_read_or_is_closed_marks_nothing(cw: Client) -> None:
    region = await filled(cw)
    await region.close()
    for call in (region.mark_deleted(42, through=1), region.drop_table(42), region.snapshot(), region.clean()):
        with pytest.raises(Unavailable, match="closed") as refused:
            await call
        assert refused.value.outcome == "not_written"


@pytest.mark.parametrize("snapshot", [True, False])
async def test_a_read_only_opening_knows_the_marks(url: str, cw: Client, snapshot: bool) -> None:
    region = await filled(cw)
    await region.mark_deleted(42, through=2)
    if snapshot:
        await region.snapshot()
    await region.mark_deleted(42, through=5)
    async with cordwood.connect(url, read_only=True) as beside:
        reading = await beside.wal("metrics").region(7)
        assert await numbers(reading) == {42: [6, 7, 8, 9], 43: [*range(1, 10)]}
        assert reading.tables()[42].deleted_through == 5


async def test_r12_a_zombies_mark_is_fenced_and_does_not_count(cw: Client) -> None:
    old = await filled(cw)
    new = await cw.wal("metrics").region(7)
    for call in (old.mark_deleted(42, through=5), old.drop_table(42), old.snapshot(), old.clean()):
        with pytest.raises(Fenced, match=r"region 7 was opened by \S+:\d+ at offset \d+ of its data log") as gone:
            await call
        assert gone.value.outcome == "not_written"
    with pytest.raises(Fenced):
        await old.write(42, [b"zombie"])
    assert (await numbers(new))[42] == [*range(1, 10)]
    assert (await numbers(await cw.wal("metrics").region(7)))[42] == [*range(1, 10)]


@pytest.mark.parametrize("engine", ["embedded"])
async def test_r12_a_zombie_whose_meta_log_lost_its_end_marks_and_trims_nothing(cw: Client) -> None:
    wal = cw.wal("metrics")
    old = await wal.region(7)
    await old.write(42, [b"x"] * 9)
    for through in range(1, 6):
        await old.mark_deleted(42, through=through)
    await lose_end(cw, "metrics_meta_7", 4)
    new = await cw.wal("metrics").region(7)  # its record lands where the old one has read already
    said = r"metrics_meta_7/0 continues at 3, and had a record at 5: .*: open region 7 again"
    with pytest.raises(Corrupt, match=said) as told:
        await old.mark_deleted(42, through=9)
    assert told.value.outcome == "unknown"
    for _ in range(5):
        with pytest.raises(Corrupt) as told:
            await old.mark_deleted(42, through=9)
        assert told.value.outcome == "not_written"
    with pytest.raises(Corrupt):
        await old.clean()
    with pytest.raises(Corrupt):
        await old.write(42, [b"y"])
    await old.close()
    assert (await cw.log("metrics_meta_7").bounds())[0] == 0
    await new.mark_deleted(42, through=6)
    assert await numbers(new) == {42: [7, 8, 9]}
    again = await wal.region(7)
    assert again.tables()[42].deleted_through == 6
    await again.mark_deleted(42, through=9)


async def test_r12_marks_of_the_earlier_owner_during_an_open_count(cw: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    old = await filled(cw)
    engine = FaultyEngine(cw, 0, 0)
    opening = engine.wal("metrics").region(7)
    log = engine.log("metrics_data_7", 0, timeout=30)
    append = type(log).append
    marked = False

    async def late(self: object, *arguments: object, **settings: object) -> object:
        done = await append(self, *arguments, **settings)  # type: ignore[arg-type]
        nonlocal marked
        if not marked:
            # The newer owner's record is in the data log, and not yet in the meta log.
            marked = True
            await old.mark_deleted(42, through=5)
        return done

    monkeypatch.setattr(type(log), "append", late)
    new = await opening
    assert marked
    assert (await numbers(new))[42] == [6, 7, 8, 9]


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault not in ("late", "prefix")])
async def test_a_mark_whose_append_goes_wrong_once_is_made_good(cw: Client, fault: str) -> None:
    await (await filled(cw)).close()
    engine = FaultyEngine(cw, 0, 0, [fault], part="_meta_")
    region = await engine.wal("metrics").region(7)
    (log,) = engine.logs
    log.odds = 1
    marking = asyncio.create_task(region.mark_deleted(42, through=5))
    await log.went_wrong.wait()
    engine.heal()
    await marking
    await region.mark_deleted(43, through=6)
    expected = {42: [6, 7, 8, 9], 43: [7, 8, 9]}
    assert await numbers(region) == expected
    assert await numbers(await cw.wal("metrics").region(7)) == expected


async def test_a_mark_that_fails_says_so_and_is_not_applied(cw: Client) -> None:
    await (await filled(cw)).close()
    engine = FaultyEngine(cw, 0, 0, ["refused"], part="_meta_")
    region = await engine.wal("metrics").region(7)
    engine.logs[0].odds = 1
    with pytest.raises(Unavailable, match="the disk is full") as full:
        await region.mark_deleted(42, through=5)
    assert full.value.outcome == "not_written"
    assert (await numbers(region))[42] == [*range(1, 10)]
    assert await region.write(42, [b"x"]) == range(10, 11), "writes go on"
    engine.heal()
    await region.mark_deleted(42, through=5)
    assert (await numbers(region))[42] == [*range(6, 11)]
