"""A journal's topic: its logs, its store, and the binding of the one to the other (R23)."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from cordwood.errors import Conflict
from cordwood.log.interface import Engine, Log, PartitionsReader, TopicInfo
from cordwood.store import Binding, EventStore

from .fold import Topic

OURS = "cordwood"
SCALA = "scala"
"""The kinds of replicators: one of them serves a topic."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def system_ms() -> int:
    """The time by the clock of the machine, in ms."""
    return time.time_ns() // 1_000_000


@dataclass(eq=False)
class JournalTopic:
    """A topic that is open: all parts of a journal get it. Only its binding changes, by `adopt`."""

    name: str
    info: TopicInfo
    binding: Binding
    engine: Engine
    store: EventStore
    timeout: float
    agree_seconds: float
    """How long after the first look a second one must agree, where a leader may lag; 0 where the first is exact."""
    now_ms: Callable[[], int]
    """The clock: timestamps of records, and the day of `purge_expired`."""

    @property
    def partitions(self) -> int:
        return self.info.partitions

    def check_ours(self) -> None:
        """Raise `Conflict` where the Scala library's replicator serves the topic (R23)."""
        check_ours(self.name, self.binding)

    async def adopt(self) -> None:
        """Take the topic over from the Scala library's replicator, which must be stopped (R23)."""
        if self.binding.replicator == OURS:
            return
        ends = [(await self.log(partition).bounds())[1] for partition in range(self.partitions)]
        # Above all that the other replicator has written by its clock, and all that an older base has.
        base_us = max(time.time_ns() // 1000, self.binding.base_us + max(ends))
        wanted = msgspec.structs.replace(self.binding, replicator=OURS, base_us=base_us)
        self.binding = await self.store.rebind(self.name, self.binding, wanted)
        self.check_ours()

    def log(self, partition: int) -> Log:
        return self.engine.log(self.name, partition, timeout=self.timeout)

    async def check_id(self) -> None:
        """Raise `Conflict` if the topic was deleted and created again (R23)."""
        info = await self.engine.topic(self.name, timeout=self.timeout)
        if info.id != self.info.id:
            raise Conflict(f"topic {self.name!r} was deleted and created again: open the journal with another store")

    def read(self, start: Mapping[int, int], stop: Mapping[int, int] | None = None) -> PartitionsReader:
        """Follow these partitions. R21: uncommitted, whatever the url says."""
        return self.engine.read(
            self.name,
            start,
            stop=stop,
            follow="wait",
            topic_id=self.info.id,
            uncommitted=True,
            timeout=self.timeout,
        )

    def now(self) -> datetime:
        """The time by the clock, in UTC."""
        return EPOCH + timedelta(milliseconds=self.now_ms())

    def facts(self, partition: int) -> Topic:
        """The facts that the fold needs."""
        return Topic(self.info.id, partition, self.binding.segment_size)


def check_ours(topic: str, binding: Binding) -> None:
    """Raise `Conflict` where the Scala library's replicator serves the topic (R23)."""
    if binding.replicator != OURS:
        raise Conflict(
            f"topic {topic!r} is replicated by the Scala library's replicator: open the journal with replicate=False,"
            " or stop that replicator and take the topic over: catch_up(adopt=True)",
            outcome="not_written",
        )


async def bind(store: EventStore, info: TopicInfo, wanted: Binding, read_only: bool) -> Binding:
    """Bind the topic to the store at its first use, and compare what was bound before (R23)."""
    bound = await store.binding(info.name)
    if bound is None:
        if read_only:
            return wanted
        bound = await store.bind(info.name, wanted)
    differences = [
        f"{what} is {found!r} there, not {here!r}"
        for what, found, here in (
            ("the topic's id", bound.topic_id, wanted.topic_id),
            ("the number of partitions", bound.partitions, wanted.partitions),
            ("single_writer", bound.single_writer, wanted.single_writer),
            ("segment_size", bound.segment_size, wanted.segment_size),
        )
        if found != here
    ]
    if differences:
        raise Conflict(
            f"topic {info.name!r} is bound to {store.url} otherwise: {'; '.join(differences)}. Open it as it was bound,"
            " or copy it into a new topic"
        )
    return bound


def new_binding(info: TopicInfo, *, single_writer: bool, segment_size: int, replicator: str = OURS) -> Binding:
    """The binding of a topic that is used for the first time; the base is the clock (R24)."""
    return Binding(
        topic_id=info.id,
        partitions=info.partitions,
        single_writer=single_writer,
        segment_size=segment_size,
        replicator=replicator,
        base_us=time.time_ns() // 1000,
    )
