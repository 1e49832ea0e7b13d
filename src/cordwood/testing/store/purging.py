"""A purge leaves nothing of its journal, and touches no other (R24, R44)."""

from cordwood.store import EventStore, KeyChanges
from cordwood.testing.store.under_test import (
    LIFE,
    NEXT_LIFE,
    StoreUnderTest,
    appended,
    batch,
    behind,
    bound,
    event,
    events,
    events_of,
    head,
    head_of,
    ids_of,
    letter,
    snapshot,
    write,
)


class Purging(StoreUnderTest):
    """Purges."""

    async def test_a_purge_leaves_nothing_of_its_journal(self, store: EventStore, topic: str) -> None:
        closed = head(35, closed=letter(topic, 36).place)
        changes = KeyChanges("order-1", closed, events(1, 35, tags=("a",), headers={"b": "c"}), reached=35)
        await write(store, batch(topic, None, 36, changes, dead_letters=[letter(topic, 36)]))
        assert await store.save_snapshot(topic, "order-1", snapshot(3), 2, behind(36))
        assert await store.save_snapshot(topic, "order-1", snapshot(7), 2, behind(36))
        assert len(await self.traces(store, topic, "order-1")) >= 39
        await write(store, batch(topic, 36, 40, KeyChanges("order-1", None, purge=38, reached=35)))
        assert await self.traces(store, topic, "order-1") == []
        assert await ids_of(store, topic) == []

    async def test_a_purge_in_the_batch_of_its_own_rows_leaves_nothing(self, store: EventStore, topic: str) -> None:
        changes = KeyChanges("order-1", None, purge=5, reached=3)
        await write(store, batch(topic, None, 5, changes, dead_letters=[letter(topic, 4)]))
        assert await self.traces(store, topic, "order-1") == []

    async def test_a_purge_touches_no_other_journal(self, store: EventStore, topic: str) -> None:
        others = ["order-10", "order-", "Order-1", "order-2"]
        keys = [appended(id, 1, 5) for id in ("order-1", *others)]
        await write(store, batch(topic, None, 6, *keys, dead_letters=[letter(topic, 6, "order-2")]))
        for id in ("order-1", *others):
            assert await store.save_snapshot(topic, id, snapshot(3), 1, behind(6))
        other_topic = f"{topic}-2"
        await store.bind(other_topic, bound())
        await write(store, batch(other_topic, None, 5, appended("order-1", 1, 5)))
        await write(store, batch(topic, 6, 7, KeyChanges("order-1", None, purge=7, reached=5)))
        for id in others:
            assert await head_of(store, topic, id) == head(5)
            assert await events_of(store, topic, id) == events(1, 5)
            assert await store.snapshots(topic, id) == [snapshot(3)]
        assert await store.dead_letters(topic) == [letter(topic, 6, "order-2")]
        assert await events_of(store, other_topic, "order-1") == events(1, 5)

    async def test_a_purge_of_nothing_changes_nothing(self, store: EventStore, topic: str) -> None:
        await write(store, batch(topic, None, 5, appended("order-1", 1, 5)))
        await write(store, batch(topic, 5, 6, KeyChanges("order-2", None, purge=6)))
        assert await store.pointers(topic) == {0: 6}
        assert await events_of(store, topic, "order-1") == events(1, 5)

    async def test_a_snapshot_behind_a_later_fence_survives_the_purge(self, store: EventStore, topic: str) -> None:
        # R44: its caller has seen the purge, and the life after it.
        await write(store, batch(topic, None, 5, appended("order-1", 1, 5)))
        assert await store.save_snapshot(topic, "order-1", snapshot(2, NEXT_LIFE), 1, behind(8))
        row = head(2, 8, life=NEXT_LIFE)
        rows = [event(1, 7, life=NEXT_LIFE), event(2, 8, life=NEXT_LIFE)]
        await write(store, batch(topic, 5, 8, KeyChanges("order-1", row, rows, purge=6, reached=5)))
        assert await store.snapshots(topic, "order-1") == [snapshot(2, NEXT_LIFE)]

    async def test_a_snapshot_behind_an_earlier_fence_dies_with_the_purge(self, store: EventStore, topic: str) -> None:
        await write(store, batch(topic, None, 5, appended("order-1", 1, 5)))
        assert await store.save_snapshot(topic, "order-1", snapshot(5, LIFE), 1, behind(5))
        row = head(1, 7, life=NEXT_LIFE)
        rows = [event(1, 7, life=NEXT_LIFE)]
        await write(store, batch(topic, 5, 7, KeyChanges("order-1", row, rows, purge=6, reached=5)))
        assert await store.snapshots(topic, "order-1") == []

    async def test_a_dead_letter_after_the_purge_stays(self, store: EventStore, topic: str) -> None:
        row = head(0, 7, life=None, closed=letter(topic, 7).place)
        changes = KeyChanges("order-1", row, purge=6, reached=1)
        letters = [letter(topic, 5), letter(topic, 7)]
        await write(store, batch(topic, None, 7, changes, dead_letters=letters))
        assert await store.dead_letters(topic) == [letter(topic, 7)]
        assert await head_of(store, topic, "order-1") == row
