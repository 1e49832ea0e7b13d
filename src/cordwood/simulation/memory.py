"""Logs in memory: the shortest engine that keeps every promise.

Tests use it where they need an engine and no disk, and derive engines from it that break one promise. It passes the
conformance suite of `cordwood.testing`. Nothing outlives the process.

client = Client(MemoryEngine(MemoryStore()), parse_url("file:/in-memory"), timeout=30, read_only=False)

Threads share a store: its lock guards all topics and partitions, and is never held during an await.
"""

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, ClassVar

from cordwood.errors import Conflict, InvalidInput, NotFound, TooLarge, Trimmed, Unavailable
from cordwood.log import (
    Engine,
    Follow,
    Log,
    PartitionsReader,
    Reader,
    Starts,
    TopicChange,
    TopicConfig,
    TopicInfo,
)
from cordwood.log.arguments import (
    beyond_end,
    checked_follow,
    checked_known,
    checked_range,
    checked_starts,
    checked_stops,
    checked_timeout,
    checked_topic_id,
    created_again,
    milliseconds_at,
    whole_number,
)
from cordwood.log.calls.outcome import change
from cordwood.records import FRAME_BYTES_MAX, Batch, BinaryColumn, StoredBatch, StoredRecord, frame_bytes, record_bytes
from cordwood.records.headers import HeaderColumn

STORED_RECORDS_MAX = 7  # odd, so that the borders of stored batches differ from those of appended ones


@dataclass
class Partition:
    """The records of one log, and the readers to wake when it grows."""

    records: list[StoredRecord] = field(default_factory=list)
    start: int = 0
    waiting: list[Callable[[], None]] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.start + len(self.records)


