"""What went wrong with marks, snapshots and cleaning in systems of this design, by the numbers of their issues.

Others of them are where they belong: HoraeDB #643, #1038, #1061 and GreptimeDB #5877, #6500, #6722, #8259 in
`test_cleaner.py`; an emptied meta log, which HoraeDB refused to open, and an idle table, for which it read the whole
region, in `test_snapshots.py`; marks that were kept in memory only in `test_marks.py`.
"""

import asyncio

import pytest

from cordwood import Batch, Client, Region
from cordwood.wal.formats.cordwood import snapshot
from tests.support.wal.region_contents import by_table, taken
from tests.support.wal.region_internals import data_of


async def numbers(region: Region) -> dict[int, list[int]]:
    return {table: list(entries) for table, entries in (await by_table(region)).items()}


async def start_of(cw: Client, topic: str = "metrics_data_7") -> int:
    return (await cw.log(topic).bounds())[0]


async def test_horaedb_1543_a_table_that_was_never_written_can_be_dropped(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        await region.drop_table(42)
        await region.drop_table(2**63 - 1)
        assert await region.write(42, [b"a"]) == range(1, 2)
        await region.drop_table(42)
        assert region.tables() == {}


async def test_horaedb_366_a_flush_writes_its_mark_and_not_the_whole_region(cw: Client) -> None:
    region = await cw.wal("metrics").region(7)
    await region.write_many({table: [b"x"] * 3 for table in range(500)})
    before = (await cw.log("metrics_meta_7").bounds())[1]
    for table in range(20):
        await region.mark_deleted(table, through=2)
    async with cw.log("metrics_meta_7").read(before) as reader:
        sizes = [len(value or b"") for batch in [batch async for batch in reader] for value in batch.values]
    assert len(sizes) == 20
    assert max(sizes) < 100


@pytest.mark.parametrize("through", [1, 150, 151, 299])
async def test_horaedb_642_a_mark_of_a_number_outside_the_mapping_counts(cw: Client, through: int) -> None:
    region = await cw.wal("metrics").region(7)
    for _ in range(300):
        await region.write(42, [b"x"])
    await region.mark_deleted(42, through=through)
    for opened in (region, await cw.wal("metrics").region(7)):
        assert await numbers(opened) == {42: [*range(through + 1, 301)]}


@pytest.mark.parametrize("case", ["all marked", "one of two", "marked and written again", "dropped and written again"])
async def test_horaedb_1048_what_can_be_cleaned_is_cleaned(cw: Client, case: str) -> None:
    region = await cw.wal("metrics").region(7)
    await region.write(42, [b"a"] * 5)
    await region.write(43, [b"b"] * 5)
    end = region.stats().next_offset
    if case == "all marked":
        await region.mark_deleted(43, through=5)
        await region.mark_deleted(42, through=5)
        expected = end - 1
    elif case == "one of two":
        await region.mark_deleted(42, through=5)
        expected = end - 1
    else:
        for table in (42, 43):
            await (region.mark_deleted(table, through=5) if "marked" in case else region.drop_table(table))
        await region.write(42, [b"c"])
        expected = end
    await region.clean()
    assert await start_of(cw) == expected
    left = await numbers(region)
    await region.close()
    async with cw.wal("metrics").region(7) as again:
        assert await numbers(again) == left


async def test_greptimedb_8506_doubled_parts_of_a_snapshot_do_no_harm(
    cw: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "PART_BYTES_MAX", 200)
    async with cw.wal("metrics").region(7) as region:
        await region.write_many({table: [b"x"] * 2 for table in range(20)})
        await region.mark_deleted(3, through=1)
        tables = region.tables()
    log = cw.log("metrics_meta_7")
    async with log.read() as reader:
        parts = [bytes(value or b"") for batch in [batch async for batch in reader] for value in batch.values]
    assert len(parts) > 3
    await log.append(Batch.of([parts[1], parts[1], parts[0]]))
    async with cw.wal("metrics").region(7) as region:
        assert region.tables() == tables


async def test_greptimedb_8487_a_snapshot_of_a_restarted_owner_forgets_no_table(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        await region.write_many({table: [b"x"] * 3 for table in range(10)})
        await region.drop_table(9)
    for life in range(3):
        async with cw.wal("metrics").region(7) as region:
            await region.write(0, [b"y"])
            await region.snapshot()
            assert list(region.tables()) == [*range(9)]
            assert region.tables()[0].next_sequence == 5 + life
            assert region.tables()[8].next_sequence == 4
    async with cw.wal("metrics").region(7) as region:
        assert await region.write(9, [b"z"]) == range(4, 5)


async def test_greptimedb_4934_a_data_log_cut_in_the_middle_of_a_table_opens(
    cw: Client, caplog: pytest.LogCaptureFixture
) -> None:
    async with cw.wal("metrics").region(7) as region:
        for _ in range(10):
            await region.write(42, [b"x"])
        await region.mark_deleted(42, through=3)
        cut = data_of(region).state.offset_of(42, 8)
        assert cut is not None
    await cw.log("metrics_data_7").trim(before=cut)
    async with cw.wal("metrics").region(7) as region:
        assert await numbers(region) == {42: [8, 9, 10]}
        assert region.stats().lost == {42: range(4, 8)}
        assert "table 42: 4 to 7" in caplog.text
        assert await region.write(42, [b"y"]) == range(11, 12)


async def test_greptimedb_1613_after_a_replay_numbers_go_on_and_never_back(cw: Client) -> None:
    last = 0
    for life in range(5):
        async with cw.wal("metrics").region(7) as region:
            for _, sequences, _ in await taken(region.replay()):
                assert sequences[-1] <= last
            written = await region.write(42, [b"x"] * 3)
            assert written.start == last + 1
            last = written[-1]
            await region.mark_deleted(42, through=last - life % 2)
            await asyncio.gather(region.clean(), region.snapshot())
