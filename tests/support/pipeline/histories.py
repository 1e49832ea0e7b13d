"""Random histories of a journal topic: records as they are in a log, with losers, zombies and foreign appends."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from cordwood.journal.action import Append, Delete, Mark, Purge
from cordwood.journal.event import Event
from cordwood.journal.fold import Poison, Told, Topic, seq_nr_of, step
from cordwood.journal.header import encode_header
from cordwood.journal.replicator import fold_batch, ids_of
from cordwood.journal.value import encode_value
from cordwood.log import Engine
from cordwood.log.partitioning import partition_of
from cordwood.records import Batch
from cordwood.store import EventStore, HeadRow, PartitionChanges

TIME_MS = 1_700_000_000_000


@dataclass
class History:
    """The records of a topic, by partition, in the order in which they are appended."""

    topic_id: str
    partitions: int
    chance: random.Random
    keys: Sequence[str] = ("a", "b", "c", "ä", "order-1", "order-2", "z")
    foreign: bool = False
    poison: bool = False
    records: dict[int, list[tuple[bytes, bytes, bytes | None, dict[str, bytes]]]] = field(default_factory=dict)
    states: dict[str, HeadRow | None] = field(default_factory=dict)
    appends: int = 0

    def grow(self, count: int) -> None:
        """Add so many records."""
        for _ in range(count):
            key = self.chance.choice(self.keys)
            partition = partition_of(key.encode(), self.partitions)
            offset = len(self.records.setdefault(partition, []))
            told, value = self._next(self.states.get(key))
            headers = {"by": b"me"} if self.chance.random() < 0.2 else {}
            header = b"{" if isinstance(told, Poison) else encode_header(told)
            self.records[partition].append((key.encode(), header, value, headers))
            topic = Topic(self.topic_id, partition, 10_000)
            self.states[key] = step(self.states.get(key), told, offset, TIME_MS + offset, topic).state

    def _next(self, state: HeadRow | None) -> tuple[Told, bytes | None]:
        chance = self.chance
        at, life = seq_nr_of(state), None if state is None else state.life
        what = chance.random()
        if self.poison and what < 0.03:
            return Poison("poison"), None
        if what < 0.12:
            return Delete(chance.randint(1, at + 2), life=chance.choice((life, life, "another"))), None
        if what < 0.18:
            return Purge(life=chance.choice((life, life, "another"))), None
        if what < 0.22:
            return Mark("m"), None
        stale = chance.random() < 0.2
        first = max(1, at + (chance.randint(-2, 2) if stale else 1))
        events = [self._event() for _ in range(chance.randint(1, 3))]
        self.appends += 1
        metadata = b'{"by":"me"}' if chance.random() < 0.3 else None
        expiry = timedelta(days=3) if chance.random() < 0.1 else None
        payload_type, value = encode_value(events, first, expiry, metadata)
        theirs = self.foreign and chance.random() < 0.3
        return (
            Append(
                first,
                first + len(events) - 1,
                payload_type,
                id=None if theirs else f"append-{self.appends}",
                expected=None if theirs else first - 1,
            ),
            value,
        )

    def _event(self) -> Event:
        tags = {"paid"} if self.chance.random() < 0.3 else frozenset[str]()
        number = self.chance.randint(0, 999)
        match self.chance.randint(0, 3):
            case 0:
                return Event.json({"n": number}, tags=tags)
            case 1:
                return Event.text(f"é{number}", tags=tags)
            case 2:
                return Event.binary(b"\xff%d" % number, tags=tags)
        return Event.empty(tags=tags)

    async def append_to(self, engine: Engine, topic: str) -> dict[int, int]:
        """Append what the log does not have yet; the ends of the partitions."""
        ends = {}
        for partition in range(self.partitions):
            log = engine.log(topic, partition, timeout=30)
            records = self.records.get(partition, [])
            _, end = await log.bounds()
            new = records[end:]
            if new:
                batch = Batch.of(
                    [value for _, _, value, _ in new],
                    keys=[key for key, *_ in new],
                    headers=[[("journal.action", header), *more.items()] for _, header, _, more in new],
                    timestamps=[TIME_MS + offset for offset in range(end, len(records))],
                )
                await log.append(batch)
            ends[partition] = len(records)
        return ends


async def replicate_through(engine: Engine, store: EventStore, topic: Topic, name: str, offset: int) -> None:
    """Replicate one partition up to this offset, as a replicator does that is stopped then."""
    after = (await store.pointers(name)).get(topic.partition)
    start = 0 if after is None else after + 1
    if offset < start:
        return
    log = engine.log(name, topic.partition, timeout=30)
    async with log.read(start, offset + 1) as reader:
        async for batch in reader:
            heads = await store.heads(name, ids_of(batch))
            folded = fold_batch(batch, heads, topic, name)
            assert folded.records == len(batch)
            pointer = batch.offsets[-1]
            changes = PartitionChanges(name, topic.partition, after, pointer, folded.keys, folded.dead_letters)
            assert await store.write(changes)
            after = pointer
