"""The logs and the store of a job, as a process of Spark holds them: opened once, and used by all its tasks.

Each has an event loop, which runs while a call waits. Spark's workers run one task at a time, in their main thread.
"""

import asyncio
import os
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import msgspec

from cordwood.client import Client
from cordwood.errors import Conflict, CordwoodError, Corrupt, InvalidInput, NotFound, Trimmed
from cordwood.journal.foreign import check_not_foreign
from cordwood.journal.opening import agree_seconds
from cordwood.journal.replicator import Replicator, ReplicatorStats
from cordwood.journal.topic import SCALA, JournalTopic, bind, check_ours, new_binding, system_ms
from cordwood.log.interface import TopicInfo
from cordwood.store import Binding, DeadLetter, EventStore
from cordwood.url import parse_url

from .job import JobOptions, this_machine
from .places import TIMEOUT_SECONDS, names_of, open_events, open_log

T = TypeVar("T")

_SEGMENT_SIZE = 10_000
_RETRY_SECONDS = (0.1, 5.0)
_NEW_TOPICS_SECONDS = 5.0
LEASE_SECONDS = 30.0
"""Longer than most micro-batches: between them the driver renews its leases."""
_FINAL = (Conflict, Corrupt, InvalidInput, NotFound, Trimmed)
"""Errors that do not pass by themselves."""


class Range(NamedTuple):
    """The records of one log up to below `stop` that the store does not have yet."""

    topic: str
    topic_id: str
    partition: int
    start: int
    """After the pointer when this was planned; the task begins after the pointer that it finds."""
    stop: int


@dataclass(frozen=True)
class TopicState:
    """A topic now: what is replicated, and where its logs begin and end."""

    info: TopicInfo
    pointers: dict[int, int]
    bounds: dict[int, tuple[int, int]]

    def next(self, partition: int) -> int:
        """The first offset that the store does not have."""
        return self.pointers.get(partition, -1) + 1


