"""Conditional appends that race: in one process, or in one of several.

python -m tests.support.journal.racing LOG_URL STORE_URL NUMBER TRIES: prints the numbers that it won, as JSON.
"""

import asyncio
import json
import random
import sys

import cordwood
from cordwood import Conflict, Event, Journal

KEYS = [f"key-{number}" for number in range(16)]
TOPIC = "races"
PARTITIONS = 4


class Racer:
    """Appends to keys by chance, each time after the number that it last heard of."""

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


async def agree(journal: Journal, won: dict[tuple[str, int], str]) -> None:
    """The journal has every number that was won, with the event of its winner, and no other."""
    found = {(key, event.seq_nr): str(event.payload) for key in KEYS async for event in journal.read(key)}
    assert found == won


async def main(log_url: str, store_url: str, number: str, tries: str) -> None:
    async with cordwood.connect(log_url) as cw:
        journal = cw.journal(TOPIC, store=store_url, partitions=PARTITIONS, replicate=number == "0")
        racer = Racer(int(number), journal)
        await racer.race(int(tries))
        await agree_on_own(journal, racer.won)
    won = [[key, seq_nr, id] for (key, seq_nr), id in racer.won.items()]
    print(json.dumps({"won": won, "lost": racer.lost}), flush=True)


async def agree_on_own(journal: Journal, won: dict[tuple[str, int], str]) -> None:
    """A reader of this process has every number that this process won: others still append."""
    found = {(key, event.seq_nr): str(event.payload) for key in KEYS async for event in journal.read(key)}
    assert won.items() <= found.items()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
