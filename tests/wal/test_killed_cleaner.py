"""The owner of a region is killed, or paused while another takes it, in the middle of marks, snapshots and cleaning."""

import asyncio
import random
import time

import pytest

import cordwood
from cordwood import Client
from tests.support.crash.programs import program
from tests.support.wal.cleaning_owner import POINTS
from tests.support.wal.region_model import Model

pytestmark = pytest.mark.processes


def hear(model: Model, lines: list[list[str]]) -> None:
    """Of each table an owner does one thing after the other, so the last change that has no end is undecided."""
    for word, *rest in lines:
        if word == "write":
            model.maybe_written.update(payload.encode() for payload in rest[1:])
        elif word == "ack":
            table, first, payloads = int(rest[0]), int(rest[1]), [payload.encode() for payload in rest[2:]]
            assert first > model.last(table), "a number came back"
            model.logs.setdefault(table, {}).update(enumerate(payloads, first))
            model.maybe_written.difference_update(payloads)
            model.dropped.discard(table)
        elif word == "delete":
            model.maybe_deleted[int(rest[0])] = model.last(int(rest[0]))
        elif word in ("marked", "dropped"):
            table, through = int(rest[0]), int(rest[1])
            model.deleted[table] = max(model.deleted.get(table, 0), through)
            model.maybe_deleted.pop(table, None)
            if word == "dropped":
                model.dropped.add(table)


async def check(url: str, model: Model, codec: str, *, read_only: bool) -> None:
    async with (
        cordwood.connect(url, read_only=read_only) as cw,
        cw.wal("metrics", codec=codec, clean_every=None).region(7, create=False) as region,
    ):
        await (model.check(region) if read_only else model.settle(region))


def live_and_die(url: str, model: Model, codec: str, chance: random.Random) -> int:
    with program("tests.support.wal.cleaning_owner", url, "-", codec) as owner:
        owner.wait_for("opened")
        time.sleep(chance.choice((0, 0.05, 0.2, 0.6)) * chance.random())
        owner.kill()
    hear(model, owner.lines)
    return sum(line[0] in ("marked", "dropped") for line in owner.lines)


async def test_an_owner_killed_while_it_cleans_loses_and_revives_nothing(url: str, kills: int) -> None:
    await kill_again_and_again(url, "cordwood", kills)


@pytest.mark.parametrize("engine", ["embedded"])  # on Kafka a write of several records may be cut
async def test_nor_does_one_that_keeps_the_proposal_s_marks(url: str, kills: int) -> None:
    await kill_again_and_again(url, "rfc", max(3, kills // 3))
    async with cordwood.connect(url, read_only=True) as cw:
        assert (await cw.log("metrics_meta_7").bounds())[0] > 0, "marks were trimmed"


async def kill_again_and_again(url: str, codec: str, lives: int) -> None:
    chance = random.Random("cleaning kills")
    model = Model()
    marks = 0
    for _ in range(lives):
        marks += await asyncio.to_thread(live_and_die, url, model, codec, chance)
        if chance.random() < 0.5:
            await check(url, model, codec, read_only=True)
        await check(url, model, codec, read_only=False)
    assert marks > 0


@pytest.mark.parametrize("engine", ["kafka"])
@pytest.mark.parametrize("point", POINTS)
async def test_r12_a_paused_owner_marks_and_trims_nothing_of_the_newer_one(url: str, cw: Client, point: str) -> None:
    model = Model()
    with program("tests.support.wal.cleaning_owner", url, point, "cordwood") as zombie:
        await asyncio.to_thread(zombie.wait_paused)
        newer = await cw.wal("metrics", clean_every=None).region(7)
        hear(model, zombie.lines)
        await model.settle(newer)
        for table in range(6):
            await model.write(newer, table, 2)
        await model.mark(newer, 0, model.last(0) - 1)
        await newer.clean()
        zombie.resume()
        await asyncio.to_thread(zombie.wait_for, "ended")
        assert [line[1:] for line in zombie.lines if line[0] == "ended"] == [["Fenced"]]
        assert not [line for line in zombie.lines if line[0] == "ack" and int(line[2]) > model.last(int(line[1]))]
        await model.check(newer)
        await model.write(newer, 1, 1)
        await newer.close()
    async with cw.wal("metrics").region(7) as again:
        await model.settle(again)
