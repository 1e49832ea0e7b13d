"""Reading a region: whole, and by table and range; beside its owner; and damaged."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cordwood
from cordwood import Batch, Client, Corrupt, InvalidInput, NotFound, Unavailable
from tests.support.wal.region_contents import by_table, taken


async def test_a_range_is_half_open_whatever_writes_it_cuts(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        for n in range(1, 11, 2):
            await region.write_many({42: [b"%d" % n, b"%d" % (n + 1)], 43: [b"other"]})
        for start in range(1, 13):
            for stop in (*range(start, 13), None):
                got = [(s, p) for _, numbers, payloads in await taken(region.read(42, start, stop))
                       for s, p in zip(numbers, payloads, strict=True)]  # fmt: skip
                end = 11 if stop is None else min(stop, 11)
                assert got == [(n, b"%d" % n) for n in range(start, end)], (start, stop)
        assert await taken(region.read(44)) == []


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    writes=st.lists(st.tuples(st.integers(0, 3), st.lists(st.binary(max_size=8), min_size=1, max_size=5)), max_size=40),
    start=st.integers(1, 60),
)
async def test_reading_a_table_is_the_replay_of_that_table(
    cw: Client, writes: list[tuple[int, list[bytes]]], start: int
) -> None:
    async with cw.wal("metrics").region(7) as region:
        for table, payloads in writes:
            await region.write(table, payloads)
        tables = await by_table(region)
        for table in range(4):
            read = {s: p for _, numbers, payloads in await taken(region.read(table, start))
                    for s, p in zip(numbers, payloads, strict=True)}  # fmt: skip
            assert read == {s: p for s, p in tables.get(table, {}).items() if s >= start}


async def test_a_table_with_many_writes_is_found_through_its_thinned_mapping(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        for n in range(300):
            await region.write_many({42: [b"%d" % n], 43: [b"other"] * 3})
        for start in (1, 2, 150, 299, 300, 301):
            got = [payloads for _, _, payloads in await taken(region.read(42, start))]
            assert got == [[b"%d" % n] for n in range(start - 1, 300)]


async def test_numbers_below_1_are_refused(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        with pytest.raises(InvalidInput, match="start is 0: sequence numbers begin at 1"):
            region.read(42, 0)
        with pytest.raises(InvalidInput, match="stop is -1"):
            region.read(42, stop=-1)


async def test_a_reader_ends_where_the_region_ended_at_the_call(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        await region.write(42, [b"a"])
        whole, one = region.replay(), region.read(42)
        await region.write(42, [b"b"])
        assert len(await taken(whole)) == len(await taken(one)) == 1


async def test_a_reader_can_be_left_early_and_closed_twice(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        for _ in range(3):
            await region.write(42, [b"a"])
        reader = region.replay()
        assert (await anext(reader)).sequences == range(1, 2)
        await reader.close()
        await reader.close()
        with pytest.raises(StopAsyncIteration):
            await anext(reader)


async def test_r16_a_read_only_opening_sees_the_region_and_fences_nobody(url: str, cw: Client) -> None:
    async with (
        cw.wal("metrics").region(7) as owner,
        cordwood.connect(url, read_only=True) as beside,
    ):
        await owner.write(42, [b"a"])
        end = (await cw.log("metrics_data_7").bounds())[1]
        reading = await beside.wal("metrics").region(7)
        assert await by_table(reading) == {42: {1: b"a"}}
        assert reading.tables()[42].next_sequence == 2
        assert (await cw.log("metrics_data_7").bounds())[1] == end, "it has appended something"
        with pytest.raises(Unavailable, match="read_only=True") as refused:
            await reading.write(42, [b"x"])
        assert refused.value.outcome == "not_written"
        assert await owner.write_many({42: [b"b"], 43: [b"c"]}) == {42: range(2, 3), 43: range(1, 2)}
        assert await taken(reading.read(42)) == [(42, range(1, 2), [b"a"]), (42, range(2, 3), [b"b"])]
        assert await taken(reading.read(43)) == [(43, range(1, 2), [b"c"])], "a table that it did not know"
        with pytest.raises(NotFound):
            await beside.wal("metrics").region(8)
        assert await beside.wal("metrics").regions() == [7]


async def test_what_is_no_record_of_a_region_is_damage_with_its_place(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        await region.write(42, [b"a"])
        await cw.log("metrics_data_7").append(Batch.of([b"not ours", None]))
        with pytest.raises(Corrupt, match=r"metrics_data_7/0 at offset 2: version 110 of a record"):
            await by_table(region)
    with pytest.raises(Corrupt, match=r"metrics_data_7/0 at offset 2"):
        await cw.wal("metrics").region(7)


@pytest.mark.parametrize("engine", ["embedded"])
async def test_a_bit_that_turned_in_a_file_is_damage_with_its_place(cw: Client, tmp_path: Path) -> None:
    async with cw.wal("metrics").region(7) as region:
        await region.write(42, [b"wood that lies dry"])
        _change_in_a_file(tmp_path, b"wood that lies dry", b"food that lies dry")
        with pytest.raises(Corrupt, match=r"plog \S+ is damaged at byte \d+"):
            await by_table(region)


@pytest.mark.parametrize("engine", ["kafka"])
async def test_a_record_with_a_wrong_crc_is_damage_with_its_place(cw: Client) -> None:
    """A broker does not look at it, and a client by default not at the broker's."""
    async with cw.wal("metrics").region(7) as region:
        await region.write(42, [b"wood that lies dry"])
        (batch,) = [batch async for batch in cw.log("metrics_data_7").read(1)]
        (value,) = batch.values
        assert value is not None
        await cw.log("metrics_data_7").append(Batch.of([value.replace(b"wood", b"food")]))
        with pytest.raises(Corrupt, match=r"metrics_data_7/0 at offset 2: the record's CRC is"):
            await by_table(region)


async def test_r15_a_region_that_was_cut_keeps_the_rest_and_reuses_no_number(
    cw: Client, caplog: pytest.LogCaptureFixture
) -> None:
    async with cw.wal("metrics").region(7) as region:
        await region.write(42, [b"a"] * 9)
        await region.write(43, [b"b"] * 5)
        await region.write(44, [b"c"])
    await cw.log("metrics_data_7").trim(before=2)
    async with cw.wal("metrics").region(7) as region:
        assert "metrics_data_7/0 was cut before offset 2" in caplog.text
        assert {table: list(entries) for table, entries in (await by_table(region)).items()} == {
            43: [*range(1, 6)],
            44: [1],
        }
        assert await region.write(43, [b"d"]) == range(6, 7)
        assert (await region.write(42, [b"e"])).start > 9
    await cw.log("metrics_data_7").trim(before=(await cw.log("metrics_data_7").bounds())[1] - 1)
    async with cw.wal("metrics").region(7) as region:
        for table, last in ((42, 10), (43, 6), (44, 1)):
            assert (await region.write(table, [b"f"])).start > last


def _change_in_a_file(folder: Path, old: bytes, new: bytes) -> None:
    (file,) = [path for path in folder.rglob("*.plog") if old in path.read_bytes()]
    with file.open("r+b") as damaged:
        damaged.seek(file.read_bytes().index(old))
        damaged.write(new)
