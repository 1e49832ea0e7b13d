"""The changes of a key within one batch: the purge, then the deletion, then the rows, then the head row."""

from datetime import date

from cordwood.store import Deletion, EventStore, KeyChanges
from cordwood.testing.store.under_test import (
    NEXT_LIFE,
    StoreUnderTest,
    appended,
    batch,
    event,
    events,
    events_of,
    head,
    head_of,
    ids_of,
    letter,
    numbers,
    write,
)


class Netting(StoreUnderTest):
    """Netted changes."""

    async def test_a_deletion_takes_the_rows_up_to_its_number(self, store: EventStore, topic: str) -> None:
        await write(store, batch(topic, None, 35, appended("order-1", 1, 35)))
        row = head(35, 36, delete_to=21)
        await write(store, batch(topic, 35, 36, KeyChanges("order-1", row, deletion=Deletion(36, 21), reached=35)))
        assert await head_of(store, topic, "order-1") == row
        assert await events_of(store, topic, "order-1") == events(22, 35)

    async def test_a_deletion_of_all_events_keeps_the_number(self, store: EventStore, topic: str) -> None:
        await write(store, batch(topic, None, 25, appended("order-1", 1, 25)))
        row = head(25, 26, delete_to=25)
        await write(store, batch(topic, 25, 26, KeyChanges("order-1", row, deletion=Deletion(26, 25), reached=25)))
        assert await events_of(store, topic, "order-1") == []
        assert await head_of(store, topic, "order-1") == row
        assert await ids_of(store, topic) == ["order-1"]

    async def test_a_deletion_and_later_rows_share_a_batch(self, store: EventStore, topic: str) -> None:
        await write(store, batch(topic, None, 5, appended("order-1", 1, 5)))
        row = head(12, delete_to=7)
        changes = KeyChanges("order-1", row, events(8, 12), deletion=Deletion(9, 7), reached=12)
        await write(store, batch(topic, 5, 12, changes))
        assert numbers(await events_of(store, topic, "order-1")) == [8, 9, 10, 11, 12]

    async def test_a_deletion_takes_no_rows_of_another_key(self, store: EventStore, topic: str) -> None:
        await write(store, batch(topic, None, 5, *(appended(id, 1, 5) for id in ("order-1", "order-10", "order-"))))
        changes = KeyChanges("order-1", head(5, 6, delete_to=5), deletion=Deletion(6, 5), reached=5)
        await write(store, batch(topic, 5, 6, changes))
        for id in ("order-10", "order-"):
            assert await events_of(store, topic, id) == events(1, 5)

    async def test_a_head_row_is_written_whole(self, store: EventStore, topic: str) -> None:
        expiring = head(1, expire_after_ns=1, expire_on=date(2024, 1, 1), delete_to=0, origin="host")
        await write(store, batch(topic, None, 1, KeyChanges("order-1", expiring, [event(1)])))
        await write(store, batch(topic, 1, 2, appended("order-1", 2, 2)))
        assert await head_of(store, topic, "order-1") == head(2)
        assert [page async for page in store.expired(topic, None, date(2030, 1, 1))] == []

    async def test_a_purge_and_a_new_life_share_a_batch(self, store: EventStore, topic: str) -> None:
        await write(store, batch(topic, None, 25, appended("order-1", 1, 25)))
        row = head(2, 28, life=NEXT_LIFE)
        rows = [event(1, 27, life=NEXT_LIFE), event(2, 28, life=NEXT_LIFE)]
        await write(store, batch(topic, 25, 28, KeyChanges("order-1", row, rows, purge=26, reached=25)))
        assert await head_of(store, topic, "order-1") == row
        assert await events_of(store, topic, "order-1") == rows

    async def test_a_head_of_none_removes_the_row(self, store: EventStore, topic: str) -> None:
        closed = head(0, 1, life=None, closed=letter(topic, 1).place)
        await write(store, batch(topic, None, 1, KeyChanges("order-1", closed), dead_letters=[letter(topic, 1)]))
        await write(store, batch(topic, 1, 2, KeyChanges("order-1", None)))
        assert await head_of(store, topic, "order-1") is None

    async def test_a_key_that_is_only_closed_has_a_head_row(self, store: EventStore, topic: str) -> None:
        row = head(0, 1, life=None, closed=letter(topic, 1).place)
        await write(store, batch(topic, None, 1, KeyChanges("order-1", row), dead_letters=[letter(topic, 1)]))
        assert await head_of(store, topic, "order-1") == row

    async def test_many_keys_share_a_batch(self, store: EventStore, topic: str) -> None:
        ids = [f"order-{number}" for number in range(300)]
        await write(store, batch(topic, None, 5, *(appended(id, 1, 5) for id in ids)))
        changes = [
            KeyChanges(id, None, purge=9, reached=5)
            if number % 3 == 0
            else KeyChanges(id, head(5, 9, delete_to=number % 5), deletion=Deletion(9, number % 5), reached=5)
            for number, id in enumerate(ids)
        ]
        await write(store, batch(topic, 5, 9, *changes))
        assert set(await ids_of(store, topic)) == {id for number, id in enumerate(ids) if number % 3}
        for number in (1, 2, 4, 298):
            assert numbers(await events_of(store, topic, ids[number])) == list(range(number % 5 + 1, 6))
