"""R20, R21: appends over a log that loses, delays, doubles and reorders: what is acked counts, once, in order."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from cordwood import Appended, Conflict, CordwoodError, Event, Journal, Unavailable
from cordwood.records import Batch, StoredBatch
from cordwood.simulation.faulty_log import FAULTS, FaultyEngine
from cordwood.simulation.memory import MemoryEngine, MemoryLog, MemoryPartitionsReader, MemoryStore
from tests.support.journal.handles import handle

SEEDS = 40


class Writer:
    """Appends numbered payloads through one handle, and remembers what became of each."""

    def __init__(self, name: str, journal: Journal, chance: random.Random, replicate: bool) -> None:
        self.name = name
        self.journal = journal
        self.chance = chance
        self.replicate = replicate
        self.acked: dict[str, dict[str, range]] = {}
        self.refused: set[str] = set()
        self.order: dict[str, list[str]] = {}

    async def run(self, keys: list[str], rounds: int) -> None:
        for number in range(rounds):
            pipelined = [
                self.append(self.chance.choice(keys), f"{self.name}-{number}-{place}")
                for place in range(self.chance.randint(1, 4))
            ]
            await asyncio.gather(*pipelined)
            if self.replicate and self.chance.random() < 0.3:
                await self.journal.catch_up()

    async def append(self, key: str, payload: str) -> None:
        # Before the first await: the calls of one gather are made in this order.
        self.order.setdefault(key, []).append(payload)
        try:
            if self.chance.random() < 0.3:
                done = await self.conditional(key, payload)
            else:
                done = await self.journal.append(key, [Event.text(payload)])
        except CordwoodError as error:
            if error.outcome == "not_written":
                self.refused.add(payload)
            return
        self.acked.setdefault(key, {})[payload] = done.seq_nrs

    async def conditional(self, key: str, payload: str) -> Appended:
        """With the same id and `expected` twice: the second call returns the result of the first."""
        self.order[key].remove(payload)  # its place among the others is its caller's, who read first
        for _ in range(20):
            expected = await self.journal.pointer(key) or 0
            try:
                done = await self.journal.append(key, [Event.text(payload)], expected=expected, id=payload)
            except Conflict as error:
                if error.winner == payload:
                    raise AssertionError("its own first copy refused it") from error
                continue
            with suppress(Unavailable):  # a refused repetition says nothing about the first call
                again = await self.journal.append(key, [Event.text(payload)], expected=expected, id=payload)
                assert (again.seq_nrs, again.offset) == (done.seq_nrs, done.offset)
            return done
        raise Conflict("it lost 20 times", outcome="not_written")


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_an_acked_append_counts_once_whatever_the_log_does(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    store = MemoryStore()
    engines = [FaultyEngine(MemoryEngine(store), (seed, n), odds=0.25, faults=FAULTS, part="orders") for n in range(3)]
    path = tmp_path / "store.db"
    keys = ["a", "b"]
    bytes_max = chance.choice([0, 300, 64 << 20])
    journals = [handle(engine, path, head_bytes_max=bytes_max) for engine in engines]
    writers = [
        Writer(f"w{n}", journal, random.Random(seed * 10 + n), replicate=n == 0) for n, journal in enumerate(journals)
    ]
    async with asyncio.timeout(60):
        await asyncio.gather(*(writer.run(keys, 6) for writer in writers))
        for engine in engines:
            engine.heal()
            await engine.settle()
        reader = handle(MemoryEngine(store), path)
        for key in keys:
            await check(reader, key, writers)
        await reader.catch_up()
        for key in keys:
            await check(reader, key, writers)
        for journal in [*journals, reader]:
            await journal.close()


async def check(reader: Journal, key: str, writers: list[Writer]) -> None:
    events = [event async for event in reader.read(key)]
    assert [event.seq_nr for event in events] == list(range(1, len(events) + 1))
    payloads = [str(event.payload) for event in events]
    assert not [payload for payload, times in Counter(payloads).items() if times > 1]
    for writer in writers:
        assert not writer.refused & set(payloads)
        for payload, seq_nrs in writer.acked.get(key, {}).items():
            assert payloads[seq_nrs[0] - 1] == payload
        acked = [payload for payload in writer.order.get(key, ()) if payload in writer.acked.get(key, {})]
        unconditional = [payload for payload in payloads if payload in acked]
        assert unconditional == acked


class SplittingLog(MemoryLog):
    """A log that takes a batch record by record, as Kafka may: a rival's record comes between the first two."""

    rival: Journal

    async def append(self, batch: Batch, *, expected: int | None = None, timeout: float | None = None) -> Sequence[int]:
        first = await super().append(batch[:1], expected=expected, timeout=timeout)
        if len(batch) == 1:
            return first
        await self.rival.append("b", [Event.text("rival")])
        return [*first, *await super().append(batch[1:], timeout=timeout)]


class SplittingEngine(MemoryEngine):
    log_class = SplittingLog


async def test_a_record_between_those_of_one_batch_is_seen(tmp_path: Path) -> None:
    store, path = MemoryStore(), tmp_path / "store.db"
    journal, rival = handle(SplittingEngine(store), path), handle(MemoryEngine(store), path)
    SplittingLog.rival = rival
    for key in ("a", "b"):
        await journal.append(key, [Event.text("first")])
    _, done = await asyncio.gather(*(journal.append(key, [Event.text("own")]) for key in ("a", "b")))
    assert done.seq_nrs == range(3, 4)
    for reader in (journal, rival):
        assert [event.payload async for event in reader.read("b")] == ["first", "rival", "own"]
        await reader.close()


class LateAckLog(MemoryLog):
    """A log whose ack comes after the record is replicated, and after its writer has looked at the key."""

    rival: Journal
    replicated: asyncio.Event

    async def append(self, batch: Batch, *, expected: int | None = None, timeout: float | None = None) -> Sequence[int]:
        offsets = await super().append(batch, expected=expected, timeout=timeout)
        await self.rival.catch_up()
        self.replicated.set()
        await asyncio.sleep(0.2)
        return offsets


class LateReader(MemoryPartitionsReader):
    """A tail reader that is behind the replicator."""

    async def __anext__(self) -> StoredBatch:
        await LateAckLog.replicated.wait()
        return await super().__anext__()


class LateAckEngine(MemoryEngine):
    log_class = LateAckLog
    partitions_reader_class = LateReader


async def test_an_append_that_is_replicated_before_its_ack_is_acked(tmp_path: Path) -> None:
    store, path = MemoryStore(), tmp_path / "store.db"
    journal, rival = handle(LateAckEngine(store), path, timeout=5), handle(MemoryEngine(store), path)
    LateAckLog.rival, LateAckLog.replicated = rival, asyncio.Event()
    await rival.append("a", [Event.text("first")])
    done = await journal.append("a", [Event.text("second")], expected=1)
    assert (done.seq_nrs, done.offset) == (range(2, 3), 1)
    for reader in (journal, rival):
        assert [event.payload async for event in reader.read("a")] == ["first", "second"]
        await reader.close()
