"""Several topics share a store."""

from cordwood.store import EventStore, KeyChanges
from cordwood.store.interface import TopicPointers
from cordwood.testing.store.under_test import (
    StoreUnderTest,
    appended,
    batch,
    bound,
    events,
    events_of,
    head_of,
    ids_of,
    letter,
    write,
)


class Topics(StoreUnderTest):
    """`topics`, and the rows of several of them."""

    async def listed(self, store: EventStore, topic: str) -> list[TopicPointers]:
        """The topics of this test: a server may have others."""
        return [found for found in await store.topics() if found.topic.startswith(topic)]

    async def test_topics_lists_what_is_bound_or_replicated(self, store: EventStore, topic: str) -> None:
        await write(store, batch(f"{topic}-b", None, 7, partition=2))
        await write(store, batch(topic, None, 5, appended("order-1", 1, 5)))
        await write(store, batch(topic, None, 9, partition=1))
        first, second = await self.listed(store, topic)
        assert (first.topic, first.partitions, dict(first.pointers)) == (topic, 4, {0: 5, 1: 9})
        assert (second.topic, second.partitions, dict(second.pointers)) == (f"{topic}-b", None, {2: 7})
        assert first.updated is not None
        assert second.updated is not None
        assert first.updated >= second.updated

    async def test_a_topic_that_is_only_bound_has_no_pointers(self, store: EventStore, topic: str) -> None:
        assert await self.listed(store, topic) == [TopicPointers(topic, 4, {}, None)]

    async def test_one_id_in_two_topics_is_two_journals(self, store: EventStore, topic: str) -> None:
        other = f"{topic}-2"
        await store.bind(other, bound())
        await write(store, batch(topic, None, 5, appended("order-1", 1, 5)))
        await write(store, batch(other, None, 3, appended("order-1", 1, 3), dead_letters=[letter(other, 3)]))
        assert await events_of(store, topic, "order-1") == events(1, 5)
        assert await events_of(store, other, "order-1") == events(1, 3)
        assert await store.dead_letters(topic) == []
        await write(store, batch(topic, 5, 6, KeyChanges("order-1", None, purge=6, reached=5)))
        assert await ids_of(store, topic) == []
        assert await head_of(store, topic, "order-1") is None
        assert await ids_of(store, other) == ["order-1"]
        assert await store.dead_letters(other) == [letter(other, 3)]
        assert await store.pointers(other) == {0: 3}
