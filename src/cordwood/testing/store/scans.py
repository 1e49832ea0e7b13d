"""Ids, expired journals, and scans in parts."""

from datetime import date, timedelta

import pytest

from cordwood.store import EventRow, EventStore, HeadRow, KeyChanges, ScanPart
from cordwood.testing.promises import promised
from cordwood.testing.store.under_test import (
    StoreUnderTest,
    appended,
    batch,
    event,
    events,
    head,
    ids_of,
    letter,
    rows_of,
    write,
)

DAY = date(2024, 2, 29)
MANY = 2500
"""Journals of a test that needs more than a page of them."""


def name(number: int) -> str:
    """Ids that share long beginnings, and are not in the order of their numbers."""
    return f"customer/{number % 7}/order-{number}"


class Scans(StoreUnderTest):
    """`ids`, `expired`, `parts`, `scan_heads` and `scan_events`."""

    async def heads_of(self, store: EventStore, topic: str, part: ScanPart) -> list[tuple[str, HeadRow]]:
        return [row async for page in store.scan_heads(topic, part) for row in page]

    async def expired_of(self, store: EventStore, topic: str, after: date | None, through: date) -> list[str]:
        return [id async for page in store.expired(topic, after, through) for id, _ in page]

    @pytest.fixture
    async def many(self, store: EventStore, topic: str) -> list[str]:
        """The ids of many journals, one event each, and of another topic with none of them."""
        ids = [name(number) for number in range(MANY)]
        await write(store, batch(topic, None, 1, *(appended(id, 1, 1) for id in ids)))
        await write(store, batch(f"{topic}-2", None, 1, appended("other", 1, 1)))
        return ids

    async def test_a_topic_without_journals_has_no_ids(self, store: EventStore, topic: str) -> None:
        assert await ids_of(store, topic) == []
        assert await self.heads_of(store, topic, ScanPart(None, None)) == []
        assert await rows_of(store, topic, ScanPart(None, None)) == []

    async def test_ids_come_each_once(self, store: EventStore, topic: str, many: list[str]) -> None:
        assert sorted(await ids_of(store, topic)) == sorted(many)

    async def test_a_key_that_is_only_closed_is_no_journal(self, store: EventStore, topic: str) -> None:
        row = head(0, 1, life=None, closed=letter(topic, 1).place)
        changes = [KeyChanges("closed", row), appended("order-1", 1, 1)]
        await write(store, batch(topic, None, 1, *changes, dead_letters=[letter(topic, 1, "closed")]))
        assert await ids_of(store, topic) == ["order-1"]
        assert len(await self.heads_of(store, topic, ScanPart(None, None))) == 2

    # --- expiry

    @pytest.fixture
    async def expiring(self, store: EventStore, topic: str) -> None:
        """Journals `day-0` to `day-9` that expire on ten days, and one that never does."""
        keys = [
            KeyChanges(f"day-{number}", head(1, expire_on=DAY + timedelta(days=number), expire_after_ns=1), [event(1)])
            for number in range(10)
        ]
        await write(store, batch(topic, None, 1, *keys, appended("never", 1, 1)))

    async def test_expired_journals_are_found_by_their_day(self, store: EventStore, topic: str, expiring: None) -> None:
        for after, through, found in ((None, 0, [0]), (None, 4, [0, 1, 2, 3, 4]), (2, 4, [3, 4]), (4, 4, [])):
            day = None if after is None else DAY + timedelta(days=after)
            ids = await self.expired_of(store, topic, day, DAY + timedelta(days=through))
            assert sorted(ids) == [f"day-{number}" for number in found]
        assert await self.expired_of(store, topic, None, DAY - timedelta(days=1)) == []
        assert await self.expired_of(store, f"{topic}-2", None, date.max) == []
        assert len(await self.expired_of(store, topic, date.min, date.max)) == 10
        assert await self.expired_of(store, topic, date.max, date.max) == []

    async def test_expired_journals_come_with_their_head_rows(
        self, store: EventStore, topic: str, expiring: None
    ) -> None:
        found = [row async for page in store.expired(topic, None, DAY) for row in page]
        assert found == [("day-0", head(1, expire_on=DAY, expire_after_ns=1))]

    async def test_more_expired_journals_than_a_page_come_each_once(self, store: EventStore, topic: str) -> None:
        ids = [name(number) for number in range(MANY)]
        keys = [
            KeyChanges(id, head(1, expire_on=DAY + timedelta(days=number % 2)), [event(1)])
            for number, id in enumerate(ids)
        ]
        await write(store, batch(topic, None, 1, *keys))
        assert sorted(await self.expired_of(store, topic, None, date.max)) == sorted(ids)

    async def test_a_journal_that_no_longer_expires_is_not_found(
        self, store: EventStore, topic: str, expiring: None
    ) -> None:
        later = head(2, expire_on=DAY + timedelta(days=30), expire_after_ns=1)
        changes = [
            appended("day-0", 2, 2),
            KeyChanges("day-1", later, [event(2)]),
            KeyChanges("day-2", None, purge=2, reached=1),
        ]
        await write(store, batch(topic, 1, 2, *changes))
        found = await self.expired_of(store, topic, None, DAY + timedelta(days=9))
        assert sorted(found) == [f"day-{number}" for number in range(3, 10)]

    async def test_the_day_of_the_last_run_only_moves_forward(self, store: EventStore, topic: str) -> None:
        assert await store.expired_through(topic) is None
        await store.set_expired_through(topic, DAY)
        assert await store.expired_through(topic) == DAY
        await store.set_expired_through(topic, DAY - timedelta(days=1))
        assert await store.expired_through(topic) == DAY
        await store.set_expired_through(topic, DAY + timedelta(days=1))
        assert await store.expired_through(topic) == DAY + timedelta(days=1)
        assert await store.expired_through(f"{topic}-2") is None
        assert [found.topic for found in await store.topics() if found.topic.startswith(topic)] == [topic]

    # --- parts

    @pytest.mark.parametrize("count", [1, 2, 3, 8, 100])
    async def test_parts_cover_every_journal_once(
        self, store: EventStore, topic: str, many: list[str], count: int
    ) -> None:
        parts = await store.parts(topic, count)
        assert 1 <= len(parts) <= count
        heads = [await self.heads_of(store, topic, part) for part in parts]
        rows = [await rows_of(store, topic, part) for part in parts]
        assert sorted(id for part in heads for id, _ in part) == sorted(many)
        assert sorted(id for part in rows for id, _ in part) == sorted(many)
        assert max(map(len, heads)) <= 3 * len(many) / count + 1, "a part is much larger than the others"

    async def test_there_are_no_more_parts_than_journals(self, store: EventStore, topic: str) -> None:
        await write(store, batch(topic, None, 1, *(appended(f"order-{number}", 1, 1) for number in range(3))))
        parts = await store.parts(topic, 50)
        found = [id for part in parts for id, _ in await self.heads_of(store, topic, part)]
        assert sorted(found) == ["order-0", "order-1", "order-2"]

    async def test_a_topic_without_journals_has_parts_that_are_empty(self, store: EventStore, topic: str) -> None:
        for part in await store.parts(topic, 4):
            assert await rows_of(store, topic, part) == []

    async def test_the_rows_of_one_journal_follow_each_other(self, store: EventStore, topic: str) -> None:
        ids = [f"order-{number}" for number in range(20)]
        await write(store, batch(topic, None, 25, *(appended(id, 1, 25) for id in ids)))
        (part,) = await store.parts(topic, 1)
        for bytes_max in (1, 3000, 1 << 20):
            found: dict[str, list[EventRow]] = {}
            last = ""
            for id, row in await rows_of(store, topic, part, bytes_max):
                assert id == last or id not in found, "the rows of a journal are in two places"
                found.setdefault(id, []).append(row)
                last = id
            assert found == {id: events(1, 25) for id in ids}

    async def test_a_scan_finds_rows_without_a_head_row(self, store: EventStore, topic: str) -> None:
        # An audit looks for them.
        await write(store, batch(topic, None, 2, appended("order-1", 1, 2), appended("order-2", 1, 2)))
        await write(store, batch(topic, 2, 3, KeyChanges("order-2", None)))
        found = [id for part in await store.parts(topic, 3) for id, _ in await rows_of(store, topic, part)]
        assert sorted(found) == ["order-1", "order-1", "order-2", "order-2"]

    @promised("guarded")
    async def test_a_scan_holds_no_writer_back(self, store: EventStore, topic: str, many: list[str]) -> None:
        pages = store.scan_events(topic, ScanPart(None, None), 1000)
        seen = [id for id, _ in await anext(pages)]
        for turn in range(1, 20):
            await write(store, batch(topic, turn, turn + 1, appended("order-x", turn, turn)))
        seen += [id async for page in pages for id, _ in page]
        assert sorted(id for id in seen if id != "order-x") == sorted(many)
