"""A store that is open for reading only, next to one that writes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import date

import pytest

from cordwood.errors import Unavailable
from cordwood.store import EventStore, KeyChanges
from cordwood.testing.promises import promised
from cordwood.testing.store.under_test import (
    LIFE,
    StoreUnderTest,
    appended,
    batch,
    behind,
    bound,
    events,
    events_of,
    head,
    head_of,
    ids_of,
    letter,
    snapshot,
    write,
)

WRITES: dict[str, Callable[[EventStore, str], Awaitable[object]]] = {
    "write": lambda store, topic: store.write(batch(topic, 3, 4)),
    "bind": lambda store, topic: store.bind(f"{topic}-2", bound()),
    "save_snapshot": lambda store, topic: store.save_snapshot(topic, "order-1", snapshot(1), 1, behind(3)),
    "delete_snapshots": lambda store, topic: store.delete_snapshots(topic, "order-1", LIFE, 9, behind(3)),
    "skip": lambda store, topic: store.skip(topic, 0, 3, 1),
    "take_leases": lambda store, topic: store.take_leases(topic, [0], "first", 60),
    "release_leases": lambda store, topic: store.release_leases(topic, "first"),
    "set_expired_through": lambda store, topic: store.set_expired_through(topic, date(2024, 1, 1)),
}


class ReadOnly(StoreUnderTest):
    """`read_only=True`."""

    @pytest.fixture
    async def reader(self, url: str, store: EventStore, topic: str) -> AsyncIterator[EventStore]:
        """A store that only reads, next to `store`, which has written something."""
        await write(store, batch(topic, None, 3, appended("order-1", 1, 3), dead_letters=[letter(topic, 3)]))
        async with await self.open(url, read_only=True) as reader:
            yield reader

    @promised("read_only_alongside")
    async def test_a_store_says_whether_it_only_reads(self, store: EventStore, reader: EventStore) -> None:
        assert (store.read_only, reader.read_only) == (False, True)
        assert store.url == reader.url

    @promised("read_only_alongside")
    async def test_a_reader_sees_what_the_writer_writes(
        self, store: EventStore, reader: EventStore, topic: str
    ) -> None:
        assert await events_of(reader, topic, "order-1") == events(1, 3)
        assert await reader.binding(topic) == bound()
        await write(store, batch(topic, 3, 9, appended("order-1", 4, 9)))
        assert await reader.pointers(topic) == {0: 9}
        assert await head_of(reader, topic, "order-1") == head(9)
        assert await events_of(reader, topic, "order-1") == events(1, 9)
        assert await reader.dead_letters(topic) == [letter(topic, 3)]
        await write(store, batch(topic, 9, 10, KeyChanges("order-1", None, purge=10, reached=9)))
        assert await ids_of(reader, topic) == []

    @promised("read_only_alongside")
    @pytest.mark.parametrize("call", WRITES)
    async def test_a_reader_writes_nothing(self, store: EventStore, reader: EventStore, topic: str, call: str) -> None:
        with pytest.raises(Unavailable, match="read_only") as caught:
            await WRITES[call](reader, topic)
        assert (caught.value.reason, caught.value.outcome) == ("read-only", "not_written")
        assert await store.pointers(topic) == {0: 3}
        assert [found.topic for found in await store.topics() if found.topic.startswith(topic)] == [topic]

    @promised("read_only_alongside")
    async def test_a_reader_outlives_the_writer(self, store: EventStore, reader: EventStore, topic: str) -> None:
        await store.close()
        assert await events_of(reader, topic, "order-1") == events(1, 3)
