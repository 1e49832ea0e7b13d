"""The pointer moves with its batch, and guards it (R24)."""

import asyncio

import pytest

from cordwood.store import EventStore, KeyChanges
from cordwood.testing.promises import promised
from cordwood.testing.store.under_test import (
    StoreUnderTest,
    appended,
    batch,
    event,
    events,
    events_of,
    head,
    head_of,
    numbers,
    write,
)


class Guard(StoreUnderTest):
    """`write` and the pointer."""

    async def test_a_topic_that_was_never_written_has_no_pointers(self, store: EventStore, topic: str) -> None:
        assert await store.pointers(topic) == {}

    async def test_the_pointer_moves_with_its_batch(self, store: EventStore, topic: str) -> None:
        await write(store, batch(topic, None, 3, appended("order-1", 1, 3)))
        assert await store.pointers(topic) == {0: 3}
        await write(store, batch(topic, 3, 9, appended("order-1", 4, 9)))
        assert await store.pointers(topic) == {0: 9}
        assert await events_of(store, topic, "order-1") == events(1, 9)

    async def test_a_batch_without_keys_moves_the_pointer(self, store: EventStore, topic: str) -> None:
        await write(store, batch(topic, None, 7))
        await write(store, batch(topic, 7, 8))
        assert await store.pointers(topic) == {0: 8}

    async def test_each_partition_has_a_pointer_of_its_own(self, store: EventStore, topic: str) -> None:
        await write(store, batch(topic, None, 3, appended("order-1", 1, 3)))
        await write(store, batch(topic, None, 8, appended("order-2", 1, 1), partition=3))
        assert await store.pointers(topic) == {0: 3, 3: 8}

    @promised("guarded")
    @pytest.mark.parametrize("after", [None, 0, 2, 4])
    async def test_a_batch_that_began_elsewhere_writes_nothing(
        self, store: EventStore, topic: str, after: int | None
    ) -> None:
        await write(store, batch(topic, None, 3, appended("order-1", 1, 3)))
        changes = [appended("order-1", 4, 9), appended("order-2", 1, 1), KeyChanges("order-3", None, purge=9)]
        assert not await store.write(batch(topic, after, 9, *changes))
        assert await store.pointers(topic) == {0: 3}
        assert await store.heads(topic, ["order-1", "order-2"]) == {"order-1": head(3)}
        assert await events_of(store, topic, "order-1") == events(1, 3)

    @promised("guarded")
    async def test_a_first_batch_that_expects_a_pointer_writes_nothing(self, store: EventStore, topic: str) -> None:
        assert not await store.write(batch(topic, 3, 9, appended("order-1", 4, 9)))
        assert await store.pointers(topic) == {}
        assert await head_of(store, topic, "order-1") is None

    async def test_a_batch_that_is_written_twice_changes_nothing(self, store: EventStore, topic: str) -> None:
        changes = batch(topic, None, 3, appended("order-1", 1, 3))
        await write(store, changes)
        await store.write(changes)
        assert await store.pointers(topic) == {0: 3}
        assert await events_of(store, topic, "order-1") == events(1, 3)

    async def test_a_paused_replicator_brings_no_purged_journal_back(self, store: EventStore, topic: str) -> None:
        held = batch(topic, None, 3, appended("order-1", 1, 3))
        await write(store, batch(topic, None, 4, KeyChanges("order-1", None, purge=4, reached=3)))
        await store.write(held)
        assert await store.pointers(topic) == {0: 4}
        assert await self.traces(store, topic, "order-1") == []

    @promised("guarded")
    async def test_of_several_replicators_one_writes_a_batch(self, url: str, store: EventStore, topic: str) -> None:
        async with await self.open(url) as other:
            held = [batch(topic, None, 1, KeyChanges(f"order-{number}", head(1), [event(1)])) for number in range(8)]
            stores = [store, other] * 4
            wrote = await asyncio.gather(*(each.write(one) for each, one in zip(stores, held, strict=True)))
        assert sum(wrote) == 1
        winner = f"order-{wrote.index(True)}"
        assert await store.heads(topic, [f"order-{number}" for number in range(8)]) == {winner: head(1)}
        assert numbers(await events_of(store, topic, winner)) == [1]
