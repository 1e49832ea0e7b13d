"""R10 with real processes: an owner is paused (SIGSTOP) while another takes its region, and continues as if nothing
had been."""

import asyncio
import random
from pathlib import Path

import pytest

import cordwood
from cordwood import Client, Fenced, Region, Unavailable
from tests.support.crash.programs import Output, program
from tests.support.wal.pausing_owner import DELETED, POINTS, WRITES_MAX
from tests.support.wal.region_history import History

pytestmark = pytest.mark.processes

on_kafka = pytest.mark.parametrize("engine", ["kafka"])


def heard(history: History, lines: list[list[str]]) -> int:
    """Takes in what an owner said; how many acks it had."""
    acks = [line[1:] for line in lines if line[0] == "ack"]
    for table, first, payload in acks:
        assert history.acked.setdefault((int(table), int(first)), payload.encode()) == payload.encode(), (
            "a number is given out twice"
        )
    for outcome, payload in (line[1:] for line in lines if line[0] == "failed"):
        {"not_written": history.refused, "unknown": history.unknown}[outcome].add(payload.encode())
    return len(acks)


async def check(cw: Client, history: History) -> None:
    """A fresh look at the log, by an owner and by who only reads."""
    async with cw.wal("metrics").region(7) as region:
        await history.check(region)
        for table in region.tables():
            assert (await region.write(table, [b"and on"])).start > max(n for t, n in history.acked if t == table)


def end_of(owner: Output) -> str:
    (said,) = (line[1] for line in owner.lines if line[0] == "ended")
    return said


@on_kafka
@pytest.mark.parametrize("point", [point for point, (append, _) in POINTS.items() if append])
async def test_r10_an_owner_that_was_paused_acks_nothing_that_is_lost(url: str, cw: Client, point: str) -> None:
    history = History()
    with program("tests.support.wal.pausing_owner", url, point, 1) as zombie:
        await asyncio.to_thread(zombie.wait_paused)
        newer = await cw.wal("metrics").region(7)
        for n in range(3):
            assert await history.write(newer, 0, [b"newer.%d" % n]) is None
        zombie.resume()
        await asyncio.to_thread(zombie.wait_for, "ended")
        if point == "while it opens, before its owner record":
            # It is the newest owner, and has read the writes of its pause.
            assert end_of(zombie) == "-"
            assert heard(history, zombie.lines) == WRITES_MAX
            assert isinstance(await history.write(newer, 0, [b"fenced"]), Fenced)
        else:
            assert end_of(zombie) == "Fenced"
            acks = heard(history, zombie.lines)
            fewest = {"while it opens, after its owner record": 0, "before a write is acked": 2}.get(point, 1)
            assert acks in ((fewest, fewest + 1) if point == "while a write is on its way" else (fewest,))
            assert await history.write(newer, 0, [b"still mine"]) is None
    await check(cw, history)


@on_kafka
async def test_r12_an_owner_paused_before_a_trim_takes_nothing_from_the_next(url: str, cw: Client) -> None:
    history = History()
    with program("tests.support.wal.pausing_owner", url, "between snapshot and trim", 1) as zombie:
        await asyncio.to_thread(zombie.wait_paused)
        newer = await cw.wal("metrics").region(7)
        assert newer.tables()[0].deleted_through == DELETED
        start, _ = await cw.log("metrics_data_7").bounds()
        for n in range(3):
            assert await history.write(newer, 0, [b"newer.%d" % n]) is None
        zombie.resume()
        await asyncio.to_thread(zombie.wait_for, "ended")
        assert ["cleaned"] in zombie.lines
        assert end_of(zombie) == "Fenced"
        assert heard(history, zombie.lines) == WRITES_MAX
    assert (await cw.log("metrics_data_7").bounds())[0] > start
    for number in range(1, DELETED + 1):
        del history.acked[0, number]
    await history.check(newer)
    await check(cw, history)


@on_kafka
async def test_r10_owners_that_are_paused_under_load_ack_nothing_that_is_lost(url: str, cw: Client) -> None:
    history = History()
    chance = random.Random("pauses")

    async def write_some(region: Region, turn: int) -> None:
        for step in range(5):
            assert await history.write(region, step % 3, [b"newer.%d.%d" % (turn, step)]) is None

    for turn in range(4):
        with program("tests.support.wal.pausing_owner", url, "never", 8) as zombie:
            await asyncio.to_thread(zombie.wait_for, "ack")
            await asyncio.sleep(0.1 * chance.random())  # anywhere in its work
            await asyncio.to_thread(zombie.pause)
            newer = await cw.wal("metrics").region(7)
            await write_some(newer, turn)
            zombie.resume()
            await asyncio.to_thread(zombie.wait_for, "ended")
            assert end_of(zombie) == "Fenced"
            assert heard(history, zombie.lines)
            await newer.close()
    await check(cw, history)


async def test_a_paused_process_keeps_its_folder(tmp_path: Path) -> None:
    url = f"file:{tmp_path / 'data'}"
    with program("tests.support.wal.pausing_owner", url, "before a write is acked", 1) as owner:
        await asyncio.to_thread(owner.wait_paused)
        with pytest.raises(Unavailable, match=rf"\b{owner.process.pid}\b"):
            await cordwood.connect(url)
        owner.resume()
        await asyncio.to_thread(owner.wait_for, "ended")
        assert end_of(owner) == "-"
    history = History()
    assert heard(history, owner.lines) == WRITES_MAX
    async with cordwood.connect(url) as cw:
        await check(cw, history)
