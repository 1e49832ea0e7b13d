"""The properties that a store declares to the suite, the fixtures of every test, and the rows that they write."""

import secrets
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, ClassVar

import pytest

from cordwood.store import (
    Binding,
    DeadLetter,
    EventRow,
    EventStore,
    HeadRow,
    KeyChanges,
    PartitionChanges,
    SnapshotGuard,
    SnapshotRow,
    open_store,
)
from cordwood.testing.promises import Promises

LIFE = str(uuid.UUID(int=1))
NEXT_LIFE = str(uuid.UUID(int=2))
SEGMENT_SIZE = 10
"""Small, so that a few events reach several segments."""
BASE_MS = 1_700_000_000_000
EVERYTHING = 2**63 - 1


class StoreUnderTest(Promises):
    """The store under test: its promises, how to open it, and the fixtures of all tests."""

    guarded: ClassVar[bool] = True
    """A batch that began elsewhere than at the pointer writes nothing, and `write` returns False."""
    reopens: ClassVar[bool] = True
    """Rows survive for the next store after all others were closed."""
    read_only_alongside: ClassVar[bool] = True
    """`open(url, read_only=True)` works next to a store that writes."""

    @pytest.fixture
    def url(self) -> str:
        """The url of the store; the same during one test."""
        raise NotImplementedError(f"{type(self).__name__} has no fixture `url`: it says where the store is")

    async def open(self, url: str, read_only: bool = False) -> EventStore:
        """Open the store; a store without a url of its own is made here."""
        return await open_store(url, read_only=read_only)

    async def traces(self, store: EventStore, topic: str, id: str) -> list[object]:
        """Everything that the store has of a journal. Override it with a look into every table."""
        everything = await store.parts(topic, 1)
        return [
            *(await store.heads(topic, [id])).values(),
            *[row for part in everything for row in await rows_of(store, topic, part) if row[0] == id],
            *await store.snapshots(topic, id),
            *[letter for letter in await store.dead_letters(topic) if letter.id == id],
        ]

    @pytest.fixture
    def topic(self) -> str:
        """The name of a topic that no other test uses."""
        return f"conformance-{secrets.token_hex(6)}"

    @pytest.fixture
    async def store(self, url: str, topic: str) -> AsyncIterator[EventStore]:
        """A store, with the topic bound."""
        async with await self.open(url) as store:
            await store.bind(topic, bound())
            yield store


def bound(**changes: Any) -> Binding:
    """A binding."""
    values: dict[str, Any] = {
        "topic_id": "a-topic",
        "partitions": 4,
        "single_writer": False,
        "segment_size": SEGMENT_SIZE,
        "replicator": "cordwood",
        "base_us": BASE_MS * 1000,
    }
    return Binding(**values | changes)


def event(seq_nr: int, offset: int | None = None, **changes: Any) -> EventRow:
    """An event row: by default each event is a record of its own, at the offset of its number."""
    offset = seq_nr if offset is None else offset
    values: dict[str, Any] = {
        "timestamp": BASE_MS + offset,
        "partition": 0,
        "origin": "host",
        "version": "1.0",
        "life": LIFE,
        "metadata": '{"header":{},"payload":{}}',
        "payload_type": "text",
        "payload_txt": f"event {seq_nr}",
    }
    return EventRow(seq_nr=seq_nr, offset=offset, **values | changes)


def events(first: int, last: int, **changes: Any) -> list[EventRow]:
    """The event rows `first` to `last`."""
    return [event(seq_nr, **changes) for seq_nr in range(first, last + 1)]


def head(seq_nr: int, offset: int | None = None, **changes: Any) -> HeadRow:
    """A head row."""
    values: dict[str, Any] = {
        "partition": 0,
        "segment_size": SEGMENT_SIZE,
        "created": BASE_MS,
        "updated": BASE_MS + 1,
        "life": LIFE,
    }
    return HeadRow(seq_nr=seq_nr, offset=seq_nr if offset is None else offset, **values | changes)


def appended(id: str, first: int, last: int, **changes: Any) -> KeyChanges:
    """The changes of appends `first` to `last` of one journal."""
    return KeyChanges(id, head(last), events(first, last), reached=last, **changes)


def batch(
    topic: str,
    after: int | None,
    pointer: int,
    *keys: KeyChanges,
    partition: int = 0,
    dead_letters: Sequence[DeadLetter] = (),
) -> PartitionChanges:
    """A batch of a partition."""
    return PartitionChanges(topic, partition, after, pointer, keys, dead_letters)


def letter(topic: str, offset: int, id: str | None = "order-1", **changes: Any) -> DeadLetter:
    """A dead letter of partition 0."""
    values: dict[str, Any] = {
        "reason": "the header is not JSON",
        "timestamp": BASE_MS + offset,
        "key": b"order-1",
        "header": b"{",
    }
    return DeadLetter(topic, 0, offset, id=id, **values | changes)


def snapshot(seq_nr: int, life: str = LIFE, **changes: Any) -> SnapshotRow:
    """A snapshot."""
    values: dict[str, Any] = {"timestamp": BASE_MS + seq_nr, "payload": f"state {seq_nr}".encode()}
    return SnapshotRow(life, seq_nr, **values | changes)


def behind(offset: int, partition: int = 0) -> SnapshotGuard:
    """The guard of a caller whose read fence covered this offset and all before it."""
    return SnapshotGuard(partition, offset + 1)


async def write(store: EventStore, changes: PartitionChanges) -> None:
    """Write a batch that must not be refused."""
    assert await store.write(changes), "the pointer is elsewhere"


async def pages_of(
    store: EventStore, topic: str, id: str, start: int = 1, stop: int = EVERYTHING, bytes_max: int = 1 << 20
) -> list[Sequence[EventRow]]:
    """All pages of a journal that has a head row."""
    (row,) = (await store.heads(topic, [id])).values()
    pages: list[Sequence[EventRow]] = []
    at: int | None = start
    while at is not None:
        page = await store.events(topic, id, row, at, stop, bytes_max)
        assert page.next is None or page.next > at, "a page that ends before it begins would be read for ever"
        pages.append(page.rows)
        at = page.next
    return pages


async def events_of(
    store: EventStore, topic: str, id: str, start: int = 1, stop: int = EVERYTHING, bytes_max: int = 1 << 20
) -> list[EventRow]:
    """All event rows of a journal that has a head row."""
    return [row for page in await pages_of(store, topic, id, start, stop, bytes_max) for row in page]


async def rows_of(store: EventStore, topic: str, part: Any, bytes_max: int = 1 << 20) -> list[tuple[str, EventRow]]:
    """All event rows of a part."""
    return [row async for page in store.scan_events(topic, part, bytes_max) for row in page]


async def head_of(store: EventStore, topic: str, id: str) -> HeadRow | None:
    """The head row of one journal."""
    return (await store.heads(topic, [id])).get(id)


async def ids_of(store: EventStore, topic: str) -> list[str]:
    """All ids of a topic, in the order in which they came."""
    return [id async for page in store.ids(topic) for id in page]


def numbers(rows: Iterable[EventRow]) -> list[int]:
    """The numbers of event rows."""
    return [row.seq_nr for row in rows]
