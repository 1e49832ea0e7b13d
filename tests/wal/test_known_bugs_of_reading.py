"""Bugs of others, by their numbers: what opening, writing, reading and recovering must not do."""

import asyncio

import pytest

from cordwood import Client, TableEntries, TooLarge
from cordwood.simulation.faulty_log import FaultyEngine
from cordwood.wal import Apply
from tests.support.wal.region_contents import by_table, taken
from tests.support.wal.region_internals import data_of


async def test_horaedb_1061_a_region_without_a_live_entry_does_not_hang(cw: Client) -> None:
    async with asyncio.timeout(30):
        async with cw.wal("metrics").region(7) as region:
            assert await taken(region.replay()) == await taken(region.read(42)) == []
            await region.write_many({42: [b"a", b"b"], 43: [b"c"]})
            await region.mark_deleted(42, through=2)
            await region.mark_deleted(43, through=1)
            await region.clean()
        async with cw.wal("metrics").region(7) as region:
            assert await taken(region.replay()) == await taken(region.read(42)) == []
            assert (await region.recover(_applied({}))).applied == 0
            assert await region.write(42, [b"d"]) == range(3, 4)


async def test_horaedb_1570_entries_of_a_table_are_applied_in_their_order(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        for table in (1, 1, 2, 2, 2, 3, 3, 3, 3, 1, 1):
            await region.write(table, [b"x"])
        applied: dict[int, list[int]] = {}
        # The first of a table takes longest: two at a time would show the second one first.
        report = await region.recover(_applied(applied, turns=5), concurrency=8)
        assert report.applied == 11
        assert applied == {1: [1, 2, 3, 4], 2: [1, 2, 3], 3: [1, 2, 3, 4]}


@pytest.mark.parametrize("fault", ["lost", "lost, but written", "late"])
async def test_horaedb_1205_a_number_has_one_entry_after_a_seeming_failure(cw: Client, fault: str) -> None:
    engine = FaultyEngine(cw, 0, 0, [fault])
    async with engine.wal("metrics").region(7) as region:
        log = next(log for log in engine.logs if log.topic == "metrics_data_7")
        log.odds = 1
        failing = asyncio.create_task(region.write(42, [b"first"]))
        await log.went_wrong.wait()
        engine.heal()
        numbers = [await failing, await region.write(42, [b"second"])]
        await engine.settle()
        assert numbers == [range(1, 2), range(2, 3)]
        assert await taken(region.replay()) == [(42, range(1, 2), [b"first"]), (42, range(2, 3), [b"second"])]


async def test_greptimedb_3049_horaedb_1313_what_is_too_large_is_refused_whole(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        _, end = await cw.log("metrics_data_7").bounds()
        with pytest.raises(TooLarge) as refused:
            await region.write_many({41: [b"small"], 42: [b"x" * 1000] * 3000})
        assert refused.value.outcome == "not_written"
        assert (await cw.log("metrics_data_7").bounds())[1] == end
        assert await region.write_many({41: [b"small"], 42: [b"x"]}) == {41: range(1, 2), 42: range(1, 2)}


async def test_greptimedb_3808_horaedb_412_one_read_recovers_many_tables(
    cw: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cw.wal("metrics").region(7) as region:
        for _ in range(5):
            await region.write_many({table: [b"x"] for table in range(50)})
        reads = []
        read = data_of(region).log.read

        def counted(start: int | None = None, stop: int | None = None, follow: bool = False) -> object:
            reads.append(start)
            return read(start, stop, follow)

        monkeypatch.setattr(data_of(region).log, "read", counted)
        applied: dict[int, list[int]] = {}
        await region.recover(_applied(applied))
        assert len(reads) == 1
        monkeypatch.undo()
        assert applied == {table: list(entries) for table, entries in (await by_table(region)).items()}


def _applied(into: dict[int, list[int]], turns: int = 0) -> Apply:
    async def apply(table: int, entries: TableEntries) -> None:
        for _ in range(max(0, turns - entries.sequences.start)):
            await asyncio.sleep(0)
        into.setdefault(table, []).extend(entries.sequences)

    return apply
