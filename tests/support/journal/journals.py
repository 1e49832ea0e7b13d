"""Journals of one test: a log and a store of their own, opened as often as the test needs, and closed at its end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import cordwood
from cordwood import Appended, Batch, Client, Event, EventStore, Journal, StoredEvent
from cordwood.journal.opening import journal_config
from cordwood.log import Engine
from cordwood.log.partitioning import partition_of
from cordwood.store.opening import open_store
from cordwood.url import parse_url

TOPIC = "orders"
AGREE_SECONDS = 0.2
"""How long a second look waits where a leader may lag: the tests have one server, which does not."""


class Clock:
    """A clock that a test sets: the timestamps of records, and today, follow it."""

    def __init__(self, now: datetime = datetime(2026, 3, 10, 12, tzinfo=UTC)) -> None:
        self.now = now

    def __call__(self) -> int:
        return int(self.now.timestamp()) * 1000 + self.now.microsecond // 1000

    def pass_by(self, span: timedelta) -> None:
        self.now += span


@dataclass(frozen=True)
class Kind:
    """Which log and which store the suite runs on: their urls, and the settings that a test of them needs."""

    name: str
    log_url: str
    store_url: str


class Journals:
    """Makes journals on one log and one store. Each handle has its own connection, so two of them are two writers.

    By default nothing is replicated until the test calls `catch_up`, the log is never trimmed, and there is one
    partition, so that a test knows its offsets.
    """

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self._clients: list[Client] = []
        self._stores: list[EventStore] = []
        self._first: tuple[Client, Journal] | None = None

    async def connect(self, *, read_only: bool = False) -> Client:
        """A connection that is closed at the end of the test."""
        client = await cordwood.connect(self.kind.log_url, read_only=read_only)
        self._clients.append(client)
        return client

    async def open(
        self,
        topic: str = TOPIC,
        *,
        client: Client | None = None,
        engine: Engine | None = None,
        clock: Clock | None = None,
        read_only: bool = False,
        timeout: float = 30,
        trim_seconds: float = 60,
        lease_seconds: float | None = None,
        **options: Any,
    ) -> Journal:
        """A journal on a connection of its own, unless the test names one."""
        cw = client or await self.connect(read_only=read_only)
        arguments: dict[str, Any] = {
            "store": self.kind.store_url,
            "store_config": {},
            "partitions": 1,
            "fence": None,
            "replicate": False,
            "single_writer": False,
            "keep": None,
            "segment_size": 10_000,
            "head_bytes_max": 64 << 20,
            "read_only": cw.read_only,
            **options,
        }
        config = journal_config(parse_url(self.kind.log_url), **arguments)
        config = replace(config, trim_seconds=trim_seconds, agree_seconds=min(config.agree_seconds, AGREE_SECONDS))
        if clock is not None:
            config = replace(config, now_ms=clock)
        if lease_seconds is not None:
            config = replace(config, lease_seconds=lease_seconds)
        return Journal(
            engine or cw._engine,
            topic,
            config,
            timeout=timeout,
            read_only=cw.read_only,
            check=cw._check_open,
            on_open=cw._journals.add,
        )

    async def first(self) -> tuple[Client, Journal]:
        """The same connection and journal at every call: for tests that play many examples on one topic."""
        if self._first is None:
            client = await self.connect()
            self._first = client, await self.open(client=client)
        return self._first

    async def store(self, *, read_only: bool = False) -> EventStore:
        """The store itself, without a journal."""
        store = await open_store(self.kind.store_url, read_only=read_only)
        self._stores.append(store)
        return store

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
        for store in self._stores:
            await store.close()

    async def delete_topics(self) -> None:
        """Delete what the test has left on a log that other tests use too."""
        async with cordwood.connect(self.kind.log_url) as client:
            for topic in await client.topics():
                await client.delete_topic(topic)


def texts(*payloads: str) -> list[Event]:
    """Events with these payloads."""
    return [Event.text(payload) for payload in payloads]


async def append(journal: Journal, key: str, *payloads: str, **options: Any) -> Appended:
    """Append text events in one record."""
    return await journal.append(key, texts(*payloads), **options)


async def read(
    journal: Journal, key: str, start: int = 1, stop: int | None = None, until: datetime | None = None
) -> list[StoredEvent]:
    """All events that a read returns."""
    async with journal.read(key, start, stop, until) as reader:
        return [event async for event in reader]


async def read_texts(
    journal: Journal, key: str, start: int = 1, stop: int | None = None, until: datetime | None = None
) -> dict[int, Any]:
    """The payloads that a read returns, by number; a number that comes twice fails."""
    events = await read(journal, key, start, stop, until)
    found = {event.seq_nr: event.payload for event in events}
    assert len(found) == len(events), events
    assert list(found) == sorted(found)
    return found


async def put(
    client: Client,
    key: bytes | None,
    header: bytes | None,
    value: bytes | None = None,
    *,
    topic: str = TOPIC,
    partition: int | None = None,
    timestamp: int | None = None,
    headers: Mapping[str, bytes] | Sequence[tuple[str, bytes | None]] = (),
) -> tuple[int, int]:
    """Append one record as it is, past the journal, to the partition of its key: its partition and offset."""
    pairs: list[tuple[str, bytes | None]] = [] if header is None else [("journal.action", header)]
    pairs.extend(headers.items() if isinstance(headers, Mapping) else headers)
    if partition is None:
        info = await client.topic(topic)
        partition = partition_of(key or b"", info.partitions)
    timestamps = None if timestamp is None else [timestamp]
    batch = Batch.of([value], keys=[key], headers=[pairs], timestamps=timestamps)
    offsets = await client.log(topic, partition).append(batch)
    return partition, offsets[0]
