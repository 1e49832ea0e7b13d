"""A journal: the events of many entities on one topic."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from types import TracebackType
from typing import Self, TypeVar

from cordwood._version import __version__
from cordwood.errors import Conflict, CordwoodError, InvalidInput, NotFound, Timeout, Unavailable
from cordwood.log.arguments import checked_timeout
from cordwood.log.calls.deadline import deadline
from cordwood.log.calls.outcome import change
from cordwood.log.interface import Engine, TopicInfo
from cordwood.log.partitioning import partition_of
from cordwood.log.topics import TopicConfig
from cordwood.store import DeadLetter, EventStore
from cordwood.store.opening import open_store

from .action import Delete, Purge
from .appended import Appended, Position
from .appender import Appender
from .arguments import (
    checked_events,
    checked_expected,
    checked_expire_after,
    checked_flag,
    checked_headers,
    checked_metadata,
    checked_number,
    checked_text,
    checked_until,
)
from .event import Event
from .explain import ExplainedAction, Explainer
from .fence import FenceKind, Fences
from .fold import exists, seq_nr_of
from .follower import FollowReader
from .foreign import check_not_foreign
from .keep import LogTrimmer
from .key import decode_id, encode_id
from .look import Key, Look, Looks
from .reader import EventReader, JournalSource
from .replicator import LeaseTerm, Replicator
from .scan import Scans
from .single_writer import SingleWriter
from .snapshots import Snapshot, Snapshots
from .stats import JournalStats
from .stored_event import StoredEvent
from .tail import Tail
from .topic import EPOCH, OURS, SCALA, JournalTopic, bind, new_binding, system_ms

T = TypeVar("T")

_LOGGER = logging.getLogger("cordwood.journal")
_NO_HEADERS: Mapping[str, str] = {}
_PLACES_MAX = 10_000
"""Keys of which key and partition stay known: to find them again takes a tenth of the time of an append."""


@dataclass(frozen=True, slots=True)
class JournalConfig:
    """How a journal is opened, checked."""

    store: str | None
    store_config: Mapping[str, str]
    partitions: int
    fence: FenceKind
    replicate: bool
    single_writer: bool
    keep: timedelta | None
    segment_size: int
    head_bytes_max: int
    agree_seconds: float
    now_ms: Callable[[], int] = system_ms
    trim_seconds: float = 60.0
    """How often the log is trimmed."""
    lease_seconds: float | None = None
    """How long a lease of a partition lasts; None: the background replicator takes none, since it is the only one."""


@dataclass(frozen=True, slots=True)
class PurgeReport:
    """A journal that was purged.

    >>> PurgeReport(None).log_until is None
    True
    """

    log_until: datetime | None
    """Until when the log still has its records; None if that is not known: nothing trims the log, or there was none."""


@dataclass(frozen=True, slots=True)
class ExpiredReport:
    """The journals that `purge_expired` found, by id.

    >>> ExpiredReport(("order-1",), (), {}).purged
    ('order-1',)
    """

    purged: tuple[str, ...]
    refused: tuple[str, ...]
    """They got events or another expiry meanwhile."""
    failed: Mapping[str, CordwoodError]


@dataclass(slots=True)
class _Parts:
    """The parts of a journal that is open."""

    topic: JournalTopic
    tail: Tail
    fences: Fences
    appender: Appender
    looks: Looks
    source: JournalSource
    snapshots: Snapshots
    single: SingleWriter | None
    replicator: Replicator
    trimmer: LogTrimmer | None


class Recovered:
    """A snapshot, if there is one, and the events after it: one read fence for both.

    ```python
    async with journal.recover("order-1") as recovered:
        state = load(recovered.snapshot)
        async for event in recovered:
            state.apply(event.payload)
    ```
    """

    def __init__(self, journal: Journal, key: Key) -> None:
        self._journal = journal
        self._key = key
        self._snapshot: Snapshot | None = None
        self._reader: EventReader | None = None

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest snapshot, or None; known once the block is entered."""
        return self._snapshot

    @property
    def position(self) -> Position | None:
        """The place of the journal; None if it does not exist."""
        return None if self._reader is None else self._reader.position

    async def __aenter__(self) -> Self:
        self._snapshot, self._reader = await self._journal._recover(self._key)
        return self

    def __aiter__(self) -> AsyncIterator[StoredEvent]:
        if self._reader is None:
            raise InvalidInput("enter the recovery first: `async with journal.recover(id) as recovered:`")
        return self._reader

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._reader is not None:
            await self._reader.close()


