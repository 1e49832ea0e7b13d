"""Conditional appends race: each number is won once, without lock or service, and all readers agree."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

import cordwood
from cordwood import Appended, Conflict, Event
from cordwood.testing.kafka import Broker
from tests.support.journal.racing import PARTITIONS, TOPIC, Racer, agree

WRITERS = 8
_SECONDS = 240


async def test_each_number_is_won_once_by_eight_handles(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    tries = pytestconfig.getoption("races") // WRITERS
    async with cordwood.connect(f"file:{tmp_path}") as cw:
        # One handle replicates, as the default does; the others only append.
        racers = [Racer(n, cw.journal(TOPIC, partitions=PARTITIONS, replicate=n == 0)) for n in range(WRITERS)]
        await asyncio.gather(*(racer.race(tries) for racer in racers))
        won: dict[tuple[str, int], str] = {}
        for racer in racers:
            assert not won.keys() & racer.won.keys()
            won.update(racer.won)
        assert sum(racer.lost for racer in racers)
        for racer in (racers[0], racers[-1]):
            await agree(racer.journal, won)
        await racers[0].journal.catch_up()
        await agree(racers[1].journal, won)
    async with cordwood.connect(f"file:{tmp_path}") as cw:
        await agree(cw.journal(TOPIC, partitions=PARTITIONS), won)


async def test_only_one_of_the_appends_with_one_condition_is_written(tmp_path: Path) -> None:
    async with cordwood.connect(f"file:{tmp_path}") as cw:
        journal = cw.journal(TOPIC, partitions=1, replicate=False)
        calls = [journal.append("A", [Event.text(str(n))], expected=0, id=f"id-{n}") for n in range(8)]
        done, *lost = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(done, Appended)
        assert done.seq_nrs == range(1, 2)
        for error in lost:
            assert isinstance(error, Conflict)
            assert (error.actual, error.winner, error.outcome) == (1, "id-0", "not_written")
        assert await cw.log(TOPIC).bounds() == (0, 1)


@pytest.mark.parametrize("turns", range(6))
async def test_the_next_append_takes_the_place_of_one_that_was_given_up(tmp_path: Path, turns: int) -> None:
    async with cordwood.connect(f"file:{tmp_path}") as cw:
        journal = cw.journal(TOPIC, partitions=1, replicate=False)
        await journal.append("other", [Event.empty()])
        given_up = asyncio.ensure_future(journal.append("A", [Event.text("1")], expected=0, id="given up"))
        rival = asyncio.ensure_future(journal.append("A", [Event.text("2")], expected=0, id="rival"))
        for _ in range(turns):
            await asyncio.sleep(0)
        given_up.cancel()
        async with asyncio.timeout(10):
            (result,) = await asyncio.gather(rival, return_exceptions=True)
        if isinstance(result, Conflict):
            assert result.winner == "given up"
        else:
            assert isinstance(result, Appended)
            assert result.seq_nrs == range(1, 2)
        assert await journal.pointer("A") == 1


@pytest.mark.processes
async def test_each_number_is_won_once_by_eight_processes(
    kafka: Broker, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    tries = pytestconfig.getoption("races") // WRITERS
    store = f"sqlite:{tmp_path / 'store.db'}"
    async with cordwood.connect(kafka.url) as cw:
        await cw.create_topic(TOPIC, partitions=PARTITIONS)
        try:
            won, lost = await _race_of_processes(kafka.url, store, tries)
            assert lost
            journal = cw.journal(TOPIC, store=store)
            await agree(journal, won)
            await journal.catch_up()
            await agree(cw.journal(TOPIC, store=store), won)
        finally:
            await cw.delete_topic(TOPIC)


def _start(number: int, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.support.journal.racing", *arguments[:2], str(number), *arguments[2:]]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


async def _race_of_processes(url: str, store: str, tries: int) -> tuple[dict[tuple[str, int], str], int]:
    racers = [_start(number, url, store, str(tries)) for number in range(WRITERS)]
    try:
        outputs = await asyncio.gather(*(asyncio.to_thread(racer.communicate, timeout=_SECONDS) for racer in racers))
    finally:
        for racer in racers:
            racer.kill()
            racer.wait()
    won: dict[tuple[str, int], str] = {}
    lost = 0
    for racer, (output, _) in zip(racers, outputs, strict=True):
        assert racer.returncode == 0
        result = json.loads(output)
        mine = {(key, seq_nr): id for key, seq_nr, id in result["won"]}
        assert not won.keys() & mine.keys()
        won.update(mine)
        lost += result["lost"]
    return won, lost


async def test_appends_without_expected_all_count_in_the_order_of_their_callers(tmp_path: Path) -> None:
    async with cordwood.connect(f"file:{tmp_path}") as cw:
        journals = [cw.journal("races", partitions=1, replicate=False) for _ in range(4)]

        async def append(handle: int, number: int) -> None:
            await journals[handle].append("key", [Event.text(f"{handle}-{number}")])

        # Not awaited one by one: each handle pipelines, and the others take numbers in between.
        await asyncio.gather(*(append(handle, number) for number in range(100) for handle in range(4)))
        events = [str(event.payload) async for event in journals[0].read("key")]
        assert len(events) == 400
        for handle in range(4):
            mine = [event for event in events if event.startswith(f"{handle}-")]
            assert mine == [f"{handle}-{number}" for number in range(100)]
