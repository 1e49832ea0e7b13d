"""Conditional appends race: each number is won once, without lock or service, and all readers agree."""

import asyncio
import random
from pathlib import Path

import cordwood
from cordwood import Conflict, Event, Journal

HANDLES = 8
KEYS = [f"key-{number}" for number in range(16)]
APPENDS = 10_000


class Racer:
    def __init__(self, number: int, journal: Journal) -> None:
        self.number = number
        self.journal = journal
        self.chance = random.Random(number)
        self.won: dict[tuple[str, int], str] = {}
        self.lost = 0

    async def race(self, tries: int) -> None:
        positions = dict.fromkeys(KEYS, 0)
        for number in range(tries):
            key = self.chance.choice(KEYS)
            id = f"{self.number}-{number}"
            try:
                done = await self.journal.append(key, [Event.text(id)], expected=positions[key], id=id)
            except Conflict as error:
                assert error.actual is not None  # noqa: PT017
                assert error.actual > positions[key]  # noqa: PT017
                positions[key] = error.actual
                self.lost += 1
            else:
                positions[key] = done.seq_nrs[-1]
                self.won[key, positions[key]] = id


async def test_each_number_is_won_once_by_eight_handles(tmp_path: Path) -> None:
    async with cordwood.connect(f"file:{tmp_path}") as cw:
        # One handle replicates, as the default does; the others only append.
        racers = [Racer(n, cw.journal("races", partitions=4, replicate=n == 0)) for n in range(HANDLES)]
        await asyncio.gather(*(racer.race(APPENDS // HANDLES) for racer in racers))
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
        await agree(cw.journal("races", partitions=4), won)


async def agree(journal: Journal, won: dict[tuple[str, int], str]) -> None:
    found = {(key, event.seq_nr): str(event.payload) for key in KEYS async for event in journal.read(key)}
    assert found == won


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
