"""One log of a cluster, of one connection."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import TypeVar

from cordwood.errors import CordwoodError, InvalidInput, Timeout, TooLarge
from cordwood.log.arguments import (
    checked_follow,
    checked_known,
    checked_range,
    checked_timeout,
    checked_topic_id,
    milliseconds_at,
    whole_number,
)
from cordwood.log.calls.completion import notifier_of, wait_for_room
from cordwood.log.calls.connection import Connection
from cordwood.log.calls.outcome import change
from cordwood.log.calls.threads import call, retrieve
from cordwood.log.interface import Follow, Log
from cordwood.records import Batch, StoredRecord

from .checks import Target, check_batch, target_of
from .cluster import Bounds, SharedCluster
from .cursor import Cursor, trimmed
from .delivery import Append
from .known import read_known
from .reader import KafkaReader, Taken
from .same_topic import SameTopic
from .settings import ClientKind
from .starting import check_named, wait_for_bounds, wait_for_starts

T = TypeVar("T")

_FOLLOW_SECONDS = 0.1


class KafkaLog(Log):
    """One log of a connection to Kafka."""

    def __init__(self, connection: Connection[SharedCluster], topic: str, partition: int, timeout: float) -> None:
        self.topic = topic
        self.partition = partition
        self._connection = connection
        self._cluster = connection.shared
        self._timeout = timeout
        self._target: Target | None = None

    async def append(self, batch: Batch, *, expected: int | None = None, timeout: float | None = None) -> Sequence[int]:
        if not isinstance(batch, Batch):
            raise TypeError(f"append takes a cordwood.Batch, not {type(batch).__name__}")
        now = time.monotonic()
        deadline = now + self._seconds(timeout)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Sequence[int]] = loop.create_future()
        try:
            if self._connection.closed or self._connection.read_only or self._cluster.gone is not None:
                self._connection.check_writable()
            if expected is not None:
                raise self._unexpected(expected)
            target = self._target
            if target is None or target.facts.expires <= now:
                target = await self._look_up(batch, deadline)
            else:
                try:
                    check_batch(self.name, batch, target.facts)
                except TooLarge:
                    target = await self._look_up(batch, deadline)
            if looks := self._cluster.looks_at_end(self._place):
                await self._wait_for_looks(looks, deadline)
            append = Append(self.topic, self.partition, batch, future, notifier_of(loop), deadline)
            while not target.sender.submit(append):
                await wait_for_room(self.name, target.sender.when_room, deadline)
        except CordwoodError as error:
            error.outcome = "not_written"
            raise
        return await future

    def read(
        self,
        start: int | None = None,
        stop: int | None = None,
        follow: Follow = False,
        topic_id: str | None = None,
    ) -> KafkaReader:
        self._connection.check()
        start, stop = checked_range(start, stop)
        checked_follow(follow)
        same_topic = SameTopic(self._cluster.offsets, self.topic, checked_topic_id(topic_id), self._timeout)
        # At the call: records that are appended later are not part of the read.
        bounds = None if follow else self._cluster.look_at_ends(self.topic, [self.partition])

        def batches(wanted: Callable[[], bool]) -> Iterator[Taken | None]:
            return self._batches(start, stop, follow, same_topic, bounds, wanted)

        reader = KafkaReader(self.name, batches, self._cluster.reading, self._connection.check, self._timeout)
        self._connection.readers.add(reader)
        return reader

    async def fetch(
        self,
        offsets: Sequence[int],
        *,
        bytes_max: int | None = None,
        uncommitted: bool = False,
        timeout: float | None = None,
    ) -> list[StoredRecord]:
        known = checked_known(offsets)
        seconds = self._seconds(timeout)
        return await self._call(
            seconds,
            "fetch",
            lambda: read_known(
                self._cluster, *self._place, known, seconds, bytes_max=bytes_max, uncommitted=uncommitted
            ),
        )

    async def bounds(self, *, timeout: float | None = None) -> tuple[int, int]:
        seconds = self._seconds(timeout)
        return await self._call(seconds, "bounds", lambda: self._cluster.offsets.bounds(*self._place, seconds))

    async def offset_at(self, when: datetime, *, timeout: float | None = None) -> int:
        timestamp = milliseconds_at(when)
        seconds = self._seconds(timeout)
        offsets = self._cluster.offsets
        return await self._call(seconds, "offset_at", lambda: offsets.at(*self._place, max(0, timestamp), seconds))

    async def trim(self, before: int, *, timeout: float | None = None) -> None:
        self._connection.check_writable()
        before = whole_number("before", before)
        seconds = self._seconds(timeout)
        with change():
            if before < 0:
                raise InvalidInput(f"{self.name}: cannot trim before {before}: offsets begin at 0")
            await self._call(seconds, "trim", lambda: self._cluster.offsets.trim(*self._place, before, seconds))

    def __repr__(self) -> str:
        return f"<cordwood.Log {self.name} on {self._cluster}>"

    @property
    def _place(self) -> tuple[str, int]:
        return self.topic, self.partition

    def _unexpected(self, expected: int) -> InvalidInput:
        return InvalidInput(
            f"{self.name}: append(expected={expected}) cannot hold on Kafka, which takes records as they come:"
            " leave it out, or use a log of Cordwood's own"
        )

    async def _look_up(self, batch: Batch, deadline: float) -> Target:
        seconds = max(0.0, deadline - time.monotonic())
        found = await self._call(seconds, "append", lambda: target_of(self._cluster, *self._place, batch))
        self._target = found
        return found

    async def _wait_for_looks(self, looks: "list[Future[Bounds]]", deadline: float) -> None:
        """Wait for readers of this process that look up the log's end as of their call."""
        waiting = [asyncio.wrap_future(look) for look in looks]
        for look in waiting:
            look.add_done_callback(retrieve)  # its reader raises its error
        _, pending = await asyncio.wait(waiting, timeout=max(0.0, deadline - time.monotonic()))
        if pending:
            raise Timeout(f"{self.name}: reads that began before this append did not find the log's end in its time")

    def _batches(
        self,
        start: int | None,
        stop: int | None,
        follow: Follow,
        same_topic: SameTopic,
        bounds: "Future[Bounds] | None",
        wanted: Callable[[], bool],
    ) -> Iterator[Taken | None]:
        """Yield batches, and None at the end; runs on the reader's thread."""
        cluster = self._cluster
        first, end = (
            cluster.offsets.bounds(*self._place, self._timeout)
            if bounds is None
            else wait_for_bounds(self.name, bounds, self._timeout)[self.partition]
        )
        if same_topic.named:
            check_named(self.name, same_topic, wanted)
        elif follow:
            # From the beginning: a follower may wait for its first record while the topic is created again.
            same_topic.check(self.name)
        start = first if start is None else start
        if start < first:
            raise trimmed(self.name, start, first)
        if start > end and (stop is None or start < stop):
            reached = wait_for_starts(cluster, self.topic, {self.partition: start}, follow, same_topic, wanted)
            end = reached.get(self.partition, (0, 0))[1]
        if not follow:
            stop = end if stop is None else min(stop, end)
        if not wanted() or (stop is not None and start >= stop):
            return
        cursor = Cursor(
            cluster.consumers,
            cluster.offsets,
            cluster.settings,
            *self._place,
            start,
            ClientKind(follow=bool(follow)),
            same_topic=same_topic,
        )
        try:
            while wanted() and (stop is None or cursor.offset < stop):
                batch = cursor.read(stop, _FOLLOW_SECONDS)
                if batch is not None:
                    yield Taken(batch)
            # Before the client is given back: the caller need not wait for that.
            yield None
        finally:
            cursor.close()

    def _seconds(self, timeout: float | None) -> float:
        return self._timeout if timeout is None else checked_timeout(timeout)

    async def _call(self, seconds: float, what: str, function: Callable[[], T]) -> T:
        self._connection.check()
        return await call(self._cluster.executor, seconds, f"{self.name}: {what}", function)