class Replica:
    """The logs and the store of one job."""

    def __init__(self, options: JobOptions) -> None:
        self._options = options
        self._loop: asyncio.AbstractEventLoop | None = None
        self._log: Client | None = None
        self._events: EventStore | None = None
        self._names: tuple[float, Sequence[str]] | None = None
        """The topics that match the pattern, and when they were looked up."""
        self._owner = f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"
        self._leased: tuple[float, dict[str, int]] = (-LEASE_SECONDS, {})
        """When leases were renewed, and the number of partitions of each topic."""

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """The result of a call, in the loop of this object."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(call)

    def close(self) -> None:
        """Close, where calls were made by `run`."""
        if self._loop is not None:
            self.run(self.aclose())
            self._loop.close()
            self._loop = None

    async def states(self) -> list[TopicState]:
        """The topics of the job as they are now; each is compared with the store's row, or bound (R23)."""
        client = await self._client()
        infos = [await client.topic(name) for name in await self._topics(client)]
        # A topic that does not exist is found before a store is made.
        return [await self._state(await self._store(), client, info) for info in infos]

    async def adopt(self) -> None:
        """Take the topics over from the Scala library's replicator, which must be stopped (R23)."""
        client, store = await self._client(), await self._store()
        for name in await self._topics(client):
            info = await client.topic(name)
            if await store.binding(name) is None and await store.pointers(name):
                # Its programs write the topic, so it stays one with a single writer for each key.
                wanted = new_binding(info, single_writer=True, segment_size=_SEGMENT_SIZE, replicator=SCALA)
                await bind(store, info, wanted, read_only=False)
            bound = await store.binding(name)
            if bound is not None:
                agree = self._agree_seconds
                await JournalTopic(name, info, bound, client._engine, store, TIMEOUT_SECONDS, agree, system_ms).adopt()

    async def plan(self) -> list[Range]:
        """The ranges that are not replicated. A store or a log that is away is tried again, for `store_timeout`."""
        return await self._patiently(self._plan, lambda: 0)

    async def hold_leases(self) -> None:
        """Take or renew the leases of all partitions, so that a replicator in a service need not do the same work.

        Nothing depends on them (R24), so that a lease of another replicator, or a failure, changes nothing.
        """
        now = time.monotonic()
        if now - self._leased[0] < LEASE_SECONDS / 3:
            return
        with suppress(CordwoodError):
            client, store = await self._client(), await self._store()
            topics = {name: (await client.topic(name)).partitions for name in await self._topics(client)}
            for name, partitions in topics.items():
                await store.take_leases(name, range(partitions), self._owner, LEASE_SECONDS)
            self._leased = now, topics

    async def release_leases(self) -> None:
        """Let a service continue at once, and not only when the leases have ended."""
        topics, self._leased = self._leased[1], (-LEASE_SECONDS, {})
        with suppress(CordwoodError):
            for name in topics:
                await (await self._store()).release_leases(name, self._owner)

    async def replicate(self, wanted: Range) -> ReplicatorStats:
        """Replicate a range. A store or a log that is away is tried again, for `store_timeout` without progress."""
        self._check_machine()
        done = ReplicatorStats()
        await self._patiently(lambda: self._replicate(wanted, done), lambda: done.records)
        return done

    async def aclose(self) -> None:
        """Close log and store; the next call opens them again."""
        parts, self._log, self._events = (self._log, self._events), None, None
        for part in parts:
            if part is not None:
                with suppress(CordwoodError):
                    await part.close()

    async def _patiently(self, call: Callable[[], Awaitable[T]], progress: Callable[[], int]) -> T:
        seconds = self._options.job.store_timeout
        pause, until, before = _RETRY_SECONDS[0], time.monotonic() + seconds, progress()
        while True:
            try:
                return await call()
            except _FINAL:
                raise
            except CordwoodError:
                if progress() > before:
                    pause, until, before = _RETRY_SECONDS[0], time.monotonic() + seconds, progress()
                if time.monotonic() + pause >= until:
                    raise
            await self.aclose()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _RETRY_SECONDS[1])

    async def _plan(self) -> list[Range]:
        ranges = []
        for state in await self.states():
            for partition, (start, stop) in state.bounds.items():
                following = state.next(partition)
                if start > following:
                    if not self._options.job.accept_loss:
                        raise lost(state.info.name, partition, following, start)
                    topic = await self._journal_topic(state.info.name)
                    await Replicator(topic, _ignore).accept_loss(partition)
                    following = start
                if following < stop:
                    ranges.append(Range(state.info.name, state.info.id, partition, following, stop))
        return ranges

    async def _replicate(self, wanted: Range, done: ReplicatorStats) -> None:
        topic = await self._journal_topic(wanted.topic)
        if topic.info.id != wanted.topic_id:
            raise Conflict(f"topic {wanted.topic!r} was deleted and created again: replicate it into another store")
        replicator = Replicator(topic, _ignore, check_dead=DeadLetterLimit(topic, self._options))
        try:
            await replicator.replicate_to(wanted.partition, wanted.stop)
        finally:
            done.records += replicator.stats.records
            done.events += replicator.stats.events
            done.dead += replicator.stats.dead

    def _check_machine(self) -> None:
        machine = self._options.job.machine
        if machine is not None and machine != this_machine():
            raise InvalidInput(
                f"the store {self._options.places.store} is a file of the driver's machine, and this task runs on"
                " another one: use a store that all machines reach, or run Spark with local[*]"
            )

    async def _topics(self, client: Client) -> Sequence[str]:
        job, now = self._options.job, time.monotonic()
        if self._names is None or (job.pattern is not None and now - self._names[0] > _NEW_TOPICS_SECONDS):
            self._names = now, await names_of(client, job.topics, job.pattern)
        return self._names[1]

    async def _state(self, store: EventStore, client: Client, info: TopicInfo) -> TopicState:
        await self._bound(client, store, info, new=True)
        # The bounds first: a replicator that passes meanwhile, and a trim after it, look like no loss.
        bounds = await self._bounds(client, info)
        pointers = await store.pointers(info.name)
        state = TopicState(info, pointers, bounds)
        if _beyond(state) is None:
            return state
        # R23: an end below the pointer is believed if a second look agrees, since a leader may lag.
        await asyncio.sleep(self._agree_seconds)
        state = TopicState(info, pointers, await self._bounds(client, info))
        partition = _beyond(state)
        if partition is not None:
            raise Conflict(
                f"{info.name}/{partition} ends at {state.bounds[partition][1]}, and the store has it up to"
                f" {pointers[partition]}: the topic was deleted and created again, or the store belongs to another one"
            )
        return state

    async def _bounds(self, client: Client, info: TopicInfo) -> dict[int, tuple[int, int]]:
        logs = [client.log(info.name, partition) for partition in range(info.partitions)]
        return dict(enumerate(await asyncio.gather(*(log.bounds() for log in logs))))

    async def _journal_topic(self, name: str) -> JournalTopic:
        """R23: every task compares the row as it is now. It binds nothing: it may see another file than the driver."""
        client, store = await self._client(), await self._store()
        info = await client.topic(name)
        bound = await self._bound(client, store, info, new=False)
        return JournalTopic(name, info, bound, client._engine, store, TIMEOUT_SECONDS, self._agree_seconds, system_ms)

    async def _bound(self, client: Client, store: EventStore, info: TopicInfo, *, new: bool) -> Binding:
        if info.compacted:
            raise Conflict(f"topic {info.name!r} is compacted: it keeps one record of a key, and a journal needs all")
        bound = await store.binding(info.name)
        if bound is not None:
            # The mode and the segment size are those of the programs that write the topic.
            wanted = msgspec.structs.replace(bound, topic_id=info.id, partitions=info.partitions)
        elif new:
            await check_not_foreign(client._engine, info, store, TIMEOUT_SECONDS)
            wanted = new_binding(info, single_writer=False, segment_size=_SEGMENT_SIZE)
        else:
            raise InvalidInput(
                f"{store.url} does not know topic {info.name!r}, which the driver has bound to it: this task sees"
                " another file of that name; use a store that all tasks reach"
            )
        bound = await bind(store, info, wanted, read_only=False)
        check_ours(info.name, bound)
        return bound

    @property
    def _agree_seconds(self) -> float:
        places = self._options.places
        return agree_seconds(parse_url(places.url, places.config))

    async def _client(self) -> Client:
        if self._log is None:
            self._log = await open_log(self._options.places)
        return self._log

    async def _store(self) -> EventStore:
        if self._events is None:
            # A store that hangs is noticed within the time that is left for it.
            timeout = min(TIMEOUT_SECONDS, self._options.job.store_timeout)
            self._events = await open_events(self._options.places, timeout=timeout)
        return self._events


