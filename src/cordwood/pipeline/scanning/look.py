"""The state of a journal topic and its store, as a job sees it when it is planned. Nothing is written (R16)."""

import asyncio
from collections.abc import Mapping

import msgspec

from cordwood.client import connect
from cordwood.errors import Conflict, Corrupt, Trimmed
from cordwood.journal.fold import Topic
from cordwood.journal.look import check_open
from cordwood.pipeline.places import TIMEOUT_SECONDS, LogPlace, StorePlace
from cordwood.store import Binding, EventStore

_AGREE_SECONDS = 3.0
_SEGMENT_SIZE = 10_000


class Planned(msgspec.Struct, frozen=True):
    """A topic: what its store has, and where its logs end. R41: the pointers were read before anything else."""

    topic: str
    topic_id: str
    partitions: int
    segment_size: int
    pointers: Mapping[int, int]
    """Of each partition; -1 if nothing of it is replicated."""
    starts: Mapping[int, int]
    ends: Mapping[int, int]
    closed: Mapping[str, str]
    """The keys that a record at or below the pointer closes (R43), with the error of a read."""

    def facts(self, partition: int) -> Topic:
        """The facts that the fold needs."""
        return Topic(self.topic_id, partition, self.segment_size)

    @property
    def head(self) -> dict[int, tuple[int, int]]:
        """The records of each partition that the store did not have; partitions without some are left out."""
        return {
            partition: (pointer + 1, self.ends[partition])
            for partition, pointer in self.pointers.items()
            if pointer + 1 < self.ends[partition]
        }


async def look(log: LogPlace, store: StorePlace, topic: str) -> Planned:
    """Look at a topic and its store; `Trimmed` if the log starts after the first record that the store lacks (R42)."""
    async with connect(log.url, config=log.config, read_only=True, timeout=TIMEOUT_SECONDS) as client:
        info = await client.topic(topic)
        async with await store.open() as events:
            binding = await events.binding(topic)
            check_bound(binding, topic, info.id, info.partitions, store.url)
            agreed: object = None
            while True:
                stored = await events.pointers(topic)
                pointers = {partition: stored.get(partition, -1) for partition in range(info.partitions)}
                bounds = [await client.log(topic, partition).bounds() for partition in range(info.partitions)]
                lost = _lost(topic, pointers, bounds, store)
                if lost is None:
                    break
                # A trim or a new leader may explain it: the answer must be the same a second time.
                if agreed == (pointers, bounds):
                    raise lost
                agreed = (pointers, bounds)
                await asyncio.sleep(0 if log.is_folder or isinstance(lost, Trimmed) else _AGREE_SECONDS)
            closed = await _closed(events, topic, pointers)
    return Planned(
        topic,
        info.id,
        info.partitions,
        _SEGMENT_SIZE if binding is None else binding.segment_size,
        pointers,
        {partition: start for partition, (start, _) in enumerate(bounds)},
        {partition: end for partition, (_, end) in enumerate(bounds)},
        closed,
    )


def check_bound(binding: Binding | None, name: str, id: str, partitions: int, store: str) -> None:
    """R23: `Conflict` if the store has another topic of this name."""
    if binding is not None and (binding.topic_id, binding.partitions) != (id, partitions):
        raise Conflict(
            f"topic {name!r} was created again, or got other partitions: {store} has topic id {binding.topic_id} with"
            f" {binding.partitions} partitions, and it is {id} with {partitions} now. Name the store that it is"
            " replicated to"
        )


def _lost(
    topic: str, pointers: Mapping[int, int], bounds: list[tuple[int, int]], store: StorePlace
) -> Trimmed | Conflict | None:
    for partition, (start, end) in enumerate(bounds):
        pointer = pointers[partition]
        if start > pointer + 1:
            return Trimmed(
                f"{topic}/{partition} starts at {start}, and the store {store.url} has it only up to {pointer}: records"
                f" {pointer + 1} to {start - 1} were never replicated; catch_up(accept_loss=True) accepts the loss",
                start=start,
            )
        if pointer >= end:
            return Conflict(
                f"{topic}/{partition} ends at {end}, and the store {store.url} has it up to {pointer}: the topic was"
                " deleted and created again, or the store belongs to another one"
            )
    return None


async def _closed(store: EventStore, topic: str, pointers: Mapping[int, int]) -> dict[str, str]:
    """R43: a key is closed by a dead letter, so their ids are all candidates."""
    letters = await store.dead_letters(topic)
    ids = sorted({letter.id for letter in letters if letter.id is not None and letter.skipped is None})
    found: dict[str, str] = {}
    for id, head in (await store.heads(topic, ids)).items():
        if head.closed is None or head.closed.offset > pointers.get(head.closed.partition, -1):
            continue
        try:
            check_open(head, topic, id)
        except Corrupt as error:
            found[id] = str(error)
    return found
