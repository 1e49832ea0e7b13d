"""What HoraeDB's suite asks of every back-end of its write-ahead log: of each codec that writes, in both layouts."""

import asyncio
from collections.abc import Callable

import pytest

import cordwood
from cordwood import Client, Region, Wal
from tests.support.wal.region_contents import by_table, logs_of

KINDS = [("cordwood", "two-topics"), ("cordwood", "one-topic"), ("rfc", "two-topics"), ("rfc", "one-topic")]

Open = Callable[[Client], Wal]


@pytest.fixture(params=KINDS, ids=[" ".join(kind) for kind in KINDS])
def wal_of(request: pytest.FixtureRequest) -> Open:
    codec, layout = request.param
    return lambda cw: cw.wal("metrics", codec=codec, layout=layout, clean_every=None)


def payloads(start: int, stop: int) -> list[bytes]:
    return [b"log %d" % number for number in range(start, stop)]


async def numbers(region: Region, table: int, start: int = 1, stop: int | None = None) -> list[int]:
    found = await logs_of(region.read(table, start, stop))
    assert list(found.values()) == [b"log %d" % number for number in found]
    return list(found)


async def test_entries_are_read_as_they_were_written_for_any_size_of_writes(cw: Client, wal_of: Open) -> None:
    async with wal_of(cw).region(7) as region:
        for size in (1, 2, 4, 10, 100):
            for start in range(1, 101, size):
                assert await region.write(size, payloads(start, start + size)) == range(start, start + size)
        for size in region.tables():
            assert await numbers(region, size) == [*range(1, 101)]


async def test_every_boundary(cw: Client, wal_of: Open) -> None:
    async with wal_of(cw).region(7) as region:
        await region.write(42, payloads(1, 6))
        await region.write(42, payloads(6, 11))
        for start in range(1, 12):
            assert await numbers(region, 42, start) == [*range(start, 11)]
            for stop in (1, start, start + 1, 6, 10, 11, 12, 2**62):
                assert await numbers(region, 42, start, stop) == [*range(start, min(stop, 11))], (start, stop)


async def test_several_tables_each_with_two_writers_at_once(cw: Client, wal_of: Open) -> None:
    async with wal_of(cw).region(7) as region:
        writes = await asyncio.gather(*(region.write(table, [b"x"] * 50) for table in range(5) for _ in range(2)))
        assert writes == [range(1, 51), range(51, 101)] * 5
        found = await by_table(region)
    assert {table: list(entries) for table, entries in found.items()} == {table: [*range(1, 101)] for table in range(5)}


async def test_several_regions_are_opened_again(url: str, wal_of: Open) -> None:
    async with cordwood.connect(url) as cw:
        wal = wal_of(cw)
        for id in range(5):
            await (await wal.region(id)).write(42, payloads(1, id + 2))
    async with cordwood.connect(url) as cw:
        wal = wal_of(cw)
        assert await wal.regions() == [*range(5)]
        opened = [await wal.region(id, create=False) for id in range(5)]
        assert [await numbers(region, 42) for region in opened] == [[*range(1, id + 2)] for id in range(5)]


async def test_all_is_deleted_and_the_numbers_stay(cw: Client, wal_of: Open) -> None:
    async with wal_of(cw).region(7) as region:
        await region.write(42, payloads(1, 11))
        await region.mark_deleted(42, through=10)
        assert await numbers(region, 42) == []
        assert region.tables()[42].next_sequence == 11


async def test_half_is_deleted_and_other_tables_keep_all(cw: Client, wal_of: Open) -> None:
    async with wal_of(cw).region(7) as region:
        await region.write_many({42: payloads(1, 11), 43: payloads(1, 11)})
        await region.mark_deleted(42, through=5)
        await region.clean()
        assert await numbers(region, 42) == [*range(6, 11)]
        assert await numbers(region, 43) == [*range(1, 11)]


@pytest.mark.parametrize("reopened", [False, True])
async def test_numbers_grow_over_a_deletion_and_an_opening(cw: Client, wal_of: Open, reopened: bool) -> None:
    region = await wal_of(cw).region(7)
    for start in (1, 11, 21):
        assert await region.write(42, payloads(start, start + 10)) == range(start, start + 10)
        await region.mark_deleted(42, through=start + 9)
        await region.clean()
        if reopened:
            await region.close()
            region = await wal_of(cw).region(7)
    assert region.tables()[42].next_sequence == 31
    assert await numbers(region, 42) == []


async def test_a_region_moves_from_node_to_node_and_back(url: str, wal_of: Open) -> None:
    for node, last in enumerate((10, 20, 30)):  # each a connection of its own, as a process has
        async with cordwood.connect(url) as cw, wal_of(cw).region(7) as region:
            assert await numbers(region, 42) == [*range(1, 10 * node + 1)]
            assert await region.write(42, payloads(last - 9, last + 1)) == range(last - 9, last + 1)
            assert await numbers(region, 42) == [*range(1, last + 1)]
