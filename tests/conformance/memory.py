"""Logs in memory: the shortest engine that keeps every promise, to try the suite on."""

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import ClassVar

from cordwood.errors import Conflict, InvalidInput, NotFound, TooLarge, Trimmed, Unavailable
from cordwood.log import Engine, Follow, Log, Reader, TopicChange, TopicConfig, TopicInfo
from cordwood.log.arguments import (
    beyond_end,
    checked_follow,
    checked_range,
    checked_timeout,
    checked_topic_id,
    created_again,
    milliseconds_at,
    whole_number,
)
from cordwood.log.calls.outcome import change
from cordwood.records import FRAME_BYTES_MAX, Batch, BinaryColumn, StoredBatch, StoredRecord, frame_bytes
from cordwood.records.headers import HeaderColumn

STORED_RECORDS_MAX = 7  # an odd number, so that stored batches have borders everywhere


@dataclass
class Partition:
    records: list[StoredRecord] = field(default_factory=list)
    start: int = 0
    waiting: list[Callable[[], None]] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.start + len(self.records)


@dataclass
class Store:
    """What outlives the connections."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    topics: dict[str, tuple[TopicInfo, list[Partition]]] = field(default_factory=dict)


class MemoryEngine(Engine):
    log_class: "ClassVar[type[MemoryLog]]"

    def __init__(self, store: Store) -> None:
        self.store = store
        self.closed = False
        self.readers: set[MemoryReader] = set()

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
            info, partitions = self.found(name)
            info = replace(info, **change.named())
            self.store.topics[name] = info, partitions
            return info

    async def topics(self, prefix: str, *, timeout: float) -> list[str]:
        return sorted(name for name in self.store.topics if name.startswith(prefix))

    async def topic(self, name: str, *, timeout: float) -> TopicInfo:
        return self.found(name)[0]

    async def delete_topic(self, name: str, *, timeout: float) -> None:
        with self.store.lock:
            partitions = self.found(name)[1]
            del self.store.topics[name]
        self.woken(partitions)

    async def check(self, topic: str, parts: Mapping[int, Batch], *, timeout: float) -> None:
        for batch in parts.values():
            check_size(batch)

    def log(self, topic: str, partition: int, *, timeout: float) -> "MemoryLog":
        return self.log_class(self, topic, partition)

    async def close(self, *, timeout: float) -> None:
        self.closed = True
        for reader in list(self.readers):
            await reader.close()

    def found(self, name: str) -> tuple[TopicInfo, list[Partition]]:
        if self.closed:
            raise Unavailable("the connection is closed", outcome="not_written", reason="closed")
        try:
            return self.store.topics[name]
        except KeyError:
            raise NotFound(f"topic {name!r} does not exist", outcome="not_written") from None

    def woken(self, partitions: list[Partition]) -> None:
        for partition in partitions:
            waiting, partition.waiting = partition.waiting, []
            for wake in waiting:
                wake()


class MemoryLog(Log):
    reader_class: "ClassVar[type[MemoryReader]]"

    def __init__(self, engine: MemoryEngine, topic: str, partition: int) -> None:
        self.engine = engine
        self.topic = topic
        self.partition = partition

    def found(self) -> Partition:
        partitions = self.engine.found(self.topic)[1]
        if self.partition >= len(partitions):
            raise NotFound(f"{self.name} does not exist", outcome="not_written")
        return partitions[self.partition]

    async def append(self, batch: Batch, *, expected: int | None = None, timeout: float | None = None) -> Sequence[int]:
        if not isinstance(batch, Batch):
            raise TypeError(f"a Batch is needed, not {type(batch).__name__}")
        check_size(batch)
        check_time(timeout)
        with self.engine.store.lock:
            partition = self.found()
            first = partition.end
            if expected is not None and whole_number("expected", expected) != first:
                raise Conflict(f"at {first}, not {expected}", actual=first, outcome="not_written")
            now = time.time_ns() // 1_000_000
            for offset, (value, key, headers, given, *_) in enumerate(batch, first):
                stamp = now if given is None else given
                partition.records.append(StoredRecord(value, key, headers, stamp, offset))
        self.engine.woken([partition])
        await asyncio.sleep(0)
        return range(first, first + len(batch))

    def read(
        self, start: int | None = None, stop: int | None = None, follow: Follow = False, topic_id: str | None = None
    ) -> "MemoryReader":
        return self.reader_class(self, start, stop, follow, topic_id)

    async def bounds(self, *, timeout: float | None = None) -> tuple[int, int]:
        check_time(timeout)
        partition = self.found()
        return partition.start, partition.end

    async def offset_at(self, when: datetime, *, timeout: float | None = None) -> int:
        wanted = milliseconds_at(when)
        check_time(timeout)
        partition = self.found()
        return next((r.offset for r in partition.records if r.timestamp >= wanted), partition.end)

    async def trim(self, before: int, *, timeout: float | None = None) -> None:
        before = whole_number("before", before)
        check_time(timeout)
        with change(), self.engine.store.lock:
            partition = self.found()
            if not 0 <= before <= partition.end:
                raise InvalidInput(f"{before} is not in 0 to {partition.end}")
            if before > partition.start:
                del partition.records[: before - partition.start]
                partition.start = before


class MemoryReader(Reader):
    def __init__(
        self, log: MemoryLog, start: int | None, stop: int | None, follow: Follow, topic_id: str | None
    ) -> None:
        self.log = log
        self.at, self.stop = checked_range(start, stop)
        checked_follow(follow)
        self.follow = follow
        self.topic_id = checked_topic_id(topic_id)
        self.partition: Partition | None = None
        self.closed = False
        self.woken: Callable[[], None] = lambda: None
        self.turns: AbstractAsyncContextManager[None] = asyncio.Lock()
        try:
            found: Partition | None = log.found()
        except NotFound:
            found = None  # shows at the first step
        self.end = found.end if stop is None and not follow and found is not None else None
        log.engine.readers.add(self)

    async def __anext__(self) -> StoredBatch:
        async with self.turns:
            return await self.step()

    async def step(self) -> StoredBatch:
        await asyncio.sleep(0)
        while not self.closed:
            partition = self.log.found()
            with self.log.engine.store.lock:
                self.check_topic(partition)
                if self.partition is None:
                    self.check_start(partition)
                self.partition = partition
                self.at = partition.start if self.at is None else self.at
                if self.stop is not None and self.at >= self.stop:
                    break
                if self.at < partition.start:
                    raise Trimmed(f"trimmed before {partition.start}", start=partition.start)
                if batch := self.batch(partition, self.at):
                    self.at += len(batch)
                    return batch
                if not self.follow:
                    break
                loop, news = asyncio.get_running_loop(), asyncio.Event()
                self.woken = partial(wake, loop, news)
                partition.waiting.append(self.woken)
            await news.wait()
        await self.close()
        raise StopAsyncIteration

    def check_topic(self, partition: Partition) -> None:
        found = self.log.engine.found(self.log.topic)[0].id
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
        return StoredBatch.from_columns(
            range(at, stop),
            BinaryColumn.of([row.value for row in rows]),
            keys=BinaryColumn.of([row.key for row in rows]),
            headers=HeaderColumn.of([row.headers for row in rows]),
            timestamps=[row.timestamp for row in rows],
        )

    async def close(self) -> None:
        self.closed = True
        self.log.engine.readers.discard(self)
        self.woken()


def check_time(timeout: float | None) -> None:
    if timeout is not None:
        checked_timeout(timeout)


def check_size(batch: Batch) -> None:
    if not len(batch):
        raise InvalidInput("an empty batch", outcome="not_written")
    if frame_bytes(batch) > FRAME_BYTES_MAX:
        raise TooLarge(f"over {FRAME_BYTES_MAX} bytes", outcome="not_written")


def wake(loop: asyncio.AbstractEventLoop, news: asyncio.Event) -> None:
    try:
        loop.call_soon_threadsafe(news.set)
    except RuntimeError:
        return  # the loop is closed, and nobody waits


# What a test replaces to break something.
MemoryEngine.log_class = MemoryLog
MemoryLog.reader_class = MemoryReader