class DeadLetterLimit:
    """R43: many records that cannot be decoded are probably those of another kind of topic."""

    def __init__(self, topic: JournalTopic, options: JobOptions) -> None:
        self._topic = topic
        self._job = options.job
        self._known: set[int] | None = None
        """The offsets of the partition's dead letters since the run began."""

    async def __call__(self, partition: int, dead: Sequence[DeadLetter]) -> None:
        began = self._job.began.get(self._topic.name, {}).get(partition, -1)
        if self._known is None:
            self._known = {
                letter.offset
                for letter in await self._topic.store.dead_letters(self._topic.name)
                if letter.partition == partition and letter.offset > began
            }
        self._known.update(letter.offset for letter in dead)
        if len(self._known) > self._job.max_dead_letters:
            raise Corrupt(
                f"{self._topic.name}/{partition}: {len(self._known)} records since offset {began + 1} cannot be"
                f" decoded, over max_dead_letters={self._job.max_dead_letters}: see that it is a journal's topic"
                f" (offset {dead[-1].offset}: {dead[-1].reason})"
            )


_REPLICAS_MAX = 4
_replicas: dict[str, Replica] = {}
"""The replicas of this process, the last used one last."""


def replica_of(options: JobOptions) -> Replica:
    """The replica of a job in this process: the next task uses the same connections."""
    key = repr(sorted(options.texts().items()))
    found = _replicas.pop(key, None) or Replica(options)
    _replicas[key] = found
    while len(_replicas) > _REPLICAS_MAX:
        _replicas.pop(next(iter(_replicas))).close()
    return found


def lost(topic: str, partition: int, following: int, start: int) -> Trimmed:
    """The error of a log that starts above the store's pointer (R42)."""
    return Trimmed(
        f"{topic}/{partition} starts at {start}, and the store has it only up to {following - 1}: records {following}"
        f" to {start - 1} were never replicated; catch_up(accept_loss=True) accepts the loss",
        start=start,
    )


def _beyond(state: TopicState) -> int | None:
    """A partition whose pointer is at or beyond its end."""
    return next((partition for partition, (_, stop) in state.bounds.items() if state.next(partition) > stop), None)


def _ignore(partition: int, pointer: int) -> None:
    """Nobody in this process waits for the pointer."""