class Journal:
    """The events of many entities on one topic, replicated to an event store. Made by `cw.journal(topic)`.

    It is used in the event loop of its first call.

    ```python
    journal = cw.journal("orders")
    done = await journal.append("order-1", [Event.json({"item": "tea"})])
    async with journal.read("order-1") as reader:
        async for event in reader:
            print(event.seq_nr, event.payload)
    ```
    """

    topic: str

    def __init__(
        self,
        engine: Engine,
        topic: str,
        config: JournalConfig,
        *,
        timeout: float,
        read_only: bool,
        check: Callable[[], None],
        on_open: Callable[[Journal], None],
        on_close: Callable[[Journal], None] = lambda journal: None,
    ) -> None:
        self.topic = topic
        self._engine = engine
        self._config = config
        self._timeout = timeout
        self._read_only = read_only
        self._check_connection = check
        self._on_open = on_open
        self._on_close = on_close
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Task[_Parts] | None = None
        self._parts: _Parts | None = None
        self._store: EventStore | None = None
        self._closed = False
        self._closing: asyncio.Task[None] | None = None
        self._places: dict[str, Key] = {}
        self._appends = 0
        self._reads = 0

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open" if self._parts is not None else "not opened yet"
        return f"<cordwood.Journal {self.topic!r} {state}>"

    # --- writing

    async def append(
        self,
        key: str,
        events: Sequence[Event],
        *,
        expected: int | Position | None = None,
        id: str | None = None,
        seq_nr: int | None = None,
        expire_after: timedelta | None = None,
        keep_expiry: bool = False,
        metadata: object = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Appended:
        """Append events to a journal, all or none of them; returns when they are durable and have their numbers.

        With `expected`, the journal must be at that number, or at that `Position`, else the call raises `Conflict` with
        `actual` and `winner`. With `expected` and `id`, a retry is safe from any process: it returns the first result.
        An `id` alone covers the retries within this call only. `expire_after` sets when the journal may be purged; an
        append without it clears that, unless `keep_expiry`. On a topic with a single writer, `seq_nr` is the number of
        the first event.

        ```python
        done = await journal.append("order-1", [Event.json({"n": 1})], expected=0, id="command-42")
        done.seq_nrs  # range(1, 2)
        ```
        """
        place = self._places.get(key)
        if place is None:
            encode_id(key)
        checked = checked_events(events)
        expected = None if expected is None else checked_expected(expected)
        own_id = None if id is None else checked_text("id", id)
        expire_after = None if expire_after is None else checked_expire_after(expire_after)
        checked_flag("keep_expiry", keep_expiry)
        user_headers = checked_headers(headers) if headers else _NO_HEADERS
        encoded = None if metadata is None else checked_metadata(metadata)
        seconds = self._seconds(timeout)
        parts = self._parts_to_write()
        if parts is None:
            began = time.monotonic()
            parts = await self._open_to_write(seconds)
            seconds = max(0.0, seconds - (time.monotonic() - began))
        if place is None:
            place = self._place(parts, key)
        self._appends += 1
        if parts.single is not None:
            if expected is not None or own_id is not None:
                raise InvalidInput(
                    f"topic {self.topic!r} has a single writer: it takes seq_nr=, and neither expected= nor id=",
                    outcome="not_written",
                )
            number = None if seq_nr is None else checked_number("seq_nr", seq_nr)
            return await parts.single.append(place, checked, number, expire_after, encoded, user_headers, seconds)
        if seq_nr is not None:
            raise InvalidInput(
                f"seq_nr is for topics with single_writer=True: use expected={seq_nr - 1}", outcome="not_written"
            )
        return await parts.appender.append(
            place,
            checked,
            expected=expected,
            id=own_id,
            expire_after=expire_after,
            keep_expiry=keep_expiry,
            metadata=encoded,
            headers=user_headers,
            timeout=seconds,
        )

    async def delete(self, key: str, *, through: int, timeout: float | None = None) -> None:
        """Delete the events up to this number, inclusive; beyond the end it deletes all.

        The numbers continue: the next append follows the last deleted event. A journal that does not exist stays so.

        ```python
        await journal.delete("order-1", through=2)
        ```
        """
        through = checked_number("through", through)
        encode_id(key)
        with change():

            async def delete() -> None:
                parts, place = await self._write_parts(key)
                look = await parts.looks.before_write(place)
                look.check_open(self.topic, key, "not_written")
                state = look.state
                if state is None or not exists(state) or through <= (state.delete_to or 0):
                    return
                life = None if self._config.single_writer else state.life
                action = Delete(min(through, seq_nr_of(state)), _origin(), __version__, life)
                await parts.appender.send_control(place.partition, place.bytes, action)

            await self._in_time(timeout, f"deleting from journal {key!r}", delete())

    async def purge(self, key: str, *, wait: bool = False, timeout: float | None = None) -> PurgeReport:
        """Delete the whole journal, its snapshots included; the next append begins a new life, at 1.

        With `wait` the call returns when the store holds nothing of it. The log holds its records until `log_until`.

        ```python
        report = await journal.purge("order-1", wait=True)
        ```
        """
        encode_id(key)
        with change():

            async def purge() -> PurgeReport:
                parts, place = await self._write_parts(key)
                look = await parts.looks.before_write(place)
                if look.state is None:
                    purges = [at.offset for at in look.actions if type(at.told) is Purge and at.verdict.counted]
                    if wait and purges:
                        # The store may have rows until that Purge is replicated. A Mark of the fence comes after it.
                        await self._until_replicated(parts, place.partition, purges[-1])
                    return PurgeReport(None)
                offset, timestamp = await self._send_purge(parts, place, look, None)
                if wait:
                    await self._until_replicated(parts, place.partition, offset)
                keep = self._config.keep
                if keep is None:
                    return PurgeReport(None)
                return PurgeReport(datetime.fromtimestamp(timestamp / 1000, UTC) + keep)

            return await self._in_time(timeout, f"purging journal {key!r}", purge())

    async def _send_purge(self, parts: _Parts, place: Key, look: Look, seq_nr: int | None) -> tuple[int, int]:
        life = None if self._config.single_writer or look.state is None else look.state.life
        action = Purge(_origin(), __version__, life, None if life is None else seq_nr)
        return await parts.appender.send_control(place.partition, place.bytes, action)

    # --- reading

    def read(self, key: str, start: int = 1, stop: int | None = None, until: datetime | None = None) -> EventReader:
        """Read the events [start, stop) of a journal, to its end at the first step; `until` ends it at a time.

        ```python
        async with journal.read("order-1", start=3) as reader:
            async for event in reader:
                print(event.seq_nr, event.payload)
        ```
        """
        checked_number("start", start)
        if stop is not None:
            checked_number("stop", stop)
        encoded = encode_id(key)
        checked_until(until)
        self._check()
        self._reads += 1
        return LazyEventReader(self, key, encoded, start, stop, until)

    def follow(self, key: str, start: int = 1) -> FollowReader:
        """Read the events of a journal from `start` on, and then every new one, each once it is acked.

        A Delete beyond the reader's place raises `Trimmed`, a Purge ends the reader. A `start` beyond the end + 1 is
        `InvalidInput`.

        ```python
        async with journal.follow("order-1") as reader:
            async for event in reader:
                print(event.seq_nr, event.payload)
        ```
        """
        checked_number("start", start)
        encode_id(key)
        self._check()
        return LazyFollowReader(self, key, start)

    async def pointer(self, key: str, *, timeout: float | None = None) -> int | None:
        """The number of the last event, also if it is deleted; None if there is no journal.

        ```python
        await journal.pointer("order-1")  # 4
        ```
        """
        position = await self.position(key, timeout=timeout)
        return None if position is None else position.seq_nr

    async def position(self, key: str, *, timeout: float | None = None) -> Position | None:
        """The life and the number of the last event; None if there is no journal.

        ```python
        position = await journal.position("order-1")
        await journal.append("order-1", [Event.empty()], expected=position)
        ```
        """

        async def look_at_it() -> Look:
            parts, place = await self._read_parts(key)
            return await parts.looks.at_fence(place)

        look = await self._in_time(timeout, f"the pointer of journal {key!r}", look_at_it())
        look.check_open(self.topic, key)
        state = look.state
        return None if state is None or not exists(state) else Position(state.life, seq_nr_of(state))

    async def ids(self) -> AsyncIterator[str]:
        """The ids of all journals, replicated or not, each once, in no order.

        ```python
        async for id in journal.ids():
            print(id)
        ```
        """
        parts = await self._open()
        heads: dict[str, int] = {}
        pins: dict[int, int] = {}

        async def pin(partition: int) -> None:
            """Pin the head of a partition, with all records up to a read fence."""
            head = await parts.tail.head(partition)
            pins[partition] = head.pin()
            await parts.tail.reach(partition, await parts.fences.take(partition))

        try:
            for partition in range(parts.topic.partitions):
                await self._in_time(None, f"the ids of {self.topic}/{partition}", pin(partition))
                head = parts.tail.heads[partition]
                heads.update({id: partition for key in head.all_keys() if (id := decode_id(key)) is not None})
            async for page in parts.topic.store.ids(self.topic):
                for id in page:
                    if id not in heads:
                        yield id
            for id in heads:
                look = await parts.looks.now(self._place(parts, id))
                if exists(look.state):
                    yield id
        finally:
            for partition, pinned in pins.items():
                found = parts.tail.heads.get(partition)
                if found is not None:
                    found.unpin(pinned)

    async def explain(self, key: str) -> AsyncIterator[ExplainedAction]:
        """Every action of a journal that the log still has, with its verdict.

        ```python
        async for action in journal.explain("order-1"):
            print(action.offset, action.kind, action.counted)
        ```
        """
        parts, place = await self._read_parts(key)
        async for action in Explainer(parts.topic, parts.tail, parts.looks).explain(place):
            yield action

    # --- snapshots

    async def save_snapshot(
        self, key: str, seq_nr: int, payload: bytes, *, newest: int = 1, timeout: float | None = None
    ) -> None:
        """Save a snapshot of a journal at one of its numbers, and keep the `newest` ones.

        ```python
        await journal.save_snapshot("order-1", seq_nr=4, payload=b"state", newest=1)
        ```
        """
        checked_number("seq_nr", seq_nr)
        checked_number("newest", newest)
        if not isinstance(payload, bytes):
            raise TypeError(f"a snapshot's payload is bytes, not {type(payload).__name__}")
        with change():

            async def save() -> None:
                parts, place = await self._write_parts(key)
                await parts.snapshots.save(place, seq_nr, payload, newest)

            await self._in_time(timeout, f"saving a snapshot of {key!r}", save())

    async def load_snapshot(self, key: str, *, timeout: float | None = None) -> Snapshot | None:
        """The newest snapshot of a journal, or None.

        ```python
        snapshot = await journal.load_snapshot("order-1")
        ```
        """

        async def load() -> Snapshot | None:
            parts, place = await self._read_parts(key)
            return await parts.snapshots.load(place)

        return await self._in_time(timeout, f"loading a snapshot of {key!r}", load())

    async def delete_snapshots(self, key: str, *, through: int, timeout: float | None = None) -> None:
        """Delete the snapshots of a journal up to this number, inclusive.

        ```python
        await journal.delete_snapshots("order-1", through=4)
        ```
        """
        checked_number("through", through)
        with change():

            async def delete() -> None:
                parts, place = await self._write_parts(key)
                await parts.snapshots.delete(place, through)

            await self._in_time(timeout, f"deleting snapshots of {key!r}", delete())

    def recover(self, key: str) -> Recovered:
        """The newest snapshot of a journal and the events after it, as of one read fence.

        ```python
        async with journal.recover("order-1") as recovered:
            print(recovered.snapshot)
            async for event in recovered:
                print(event.seq_nr)
        ```
        """
        encoded = encode_id(key)
        self._check()
        return Recovered(self, Key(key, encoded, -1))

    async def _recover(self, key: Key) -> tuple[Snapshot | None, EventReader]:
        return await self._in_time(None, f"recovering journal {key.id!r}", self._begin_recovery(key))

    async def _begin_recovery(self, key: Key) -> tuple[Snapshot | None, EventReader]:
        parts, place = await self._read_parts(key.id)
        look, snapshot = await parts.snapshots.at_fence(place)
        start = 1 if snapshot is None else snapshot.seq_nr + 1
        reader = EventReader(parts.source, place, start, None, None)
        # The reader never starts over: events of another life, or of a later Delete, do not follow this snapshot, and
        # not the start without one either.
        await reader._begin_at(look, continues=True)
        return snapshot, reader

    # --- replication

    async def catch_up(self, *, accept_loss: bool = False, adopt: bool = False, timeout: float | None = None) -> None:
        """Replicate to the end of the log, now, in this process.

        `accept_loss` accepts records that were trimmed before they were replicated: the dead letters name them. `adopt`
        takes the topic over from the Scala library's replicator, which must be stopped, for good. Without
        `timeout` it takes as long as there are records; after a `Timeout` the next call continues.

        ```python
        await journal.catch_up()
        ```
        """
        self._check_writable()
        parts = await self._open(check_replicator=False)
        if adopt:
            await parts.topic.adopt()
        parts.topic.check_ours()
        replicator = Replicator(parts.topic, parts.tail.set_pointer)
        try:
            await self._if_timed(timeout, f"replicating {self.topic!r}", replicator.catch_up(accept_loss=accept_loss))
        finally:
            parts.replicator.add(replicator.stats)
        parts.replicator.start_again()

    async def wait_replicated(self, done: Appended, *, timeout: float | None = None) -> None:
        """Wait until the store has an append.

        ```python
        await journal.wait_replicated(done)
        ```
        """

        async def wait() -> None:
            await self._until_replicated(await self._open(), done.partition, done.offset)

        await self._in_time(timeout, f"waiting for the replication of {self.topic}/{done.partition}", wait())

    async def purge_expired(self, on: date | None = None, *, timeout: float | None = None) -> ExpiredReport:
        """Purge the journals whose expiry has come, through `on`: by default through yesterday, UTC (R22).

        It also finds the days that no earlier run completed. A journal that got events meanwhile is refused. Without
        `timeout` it takes as long as there are journals; after a `Timeout` the next call continues.

        ```python
        report = await journal.purge_expired()
        print(len(report.purged), report.refused, report.failed)
        ```
        """
        today = EPOCH + timedelta(milliseconds=self._config.now_ms())
        yesterday = today.date() - timedelta(days=1)
        day = yesterday if on is None else on
        if type(day) is not date:
            raise TypeError(f"on is a date, not {type(day).__name__}")
        if day > yesterday:
            raise InvalidInput(f"on is {day}: the last day that is over is {yesterday}, UTC", outcome="not_written")
        self._check_writable()
        return await self._if_timed(
            timeout, f"purging the expired journals of {self.topic!r}", self._purge_expired(day, on)
        )

    async def _purge_expired(self, day: date, on: date | None) -> ExpiredReport:
        parts = await self._open()
        store = parts.topic.store
        await self.catch_up()  # the expiry of a journal may be in its head
        complete = await store.expired_through(self.topic)
        after = None if complete is None or on is not None else complete
        purged: list[str] = []
        refused: list[str] = []
        failed: dict[str, CordwoodError] = {}
        async for page in store.expired(self.topic, after, day):
            for id, row in page:
                try:
                    if await self._purge_one_expired(parts, id, row.life, seq_nr_of(row)):
                        purged.append(id)
                    else:
                        refused.append(id)
                except CordwoodError as error:
                    failed[id] = error
        if not failed and not refused:  # a journal that was refused may keep its expiry: the next run finds it
            await store.set_expired_through(self.topic, day)
        return ExpiredReport(tuple(purged), tuple(refused), failed)

    async def _purge_one_expired(self, parts: _Parts, id: str, life: str | None, seq_nr: int) -> bool:
        """R22: the Purge carries the life and the number that this run saw, and counts only if both still hold."""
        place = self._place(parts, id)
        look = await parts.looks.at_fence(place)
        state = look.state
        if state is None or state.life != life or seq_nr_of(state) != seq_nr:
            return False
        offset, _ = await self._send_purge(parts, place, look, seq_nr)
        await parts.tail.reach(place.partition, offset + 1)
        after = await parts.looks.now(place)
        return after.state is None or after.state.life != life

    async def dead_letters(self, *, timeout: float | None = None) -> list[DeadLetter]:
        """The poison records and lost ranges of the topic, those that were skipped among them (R43).

        ```python
        for letter in await journal.dead_letters():
            print(letter.place, letter.id, letter.reason)
        ```
        """

        async def find() -> list[DeadLetter]:
            return await (await self._open()).topic.store.dead_letters(self.topic)

        return await self._in_time(timeout, f"the dead letters of {self.topic!r}", find())

    async def skip(self, *, partition: int, offset: int, timeout: float | None = None) -> DeadLetter:
        """Skip a dead letter: its journal is open again, without that record's events.

        ```python
        await journal.skip(partition=0, offset=17)
        ```
        """
        self._check_writable()

        async def skip() -> DeadLetter:
            parts = await self._open()
            letter = await parts.topic.store.skip(self.topic, partition, offset, parts.topic.now_ms())
            if letter.id is not None:
                parts.appender.forget_key(letter.id)
            return letter

        return await self._in_time(timeout, f"skipping {self.topic}/{partition}, offset {offset},", skip())

    def stats(self) -> JournalStats:
        """Numbers about this journal in this process. No I/O.

        ```python
        journal.stats().appends
        ```
        """
        parts = self._parts
        if parts is None:
            return JournalStats(0, 0, 0, 0, 0, 0, {}, {}, 0, 0, 0, ())
        done = parts.replicator.stats
        return JournalStats(
            self._appends,
            parts.appender.renumbered,
            self._reads,
            len(parts.tail.heads),
            parts.tail.kept_bytes,
            parts.appender.keys_known,
            parts.tail.pointers,
            self._lag(parts),
            done.records,
            done.events,
            done.dead,
            done.partitions,
        )

    def _lag(self, parts: _Parts) -> dict[int, int]:
        ends = dict(parts.replicator.stats.ends)
        for partition, head in parts.tail.heads.items():
            ends[partition] = max(head.upper, ends.get(partition, 0))
        return {partition: max(0, end - 1 - parts.tail.pointer(partition)) for partition, end in sorted(ends.items())}

    async def close(self) -> None:
        """Finish the appends under way, and close; a second call has no effect.

        A call that is cancelled has closed it all the same, or the next call waits for the rest.
        """
        if self._closing is None:
            self._check_process()
            alive = self._loop is None or not self._loop.is_closed()
            if alive:
                self._check_loop()
            self._closed = True
            self._on_close(self)
            self._closing = asyncio.get_running_loop().create_task(self._close(alive))
        if not self._closing.done():
            self._check_process()
            await asyncio.shield(self._closing)

    async def _close(self, alive: bool) -> None:
        opening = self._opening
        if alive and opening is not None and not opening.done():
            opening.cancel()
            await asyncio.wait([opening])
        parts, self._parts = self._parts, None
        if alive and parts is not None:  # the tasks of a loop that is closed have ended with it
            await parts.appender.close()
            if parts.trimmer is not None:
                await parts.trimmer.close()
            await parts.replicator.close()
            await parts.tail.close()
        if self._store is not None:
            await self._store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # --- opening

    async def _write_parts(self, key: str) -> tuple[_Parts, Key]:
        encode_id(key)
        parts = self._parts_to_write() or await self._open_to_write()
        return parts, self._place(parts, key)

    def _parts_to_write(self) -> _Parts | None:
        """The parts, if the journal is open, and may be written in this loop."""
        parts = self._parts
        if (
            parts is None
            or asyncio.get_running_loop() is not self._loop
            or parts.replicator.failed
            or self._closed
            or self._read_only
            or os.getpid() != self._pid
        ):
            return None
        return parts

    async def _open_to_write(self, seconds: float | None = None) -> _Parts:
        late = f"opening journal {self.topic!r} took more than {seconds} s: try again"
        try:
            self._check_writable()
            async with deadline(seconds, lambda: Timeout(late)):
                return await self._open()
        except CordwoodError as error:
            error.outcome = "not_written"
            raise

    async def _read_parts(self, key: str) -> tuple[_Parts, Key]:
        encoded = encode_id(key)
        parts = await self._open()
        return parts, Key(key, encoded, partition_of(encoded, parts.topic.partitions))

    def _place(self, parts: _Parts, id: str) -> Key:
        encoded = encode_id(id)
        place = Key(id, encoded, partition_of(encoded, parts.topic.partitions))
        if len(self._places) >= _PLACES_MAX:
            self._places.clear()
        self._places[id] = place
        return place

    async def _open(self, *, check_replicator: bool = True) -> _Parts:
        """The parts of this journal, which its first call opens."""
        self._check()
        self._check_loop()
        loop = self._loop = asyncio.get_running_loop()
        if self._parts is None:
            if self._opening is None or self._opening.done():
                self._on_open(self)  # before the I/O: a connection that is closed meanwhile closes this, too
                self._opening = loop.create_task(self._open_parts())
            late = f"opening journal {self.topic!r} took more than {self._timeout} s"
            async with deadline(self._timeout, lambda: Timeout(late, outcome="not_written")):
                try:
                    await asyncio.shield(self._opening)
                except asyncio.CancelledError:
                    if self._opening.cancelled():
                        self._check()  # `close` has cancelled the task, and not this call
                    raise
            self._check()
        assert self._parts is not None
        if check_replicator:
            self._parts.replicator.raise_failure()
        return self._parts

    async def _open_parts(self) -> _Parts:
        config = self._config
        info = await self._topic_info()
        if info.compacted:
            raise Conflict(
                f"topic {self.topic!r} is compacted: it keeps one record of a key, and a journal needs all of them",
                outcome="not_written",
            )
        assert config.store is not None
        if self._store is None:
            self._store = await open_store(
                config.store, config=config.store_config, read_only=self._read_only, timeout=self._timeout
            )
        if not config.single_writer and not self._read_only and await self._store.binding(self.topic) is None:
            await check_not_foreign(self._engine, info, self._store, self._timeout)
        # R23: pointers that are older than the row are those of the Scala library's replicator.
        foreign = config.single_writer and await self._store.binding(self.topic) is None
        replicator = SCALA if foreign and await self._store.pointers(self.topic) else OURS
        wanted = new_binding(
            info, single_writer=config.single_writer, segment_size=config.segment_size, replicator=replicator
        )
        binding = await bind(self._store, info, wanted, self._read_only)
        topic = JournalTopic(
            self.topic,
            info,
            binding,
            self._engine,
            self._store,
            self._timeout,
            config.agree_seconds,
            config.now_ms,
        )
        parts = self._make_parts(topic)
        self._parts = parts
        if config.replicate and not self._read_only:
            parts.replicator.start()
            if parts.trimmer is not None:
                parts.trimmer.start()
        return parts

    async def _topic_info(self) -> TopicInfo:
        try:
            info = await self._engine.topic(self.topic, timeout=self._timeout)
        except NotFound:
            if self._read_only:
                raise
        else:
            self._warn_of_retention(info)
            return info
        topic = TopicConfig(self._config.partitions, None, None, None)
        return await self._engine.create_topic(self.topic, topic, exist_ok=True, timeout=self._timeout)

    def _warn_of_retention(self, info: TopicInfo) -> None:
        """R42: the log may drop records that are not replicated."""
        limits = {"retention": info.retention, "retention_bytes": info.retention_bytes}
        found = ", ".join(f"{name}={limit}" for name, limit in limits.items() if limit is not None)
        if found:
            _LOGGER.warning(
                "topic %r has %s: its log may drop events that are not replicated; alter_topic(%r, retention=None,"
                " retention_bytes=None) keeps them",
                self.topic,
                found,
                self.topic,
            )

    def _make_parts(self, topic: JournalTopic) -> _Parts:
        config = self._config
        tail = Tail(topic, config.head_bytes_max)
        appender = Appender(topic, tail, _origin(), __version__)
        fences = Fences(topic, config.fence, appender.send_mark)
        scans = Scans(topic)
        looks = Looks(topic, tail, fences, scans)
        appender.looks, appender.fences = looks, fences
        source = JournalSource(topic, tail, looks, scans)
        single = SingleWriter(topic, tail, looks, appender, _origin(), __version__) if config.single_writer else None
        lease = None if config.lease_seconds is None else LeaseTerm(_lease_owner(), config.lease_seconds)
        replicator = Replicator(topic, tail.set_pointer, lease=lease)
        trimmer = None if config.keep is None else LogTrimmer(topic, config.keep, config.trim_seconds)
        return _Parts(
            topic, tail, fences, appender, looks, source, Snapshots(topic, looks), single, replicator, trimmer
        )

    def _check_loop(self) -> None:
        if self._loop is not None and self._loop is not asyncio.get_running_loop():
            raise Unavailable(
                f"journal {self.topic!r} was first used in another event loop: use it there, or make another one",
                outcome="not_written",
                reason="other-loop",
            )

    def _check(self) -> None:
        self._check_process()
        if self._closed:
            raise Unavailable(
                f"journal {self.topic!r} is closed: make another one", outcome="not_written", reason="closed"
            )
        self._check_connection()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise Unavailable(
                f"journal {self.topic!r} was made before the process was forked: connect again in the child",
                outcome="not_written",
                reason="forked",
            )

    def _check_writable(self) -> None:
        self._check()
        if self._read_only:
            raise Unavailable(
                f"journal {self.topic!r} is on a read-only connection: connect without read_only to write",
                outcome="not_written",
                reason="read-only",
            )

    def _seconds(self, timeout: float | None) -> float:
        return self._timeout if timeout is None else checked_timeout(timeout)

    async def _in_time(self, timeout: float | None, what: str, work: Awaitable[T]) -> T:
        seconds = self._seconds(timeout)
        async with deadline(seconds, lambda: Timeout(f"{what} took more than {seconds} s: try again")):
            return await work

    async def _if_timed(self, timeout: float | None, what: str, work: Awaitable[T]) -> T:
        """As `_in_time`, but without a limit if the caller gave none: the work is as long as the log."""
        return await (work if timeout is None else self._in_time(timeout, what, work))

    async def _until_replicated(self, parts: _Parts, partition: int, offset: int) -> None:
        grown = asyncio.Event()

        def on_pointer(moved: int, pointer: int) -> None:
            if moved == partition and pointer >= offset:
                grown.set()

        parts.tail.on_pointer.append(on_pointer)
        try:
            while True:
                await parts.tail.refresh_pointers()
                if parts.tail.pointer(partition) >= offset:
                    return
                parts.replicator.raise_failure()
                try:
                    async with asyncio.timeout(0.1):
                        await grown.wait()
                except TimeoutError:
                    pass
        finally:
            parts.tail.on_pointer.remove(on_pointer)


async def purge_if_unchanged(journal: Journal, id: str, life: str | None, seq_nr: int) -> bool:
    """For jobs that find expired journals by themselves: purge one that still has this life and number (R22).

    False if it has changed, or does not exist any more.
    """
    return await journal._purge_one_expired(await journal._open_to_write(), id, life, seq_nr)


class LazyEventReader(EventReader):
    """A reader of a journal that is opened at its first step: `read` does no I/O."""

    def __init__(
        self, journal: Journal, id: str, encoded: bytes, start: int, stop: int | None, until: datetime | None
    ) -> None:
        super().__init__(None, Key(id, encoded, -1), start, stop, until)  # type: ignore[arg-type]
        self._journal = journal

    async def _begin(self) -> None:
        if self._source is None:
            parts, self._key = await self._journal._read_parts(self._key.id)
            self._source = parts.source
        await super()._begin()


class LazyFollowReader(FollowReader):
    """A follower of a journal that is opened at its first step: `follow` does no I/O."""

    def __init__(self, journal: Journal, id: str, start: int) -> None:
        super().__init__(None, Key(id, id.encode(), -1), start)  # type: ignore[arg-type]
        self._journal = journal

    async def _look(self) -> None:
        if self._source is None:
            parts, self._key = await self._journal._read_parts(self._key.id)
            self._source = parts.source
        await super()._look()


def _origin() -> str:
    return socket.gethostname()


def _lease_owner() -> str:
    """A name that no other journal has, and that tells an operator where the replicator runs."""
    return f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"
