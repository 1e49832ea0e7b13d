"""Snapshots, and what must hold for one to be saved (R44)."""

import pytest

from cordwood.store import EventStore, KeyChanges
from cordwood.testing.store.under_test import (
    LIFE,
    NEXT_LIFE,
    StoreUnderTest,
    appended,
    batch,
    behind,
    event,
    head,
    snapshot,
    write,
)


class Snapshots(StoreUnderTest):
    """`snapshots`, `save_snapshot` and `delete_snapshots`."""

    @pytest.fixture
    async def journal(self, store: EventStore, topic: str) -> str:
        """The id of a replicated journal of nine events."""
        await write(store, batch(topic, None, 9, appended("order-1", 1, 9)))
        return "order-1"

    async def test_a_journal_without_snapshots_has_none(self, store: EventStore, topic: str, journal: str) -> None:
        assert await store.snapshots(topic, journal) == []

    async def test_a_snapshot_is_read_back_with_all_its_columns(
        self, store: EventStore, topic: str, journal: str
    ) -> None:
        for saved in (snapshot(3), snapshot(4, payload=b""), snapshot(5, metadata='{"ö":1}')):
            assert await store.save_snapshot(topic, journal, saved, 1, behind(9))
            assert await store.snapshots(topic, journal) == [saved]

    async def test_a_snapshot_of_several_megabytes_is_kept(self, store: EventStore, topic: str, journal: str) -> None:
        saved = snapshot(9, payload=bytes(range(256)) * 12_000)
        assert await store.save_snapshot(topic, journal, saved, 1, behind(9))
        assert await store.snapshots(topic, journal) == [saved]

    async def test_the_newest_snapshots_stay(self, store: EventStore, topic: str, journal: str) -> None:
        for seq_nr in (2, 4, 6, 8):
            assert await store.save_snapshot(topic, journal, snapshot(seq_nr), 3, behind(9))
        assert await store.snapshots(topic, journal) == [snapshot(8), snapshot(6), snapshot(4)]
        assert await store.save_snapshot(topic, journal, snapshot(9), 1, behind(9))
        assert await store.snapshots(topic, journal) == [snapshot(9)]

    async def test_a_snapshot_below_the_newest_ones_is_not_kept(
        self, store: EventStore, topic: str, journal: str
    ) -> None:
        for seq_nr in (8, 9, 3):
            assert await store.save_snapshot(topic, journal, snapshot(seq_nr), 2, behind(9))
        assert await store.snapshots(topic, journal) == [snapshot(9), snapshot(8)]

    async def test_a_snapshot_at_the_same_number_replaces_the_first(
        self, store: EventStore, topic: str, journal: str
    ) -> None:
        assert await store.save_snapshot(topic, journal, snapshot(3), 2, behind(9))
        again = snapshot(3, payload=b"again", timestamp=5)
        assert await store.save_snapshot(topic, journal, again, 2, behind(9))
        assert await store.snapshots(topic, journal) == [again]

    async def test_a_snapshot_of_the_next_life_takes_those_of_the_last(
        self, store: EventStore, topic: str, journal: str
    ) -> None:
        assert await store.save_snapshot(topic, journal, snapshot(9), 1, behind(9))
        assert await store.save_snapshot(topic, journal, snapshot(1, NEXT_LIFE), 1, behind(11))
        assert await store.snapshots(topic, journal) == [snapshot(1, NEXT_LIFE)]

    async def test_a_journal_that_is_not_replicated_yet_gets_its_snapshot(self, store: EventStore, topic: str) -> None:
        assert await store.save_snapshot(topic, "order-1", snapshot(3), 1, behind(3))
        await write(store, batch(topic, None, 2, appended("order-1", 1, 2)))
        assert await store.save_snapshot(topic, "order-2", snapshot(1), 1, behind(3))
        assert await store.snapshots(topic, "order-1") == [snapshot(3)]
        assert await store.snapshots(topic, "order-2") == [snapshot(1)]

    async def test_a_snapshot_that_comes_after_the_purge_is_refused(
        self, store: EventStore, topic: str, journal: str
    ) -> None:
        await write(store, batch(topic, 9, 10, KeyChanges(journal, None, purge=10, reached=9)))
        assert not await store.save_snapshot(topic, journal, snapshot(9), 1, behind(9))
        assert await self.traces(store, topic, journal) == []

    async def test_a_snapshot_of_the_last_life_is_refused(self, store: EventStore, topic: str, journal: str) -> None:
        row = head(1, 11, life=NEXT_LIFE)
        changes = KeyChanges(journal, row, [event(1, 11, life=NEXT_LIFE)], purge=10, reached=9)
        await write(store, batch(topic, 9, 11, changes))
        assert await store.save_snapshot(topic, journal, snapshot(1, NEXT_LIFE), 1, behind(11))
        assert not await store.save_snapshot(topic, journal, snapshot(9), 1, behind(9))
        assert await store.snapshots(topic, journal) == [snapshot(1, NEXT_LIFE)]

    async def test_the_guard_looks_at_its_own_partition(self, store: EventStore, topic: str) -> None:
        await write(store, batch(topic, None, 100, partition=1))
        assert await store.save_snapshot(topic, "order-1", snapshot(3), 1, behind(3, partition=0))
        assert not await store.save_snapshot(topic, "order-2", snapshot(3), 1, behind(3, partition=1))

    async def test_snapshots_are_deleted_through_a_number(self, store: EventStore, topic: str, journal: str) -> None:
        for seq_nr in (2, 4, 6):
            assert await store.save_snapshot(topic, journal, snapshot(seq_nr), 3, behind(9))
        await store.delete_snapshots(topic, journal, LIFE, 4, behind(9))
        assert await store.snapshots(topic, journal) == [snapshot(6)]
        await store.delete_snapshots(topic, journal, LIFE, 9, behind(9))
        await store.delete_snapshots(topic, journal, LIFE, 9, behind(9))
        assert await store.snapshots(topic, journal) == []

    async def test_no_snapshot_of_another_life_or_journal_is_deleted(
        self, store: EventStore, topic: str, journal: str
    ) -> None:
        assert await store.save_snapshot(topic, journal, snapshot(2), 1, behind(9))
        await store.delete_snapshots(topic, journal, NEXT_LIFE, 9, behind(9))
        await store.delete_snapshots(topic, "order-10", LIFE, 9, behind(9))
        assert await store.snapshots(topic, journal) == [snapshot(2)]

    async def test_a_late_deletion_spares_a_snapshot_behind_a_later_fence(
        self, store: EventStore, topic: str, journal: str
    ) -> None:
        assert await store.save_snapshot(topic, journal, snapshot(2), 1, behind(12))
        await store.delete_snapshots(topic, journal, LIFE, 9, behind(9))
        assert await store.snapshots(topic, journal) == [snapshot(2)]
