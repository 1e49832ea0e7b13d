"""What an open makes of a region whose data log lost records."""

import logging
from pathlib import Path

import pytest

import cordwood
from cordwood import Client
from cordwood.wal.formats.cordwood.data_log import DataLog
from cordwood.wal.formats.cordwood.meta_log import MetaLog
from cordwood.wal.formats.cordwood.restore import _merge, restore, take_over
from cordwood.wal.state.fence import Fence
from cordwood.wal.state.state import RegionState, TableState


def table(next_sequence: int) -> TableState:
    state = TableState()
    state.next_sequence = next_sequence
    return state


@pytest.mark.parametrize(("start", "next_sequence"), [(11, 15), (10, 4)])
def test_r15_after_a_blind_loss_a_table_continues_above_the_running_count(start: int, next_sequence: int) -> None:
    known = RegionState(next_offset=10, table_states={43: table(4)})
    rest = RegionState(start, Fence(start, running_count=14))
    _merge(rest, known, start)
    assert rest.table_states[43].next_sequence == next_sequence


def logs_of(cw: Client) -> tuple[DataLog, MetaLog]:
    return DataLog(cw.log("metrics_data_7"), 7, "a test"), MetaLog(cw.log("metrics_meta_7"), 7)


async def lose_the_data_log(cw: Client) -> None:
    await cw.delete_topic("metrics_data_7")
    await cw.create_topic("metrics_data_7")


async def test_a_loss_is_reported_once_also_if_its_finder_made_no_snapshot(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cordwood.connect(tmp_path) as cw:
        async with cw.wal("metrics").region(7) as region:
            await region.write(42, [b"entry"] * 30)
        await lose_the_data_log(cw)
        with caplog.at_level(logging.WARNING, "cordwood.wal"):
            # Taken over and killed: nobody makes the snapshot that an owner makes next.
            assert (await take_over(*logs_of(cw))).lost == {42: range(1, 31)}
            assert "lost its end" in caplog.text
            caplog.clear()
            again = await restore(*logs_of(cw))
            assert (again.lost, again.shortened, caplog.text) == ({}, False, "")
            await lose_the_data_log(cw)
            assert (await restore(*logs_of(cw))).lost == {42: range(1, 31)}
            assert "lost its end" in caplog.text
