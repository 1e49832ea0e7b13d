"""`pipeline.lag`: how far a store is behind its topics."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

from cordwood.client import Client
from cordwood.errors import Trimmed
from cordwood.store import EventStore

from .job import Places
from .places import names_of, open_events, open_log


@dataclass(frozen=True, slots=True)
class Lag:
    """How far one partition is replicated."""

    topic: str
    partition: int
    replicated: int
    """The first offset that the store does not have."""
    end: int
    records: int
    seconds: float
    """The age of the first record that the store does not have; 0 if it has all."""


async def lag(places: Places, topics: tuple[str, ...], pattern: str | None) -> list[Lag]:
    """The lag of every partition of these topics."""
    async with await open_log(places) as client, await open_events(places, read_only=True) as store:
        return [
            found
            for topic in await names_of(client, topics, pattern)
            for found in await _of_topic(client, store, topic)
        ]


async def _of_topic(client: Client, store: EventStore, topic: str) -> list[Lag]:
    info = await client.topic(topic)
    pointers = await store.pointers(topic)
    return await asyncio.gather(
        *(_of_partition(client, topic, partition, pointers.get(partition, -1)) for partition in range(info.partitions))
    )


async def _of_partition(client: Client, topic: str, partition: int, pointer: int) -> Lag:
    start, end = await client.log(topic, partition).bounds()
    following = pointer + 1
    seconds = 0.0
    if following < end:
        seconds = await _age(client, topic, partition, max(start, following))
    return Lag(topic, partition, following, end, max(0, end - following), seconds)


async def _age(client: Client, topic: str, partition: int, offset: int) -> float:
    try:
        async with client.log(topic, partition).read(offset) as reader:
            async for batch in reader:
                written = datetime.fromtimestamp(batch[0].timestamp / 1000, UTC)
                return max(0.0, (datetime.now(UTC) - written).total_seconds())
    except Trimmed as trimmed:  # since the look at its bounds
        return await _age(client, topic, partition, trimmed.start)
    return 0.0
