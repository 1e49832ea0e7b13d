"""Every way to split 0 to 5 events into appends, with every operation, lag, life and head: equal to a model.

One connection, one store and one key for each case: all keys write what is to be replicated, the replicator catches up,
then all keys write the rest, which stays in the head.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import pytest

import cordwood
from cordwood import Event, Journal
from tests.support.journal.journals import Journals

EVENTS_MAX = 5
LAGS = range(5)
CASES_ON_SERVERS = 300
"""Chosen by a seed: on Kafka and Cassandra a case takes longer."""
OPERATIONS: dict[str, Callable[[int], "Step | None"]] = {
    "nothing": lambda seq_nr: None,
    "delete all": lambda seq_nr: ("delete", seq_nr) if seq_nr else None,
    "delete beyond the end": lambda seq_nr: ("delete", seq_nr + 3),
    "delete the first": lambda seq_nr: ("delete", 1),
    "delete all but the last": lambda seq_nr: ("delete", seq_nr - 1) if seq_nr > 1 else None,
    "purge": lambda seq_nr: ("purge", 0),
    "delete, then append": lambda seq_nr: ("delete+append", max(1, seq_nr - 1)),
    "purge, then append": lambda seq_nr: ("purge+append", 0),
}
Step = tuple[str, int]


@dataclass
class Model:
    """A journal, as its user thinks of it."""

    events: dict[int, str] = field(default_factory=dict)
    seq_nr: int = 0

    def append(self, payloads: list[str]) -> None:
        for payload in payloads:
            self.seq_nr += 1
            self.events[self.seq_nr] = payload

    def delete(self, through: int) -> None:
        self.events = {number: payload for number, payload in self.events.items() if number > through}

    def purge(self) -> None:
        self.events, self.seq_nr = {}, 0


@dataclass
class Case:
    id: str
    steps: list[Step]
    lag: int
    model: Model = field(default_factory=Model)
    made: int = 0

    async def run(self, journal: Journal, steps: list[Step]) -> None:
        for kind, number in steps:
            if kind == "append":
                payloads = [f"{self.id} {self.made + at}" for at in range(number)]
                self.made += number
                done = await journal.append(self.id, [Event.text(payload) for payload in payloads])
                self.model.append(payloads)
                assert done.seq_nrs == range(self.model.seq_nr - number + 1, self.model.seq_nr + 1)
            elif kind == "delete":
                await journal.delete(self.id, through=number)
                self.model.delete(number)
            else:
                await journal.purge(self.id)
                self.model.purge()

    async def check(self, journal: Journal) -> None:
        expected = sorted(self.model.events.items())
        reader = journal.read(self.id)
        assert [(event.seq_nr, event.payload) async for event in reader] == expected, self.steps
        pointer = self.model.seq_nr or None
        assert (reader.position.seq_nr if reader.position is not None else None) == pointer, self.steps
        assert await journal.pointer(self.id) == pointer, self.steps
        tail = [(number, payload) for number, payload in expected if 2 <= number < 5]
        assert [(event.seq_nr, event.payload) async for event in journal.read(self.id, 2, 5)] == tail, self.steps


def compositions(total: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a number as an ordered sum.

    >>> list(compositions(2))
    [(1, 1), (2,)]
    """
    if not total:
        yield ()
    for first in range(1, total + 1):
        for rest in compositions(total - first):
            yield first, *rest


def steps_of(earlier_life: bool, split: tuple[int, ...], operation: str) -> list[Step]:
    steps: list[Step] = [("append", 2), ("purge", 0)] if earlier_life else []
    steps += [("append", count) for count in split]
    operated = OPERATIONS[operation](sum(split))
    if operated is not None:
        kind, number = operated
        first, _, second = kind.partition("+")
        steps.append((first, number))
        if second:
            steps.append((second, 2))
    return steps


def all_cases() -> list[Case]:
    splits = [split for total in range(EVENTS_MAX + 1) for split in compositions(total)]
    return [
        Case(f"{number}", steps_of(earlier_life, split, operation), lag)
        for number, (earlier_life, split, operation, lag) in enumerate(product((False, True), splits, OPERATIONS, LAGS))
    ]


@pytest.mark.parametrize("head_bytes_max", [64 << 20, 0], ids=["head kept", "head not kept"])
async def test_every_case_equals_the_model(head_bytes_max: int, tmp_path: Path) -> None:
    cases = all_cases()
    async with cordwood.connect(f"file:{tmp_path}") as cw:
        journal = cw.journal("cases", replicate=False, head_bytes_max=head_bytes_max, segment_size=2)
        await together([case.run(journal, case.steps[: max(0, len(case.steps) - case.lag)]) for case in cases])
        await journal.catch_up()
        await together([case.run(journal, case.steps[max(0, len(case.steps) - case.lag) :]) for case in cases])
        await together([case.check(journal) for case in cases])
        known = {case.id for case in cases if case.model.seq_nr}
        assert {id async for id in journal.ids()} == known
        # Another process, which knows nothing from memory, sees the same; so does one that only reads.
        async with cordwood.connect(f"file:{tmp_path}", read_only=True) as other:
            reading = other.journal("cases", segment_size=2)
            await together([case.check(reading) for case in cases[::7]])
        await journal.catch_up()
        await together([case.check(journal) for case in cases])
        await together([case.run(journal, [("append", 1)]) for case in cases])
        await together([case.check(journal) for case in cases])


@pytest.mark.kinds("Kafka and Cassandra")
async def test_some_cases_equal_the_model_on_servers(journals: Journals) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    cases = random.Random(seed).sample(all_cases(), CASES_ON_SERVERS)
    journal = await journals.open("cases", segment_size=2, timeout=100)
    await together([case.run(journal, case.steps[: max(0, len(case.steps) - case.lag)]) for case in cases])
    await journal.catch_up()
    await together([case.run(journal, case.steps[max(0, len(case.steps) - case.lag) :]) for case in cases])
    await together([case.check(journal) for case in cases])
    assert {id async for id in journal.ids()} == {case.id for case in cases if case.model.seq_nr}
    await journal.catch_up()
    # Another process, which knows nothing from memory, sees the same.
    other = await journals.open("cases", segment_size=2, timeout=100)
    await together([case.check(other) for case in cases])


async def together(calls: list) -> None:  # type: ignore[type-arg]
    """Run the calls, 200 at a time."""
    for at in range(0, len(calls), 200):
        await asyncio.gather(*calls[at : at + 200])
