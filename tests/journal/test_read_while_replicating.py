"""Reads are exact while a process replicates, falls behind, and is killed at any moment."""

import asyncio
import random
from datetime import timedelta

import pytest

from cordwood import Journal
from tests.support.crash.programs import program
from tests.support.journal.journals import TOPIC, Journals, append, read_texts
from tests.support.journal.stored_rows import rebuilt_rows, rows_of_log

pytestmark = pytest.mark.processes

SEGMENT_SIZE = 3
KEYS = 4


class Entity:
    """One journal with one writer, and a model of it: after each operation a read must agree."""

    def __init__(self, journal: Journal, key: str, chance: random.Random) -> None:
        self._journal = journal
        self._key = key
        self._chance = chance
        self._events: dict[int, str] = {}
        self._last = 0
        self._operations = 0

    async def step(self) -> None:
        await self._change()
        await self.check()

    async def check(self) -> None:
        assert await read_texts(self._journal, self._key) == self._events
        assert await self._journal.pointer(self._key) == (self._last or None)
        start = self._chance.randint(1, self._last + 1)
        found = await read_texts(self._journal, self._key, start)
        assert found == {n: text for n, text in self._events.items() if n >= start}

    async def _change(self) -> None:
        choice = self._chance.random()
        if choice < 0.7 or not self._last:
            self._operations += 1
            texts = [f"{self._key} {self._operations}.{n}" for n in range(self._chance.randint(1, 4))]
            done = await append(self._journal, self._key, *texts)
            self._events |= dict(zip(done.seq_nrs, texts, strict=True))
            self._last = done.seq_nrs[-1]
        elif choice < 0.9:
            through = self._chance.randint(1, self._last)
            await self._journal.delete(self._key, through=through)
            self._events = {n: text for n, text in self._events.items() if n > through}
        else:
            await self._journal.purge(self._key)
            self._events, self._last = {}, 0


@pytest.mark.parametrize("keep", [None, timedelta(0)])
async def test_reads_agree_while_the_replicator_is_killed(
    journals: Journals, keep: timedelta | None, pytestconfig: pytest.Config
) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    # The head keeps few values: reads need log and store.
    journal = await journals.open(segment_size=SEGMENT_SIZE, keep=keep, head_bytes_max=2000)
    entities = [Entity(journal, f"key-{n}", chance) for n in range(KEYS)]
    for entity in entities:
        await entity.step()
    trimmer = (await journal._open()).trimmer
    urls = journals.kind.log_url, journals.kind.store_url

    async def work(entity: Entity, killed: asyncio.Event) -> None:
        while not killed.is_set():
            await entity.step()

    async def trim(killed: asyncio.Event) -> None:
        while trimmer is not None and not killed.is_set():
            await trimmer.trim()
            await entities[0].check()

    for _ in range(max(1, pytestconfig.getoption("kills") // 5)):
        killed = asyncio.Event()
        with program("tests.support.journal.other_process", *urls, "replicate", TOPIC, SEGMENT_SIZE, "never") as output:
            work_of_all = [asyncio.ensure_future(work(entity, killed)) for entity in entities[1:]]
            work_of_all.append(asyncio.ensure_future(trim(killed)))
            await asyncio.to_thread(output.wait_for_a_line)
            await asyncio.sleep(chance.uniform(0, 0.3))
            output.kill()
            killed.set()
            await asyncio.gather(*work_of_all)
    await journal.catch_up()
    for entity in entities:
        await entity.check()
    if keep is None:  # else the log has no longer all that the store has
        assert rows_of_log(journals) == await rebuilt_rows(journals, segment_size=SEGMENT_SIZE)
