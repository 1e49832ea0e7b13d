"""The lines that an operator reads: the logger `cordwood.wal`, a line for each thing that happens to a region."""

import logging
import re

import pytest

import cordwood
from cordwood import Client, Fenced, TableEntries
from cordwood.simulation.faulty_log import lose_end
from tests.support.wal.region_internals import data_of

pytestmark = pytest.mark.parametrize("engine", ["embedded"])


@pytest.fixture(autouse=True)
def all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "cordwood.wal")


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> list[str]:
    """Those of the region since the last call, without their seconds."""
    own = [record.getMessage() for record in caplog.records if (record.name, record.levelno) == ("cordwood.wal", level)]
    caplog.clear()
    return [re.sub(r"\d+\.\d{3} s", "_ s", line) for line in own]


async def test_an_open_names_the_owner_id_the_tables_and_the_live_entries(
    cw: Client, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with cw.wal("metrics").region(7) as region:
        assert lines(caplog) == ["region 7 in metrics_data_7/0 is open in _ s: owner id 0, 0 tables, 0 live entries"]
        await region.write_many({1: [b"a", b"b", b"c"], 2: [b"d"], 3: [b"e"]})
        await region.mark_deleted(1, through=1)
        await region.drop_table(3)
    lines(caplog)
    async with cw.wal("metrics").region(7) as region:
        owner = data_of(region).owner
        assert lines(caplog) == [
            f"region 7 in metrics_data_7/0 is open in _ s: owner id {owner}, 2 tables, 3 live entries"
        ]
        await cw.wal("metrics").region(7)
        assert len(lines(caplog)) == 1
    async with cordwood.connect(url, read_only=True) as beside, beside.wal("metrics").region(7):
        assert lines(caplog)[-1] == "region 7 in metrics_data_7/0 is open in _ s: read-only, 2 tables, 3 live entries"
    async with cw.wal("other", codec="rfc").region(7):
        assert lines(caplog) == ["region 7 in other_data_7/0 is open in _ s: no owner id, 0 tables, 0 live entries"]


async def test_a_recovery_says_what_was_applied_skipped_and_failed(
    cw: Client, caplog: pytest.LogCaptureFixture
) -> None:
    async def apply(table: int, entries: TableEntries) -> None:
        if table == 3:
            raise OSError("no memory")

    async with cw.wal("metrics").region(7) as region:
        await region.write_many({1: [b"a", b"b"], 2: [b"c"], 3: [b"d"]})
        lines(caplog)
        await region.recover(apply, tables=[1, 3])
        assert lines(caplog) == [
            "region 7 in metrics_data_7/0 is recovered in _ s: 2 entries applied, 1 skipped, 1 tables failed"
        ]


async def test_a_clean_says_up_to_which_offset_it_trimmed(cw: Client, caplog: pytest.LogCaptureFixture) -> None:
    async with cw.wal("metrics").region(7) as region:
        for _ in range(3):
            await region.write(1, [b"a"])
        await region.mark_deleted(1, through=2)
        lines(caplog)
        await region.clean()
        await region.clean()
        assert lines(caplog) == ["metrics_data_7/0: trimmed to 3, from 0"], "there was nothing to do the second time"


@pytest.mark.parametrize("by", ["a write", "a mark"])
async def test_a_fenced_owner_says_once_which_owner_id_has_the_region(
    cw: Client, caplog: pytest.LogCaptureFixture, by: str
) -> None:
    old = await cw.wal("metrics").region(7)
    await old.write(1, [b"a"])
    newer = await cw.wal("metrics").region(7)
    lines(caplog)
    for _ in range(2):
        with pytest.raises(Fenced):
            await (old.write(1, [b"b"]) if by == "a write" else old.mark_deleted(1, through=1))
    (line,) = lines(caplog)
    owner = data_of(newer).owner
    assert re.match(
        rf"region 7 in metrics_data_7/0 is fenced: region 7 .*was opened by \S+:\d+ at offset {owner}\b", line
    )


async def test_a_loss_is_a_warning_with_the_lost_numbers(cw: Client, caplog: pytest.LogCaptureFixture) -> None:
    async with cw.wal("metrics").region(7) as region:
        for _ in range(5):
            await region.write(1, [b"a"])
    await lose_end(cw, "metrics_data_7", 2)
    async with cw.wal("metrics").region(7):
        assert lines(caplog, logging.WARNING) == [
            "metrics_data_7/0 lost its end, and these entries are lost: table 1: 4 to 5"
        ]