@dataclass
class MemoryStore:
    """The topics and their records, shared by all connections to them."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    topics: dict[str, tuple[TopicInfo, list[Partition]]] = field(default_factory=dict)


class MemoryEngine(Engine):
    """A connection to a store. Subclasses name another `log_class` to change how its logs behave."""

    log_class: "ClassVar[type[MemoryLog]]"
    partitions_reader_class: "ClassVar[type[MemoryPartitionsReader]]"

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.closed = False
        self.readers: set[Reader] = set()

    async def create_topic(self, name: str, config: TopicConfig, *, exist_ok: bool, timeout: float) -> TopicInfo:
        with self.store.lock:
            if name in self.store.topics:
                if exist_ok:
                    return self.store.topics[name][0]
                raise Conflict(f"topic {name!r} exists")
            info = TopicInfo(
                name,
                secrets.token_hex(8),
                config.partitions or 1,
                config.replication or 1,
                config.retention,
                config.retention_bytes,
                "none: memory",
                FRAME_BYTES_MAX,
            )
            self.store.topics[name] = info, [Partition() for _ in range(info.partitions)]
            return info

    async def alter_topic(self, name: str, change: TopicChange, *, timeout: float) -> TopicInfo:
        with self.store.lock:
            info, partitions = self.find(name)
            info = replace(info, **change.named())
            self.store.topics[name] = info, partitions
            return info

    async def topics(self, prefix: str, *, timeout: float) -> list[str]:
        return sorted(name for name in self.store.topics if name.startswith(prefix))

    async def topic(self, name: str, *, timeout: float) -> TopicInfo:
        return self.find(name)[0]

    async def delete_topic(self, name: str, *, timeout: float) -> None:
        with self.store.lock:
            partitions = self.find(name)[1]
            del self.store.topics[name]
        self.wake(partitions)

    async def check(self, topic: str, parts: Mapping[int, Batch], *, timeout: float) -> None:
        for batch in parts.values():
            _check_size(batch)

    def log(self, topic: str, partition: int, *, timeout: float) -> "MemoryLog":
        return self.log_class(self, topic, partition)

    def read(
        self,
        topic: str,
        start: Starts,
        *,
        stop: Mapping[int, int] | None,
        follow: Follow,
        topic_id: str | None,
        uncommitted: bool = False,
        timeout: float,
    ) -> "MemoryPartitionsReader":
        return self.partitions_reader_class(self, topic, start, stop, follow, topic_id)

    async def close(self, *, timeout: float) -> None:
        self.closed = True
        for reader in list(self.readers):
            await reader.close()

    def find(self, name: str) -> tuple[TopicInfo, list[Partition]]:
        if self.closed:
            raise Unavailable("the connection is closed", outcome="not_written", reason="closed")
        try:
            return self.store.topics[name]
        except KeyError:
            raise NotFound(f"topic {name!r} does not exist", outcome="not_written") from None

    def wake(self, partitions: list[Partition]) -> None:
        for partition in partitions:
            waiting, partition.waiting = partition.waiting, []
            for wake in waiting:
                wake()


class MemoryLog(Log):
    """One partition of a topic. Subclasses name another `reader_class` to change how it is read."""

    reader_class: "ClassVar[type[MemoryReader]]"

    def __init__(self, engine: MemoryEngine, topic: str, partition: int) -> None:
        self.engine = engine
        self.topic = topic
        self.partition = partition

    def find(self) -> Partition:
        partitions = self.engine.find(self.topic)[1]
        if self.partition >= len(partitions):
            raise NotFound(f"{self.name} does not exist", outcome="not_written")
        return partitions[self.partition]

    async def append(self, batch: Batch, *, expected: int | None = None, timeout: float | None = None) -> Sequence[int]:
        if not isinstance(batch, Batch):
            raise TypeError(f"a Batch is needed, not {type(batch).__name__}")
        _check_size(batch)
        _check_time(timeout)
        with self.engine.store.lock:
            partition = self.find()
            first = partition.end
            if expected is not None and whole_number("expected", expected) != first:
                raise Conflict(f"at {first}, not {expected}", actual=first, outcome="not_written")
            now = time.time_ns() // 1_000_000
            for offset, (value, key, headers, given, *_) in enumerate(batch, first):
                stamp = now if given is None else given
                partition.records.append(StoredRecord(value, key, headers, stamp, offset))
        self.engine.wake([partition])
        await asyncio.sleep(0)
        return range(first, first + len(batch))

    def read(
        self, start: int | None = None, stop: int | None = None, follow: Follow = False, topic_id: str | None = None
    ) -> "MemoryReader":
        return self.reader_class(self, start, stop, follow, topic_id)

    async def fetch(
        self,
        offsets: Sequence[int],
        *,
        bytes_max: int | None = None,
        uncommitted: bool = False,
        timeout: float | None = None,
    ) -> list[StoredRecord]:
        known = checked_known(offsets)
        _check_time(timeout)
        partition = self.find()
        if known and known[0] < partition.start:
            raise Trimmed(f"trimmed before {partition.start}", start=partition.start)
        found: list[StoredRecord] = []
        size = 0
        for offset in known:
            if offset >= partition.end or (bytes_max is not None and size >= bytes_max):
                break
            found.append(partition.records[offset - partition.start])
            size += record_bytes(found[-1])
        return found

    async def bounds(self, *, timeout: float | None = None) -> tuple[int, int]:
        _check_time(timeout)
        partition = self.find()
        return partition.start, partition.end

    async def offset_at(self, when: datetime, *, timeout: float | None = None) -> int:
        wanted = milliseconds_at(when)
        _check_time(timeout)
        partition = self.find()
        return next((r.offset for r in partition.records if r.timestamp >= wanted), partition.end)

    async def trim(self, before: int, *, timeout: float | None = None) -> None:
        before = whole_number("before", before)
        _check_time(timeout)
        with change(), self.engine.store.lock:
            partition = self.find()
            if not 0 <= before <= partition.end:
                raise InvalidInput(f"{before} is not in 0 to {partition.end}")
            if before > partition.start:
                del partition.records[: before - partition.start]
                partition.start = before


class MemoryReader(Reader):
    """Reads a log in batches of at most `STORED_RECORDS_MAX` records, one task at a time."""

    def __init__(
        self, log: MemoryLog, start: int | None, stop: int | None, follow: Follow, topic_id: str | None
    ) -> None:
        self.log = log
        self.at, self.stop = checked_range(start, stop)
        checked_follow(follow)
        self.follow = follow
        self.topic_id = checked_topic_id(topic_id)
        self.partition: Partition | None = None
        self.ended = False
        self.closed = False
        self.wake: Callable[[], None] = lambda: None
        self.turns: AbstractAsyncContextManager[None] = asyncio.Lock()
        try:
            found: Partition | None = log.find()
        except NotFound:
            found = None  # the first step raises it
        self.end = found.end if stop is None and not follow and found is not None else None
        log.engine.readers.add(self)

    async def __anext__(self) -> StoredBatch:
        async with self.turns:
            return await self.step()

    async def step(self) -> StoredBatch:
        await asyncio.sleep(0)
        while not self.closed:
            news = self.news()
            if batch := self.take():
                return batch
            if self.ended:
                break
            await news.wait()
        await self.close()
        raise StopAsyncIteration

    def news(self) -> asyncio.Event:
        """What is set when the log has grown."""
        loop, news = asyncio.get_running_loop(), asyncio.Event()
        self.wake = partial(_set_in_loop, loop, news)
        return news

    def take(self) -> StoredBatch | None:
        """The next batch; if there is none, the reader has ended, or is woken when the log has grown."""
        with self.log.engine.store.lock:
            partition = self.checked()
            assert self.at is not None
            if self.stop is not None and self.at >= self.stop:
                self.ended = True
                return None
            if batch := self.batch(partition, self.at):
                self.at += len(batch)
                return batch
            self.ended = not self.follow
            partition.waiting.append(self.wake)
            return None

    def checked(self) -> Partition:
        """What is read from, where it still has what is next."""
        partition = self.log.find()
        self.check_topic(partition)
        if self.partition is None:
            self.check_start(partition)
        self.partition = partition
        self.at = partition.start if self.at is None else self.at
        if self.at < partition.start and (self.stop is None or self.at < self.stop):
            raise Trimmed(f"trimmed before {partition.start}", start=partition.start)
        return partition

    def check_topic(self, partition: Partition) -> None:
        found = self.log.engine.find(self.log.topic)[0].id
        if self.topic_id is not None and self.topic_id != found:
            raise created_again(self.log.name, self.topic_id, found)
        if self.partition is not None and self.partition is not partition:
            raise NotFound(f"{self.log.name} was deleted")

    def check_start(self, partition: Partition) -> None:
        end = partition.end if self.end is None else self.end
        asks = self.at is not None and (self.stop is None or self.at < self.stop)
        if asks and self.at is not None and self.at > end and self.follow != "wait":
            raise beyond_end(self.log.name, self.at, end)
        self.stop = self.end if self.stop is None else self.stop

    def batch(self, partition: Partition, at: int) -> StoredBatch | None:
        border = at - at % STORED_RECORDS_MAX + STORED_RECORDS_MAX
        stop = min(border, partition.end, border if self.stop is None else self.stop)
        rows = partition.records[at - partition.start : stop - partition.start]
        if not rows:
            return None
        batch = StoredBatch.from_columns(
            range(at, stop),
            BinaryColumn.of([row.value for row in rows]),
            keys=BinaryColumn.of([row.key for row in rows]),
            headers=HeaderColumn.of([row.headers for row in rows]),
            timestamps=[row.timestamp for row in rows],
        )
        batch.partition = self.log.partition
        return batch

    async def close(self) -> None:
        self.closed = True
        self.log.engine.readers.discard(self)
        self.wake()


class MemoryPartitionsReader(PartitionsReader):
    """A reader of each partition, and they take turns."""

    def __init__(
        self, engine: MemoryEngine, topic: str, start: Starts, stop: Mapping[int, int] | None, follow: Follow, *how: Any
    ) -> None:
        self.engine = engine
        self.topic = topic
        self.how = how
        checked_follow(follow)
        self.follow = follow
        checked_topic_id(*how)
        starts = checked_starts(start)
        self.stops = checked_stops(stop, starts)
        self.parts: dict[int, MemoryReader] = {}
        self.wanted: Mapping[int, int | None] | None = starts
        self.from_end = start == "end"
        if topic in engine.store.topics and starts is None:
            self.wanted = dict.fromkeys(range(engine.find(topic)[0].partitions))
        self.begin()
        self.closed = False
        self.wake: Callable[[], None] = lambda: None
        self.turns: AbstractAsyncContextManager[None] = asyncio.Lock()
        engine.readers.add(self)

    def begin(self) -> None:
        for partition, start in (self.wanted or {}).items():
            part = self.part(partition, start, self.stops.get(partition))
            if self.from_end:
                part.at = part.log.find().end
            self.parts[partition] = part

    def part(self, partition: int, start: int | None, stop: int | None) -> MemoryReader:
        log = self.engine.log(self.topic, partition, timeout=30)
        return log.reader_class(log, start, stop, self.follow, *self.how)

    async def __anext__(self) -> StoredBatch:
        async with self.turns:
            return await self.step()

    async def step(self) -> StoredBatch:
        await asyncio.sleep(0)
        self.engine.find(self.topic)
        for partition in self.stops:
            self.engine.log(self.topic, partition, timeout=30).find()
        for part in self.parts.values():
            part.checked()
        while not self.closed:
            loop, news = asyncio.get_running_loop(), asyncio.Event()
            self.wake = partial(_set_in_loop, loop, news)
            for partition, part in list(self.parts.items()):
                part.wake = self.wake
                if batch := part.take():
                    self.parts[partition] = self.parts.pop(partition)  # the last one in the next turn
                    return batch
            if all(part.ended for part in self.parts.values()) and (self.parts or not self.follow):
                break
            await news.wait()
        await self.close()
        raise StopAsyncIteration

    def position(self, partition: int) -> int:
        try:
            at = self.parts[partition].at
        except KeyError:
            raise InvalidInput(f"partition {partition} is not read") from None
        if at is None:
            raise InvalidInput("before the first step")
        return at

    def add(self, partition: int, start: int) -> None:
        if not self.follow or partition in self.parts:
            raise InvalidInput(f"partition {partition} cannot be added")
        self.parts[partition] = self.part(partition, start, None)
        self.wake()

    def drop(self, partition: int) -> None:
        self.parts.pop(partition, None)

    async def close(self) -> None:
        self.closed = True
        self.engine.readers.discard(self)
        self.wake()


def _check_time(timeout: float | None) -> None:
    if timeout is not None:
        checked_timeout(timeout)


def _check_size(batch: Batch) -> None:
    if not len(batch):
        raise InvalidInput("an empty batch", outcome="not_written")
    if frame_bytes(batch) > FRAME_BYTES_MAX:
        raise TooLarge(f"over {FRAME_BYTES_MAX} bytes", outcome="not_written")


def _set_in_loop(loop: asyncio.AbstractEventLoop, news: asyncio.Event) -> None:
    try:
        loop.call_soon_threadsafe(news.set)
    except RuntimeError:
        return  # the loop is closed, and nobody waits


# Assigned here, since each class names one that is defined after it.
MemoryEngine.log_class = MemoryLog
MemoryEngine.partitions_reader_class = MemoryPartitionsReader
MemoryLog.reader_class = MemoryReader
