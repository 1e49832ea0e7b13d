"""Reads of a region whose log is shorter than it was: its own records tell a loss, not the place of a read."""

from pathlib import Path

import pytest

import cordwood
from cordwood import Batch, Client, InvalidInput
from cordwood.simulation.faulty_log import lose_end
from cordwood.wal.formats.up_to_end import read_up_to_end


@pytest.mark.parametrize(("start", "stop", "count"), [(0, None, 3), (1, 2, 1), (3, None, 0), (4, None, 0), (7, 9, 0)])
async def test_behind_the_end_there_is_nothing_to_read(
    tmp_path: Path, start: int, stop: int | None, count: int
) -> None:
    async with cordwood.connect(tmp_path) as cw:
        await cw.create_topic("events")
        await cw.log("events").append(Batch.of([b"a", b"b", b"c"]))
        async with read_up_to_end(cw.log("events"), start, stop) as reader:
            assert sum([len(batch) async for batch in reader]) == count
        if start > 3:
            with pytest.raises(InvalidInput):
                await anext(cw.log("events").read(start, stop))


@pytest.mark.parametrize("engine", ["embedded"])
async def test_a_table_whose_logs_are_lost_with_the_end_reads_as_empty(cw: Client) -> None:
    region = await cw.wal("metrics", clean_every=None).region(7)
    for table in (42, 43, 44, 44):
        await region.write(table, [b"a"])
    await lose_end(cw, "metrics_data_7", 3)
    async with region.read(44) as reader:
        assert [logs async for logs in reader] == []
    async with region.read(42) as reader:
        assert [logs.sequences async for logs in reader] == [range(1, 2)]
