"""R44: a snapshot dies with its journal."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from cordwood import Journal, Snapshot, Trimmed
from cordwood.journal.look import Key, Look, Looks
from cordwood.journal.snapshots import Snapshots
from cordwood.store import SnapshotGuard, SnapshotRow
from tests.support.journal.journals import TOPIC, Clock, Journals, append
from tests.support.journal.stored_rows import snapshot_numbers

pytestmark = pytest.mark.kinds("folder and SQLite", "Kafka and SQLite", "folder and Cassandra")


async def recovered(journal: Journal, key: str) -> tuple[int | None, list[int], int | None]:
    """The number of the snapshot, those of the events, and that of the journal."""
    async with journal.recover(key) as found:
        numbers = [event.seq_nr async for event in found]
        snapshot = None if found.snapshot is None else found.snapshot.seq_nr
        return snapshot, numbers, None if found.position is None else found.position.seq_nr


@pytest.mark.parametrize("replicate", [False, True])
async def test_a_snapshot_is_loaded_as_it_was_saved(journals: Journals, replicate: bool) -> None:
    clock = Clock()
    journal = await journals.open(clock=clock)
    await append(journal, "A", "1", "2", "3")
    if replicate:
        await journal.catch_up()
    assert await journal.load_snapshot("A") is None
    clock.pass_by(timedelta(seconds=1, milliseconds=5))
    await journal.save_snapshot("A", 2, b"\0state")
    for handle in (journal, await journals.open(), await journals.open(read_only=True)):
        assert await handle.load_snapshot("A") == Snapshot(2, b"\0state", clock.now)
        assert await recovered(handle, "A") == (2, [3], 3)
    assert await journal.load_snapshot("B") is None
    assert await recovered(journal, "B") == (None, [], None)


async def test_the_newest_snapshots_stay(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", *"123456")
    for number in (1, 3, 5):
        await journal.save_snapshot("A", number, b"", newest=2)
    assert snapshot_numbers(journals, "A") == [3, 5]
    await journal.save_snapshot("A", 6, b"")
    assert snapshot_numbers(journals, "A") == [6]
    # The numbers decide, not the order of the calls.
    await journal.save_snapshot("A", 2, b"")
    assert snapshot_numbers(journals, "A") == [6]
    await journal.save_snapshot("A", 6, b"again")
    snapshot = await journal.load_snapshot("A")
    assert snapshot is not None
    assert snapshot.payload == b"again"


async def test_deleted_snapshots_are_gone(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", *"12345")
    for number in (1, 3, 5):
        await journal.save_snapshot("A", number, b"", newest=9)
    await journal.delete_snapshots("A", through=3)
    assert snapshot_numbers(journals, "A") == [5]
    await journal.delete_snapshots("A", through=9)
    assert await journal.load_snapshot("A") is None
    await journal.delete_snapshots("A", through=9)
    await journal.delete_snapshots("none", through=9)


@pytest.mark.parametrize("replicate", [False, True])
async def test_a_snapshot_outlives_the_events_before_it(journals: Journals, replicate: bool) -> None:
    journal = await journals.open()
    await append(journal, "A", "1", "2", "3")
    await journal.save_snapshot("A", 3, b"")
    await journal.delete("A", through=3)
    if replicate:
        await journal.catch_up()
    assert await recovered(journal, "A") == (3, [], 3)
    await append(journal, "A", "4")
    assert await recovered(journal, "A") == (3, [4], 4)


@pytest.mark.parametrize("replicated", [0, 1, 2])
async def test_no_snapshot_of_a_purged_journal_is_loaded(journals: Journals, replicated: int) -> None:
    # The purge is acked while the replicator is down: the row of the snapshot is still there.
    journal = await journals.open()
    await append(journal, "A", "1", "2", "3")
    if replicated > 0:
        await journal.catch_up()
    await journal.save_snapshot("A", 2, b"old")
    await journal.purge("A")
    if replicated > 1:
        await journal.catch_up()
    for handle in (journal, await journals.open()):
        assert await handle.load_snapshot("A") is None
        assert await recovered(handle, "A") == (None, [], None)
    await append(journal, "A", *"12345")
    for handle in (journal, await journals.open()):
        assert await handle.load_snapshot("A") is None
        assert await recovered(handle, "A") == (None, [1, 2, 3, 4, 5], 5)
    await journal.save_snapshot("A", 1, b"new")
    assert await recovered(journal, "A") == (1, [2, 3, 4, 5], 5)
    await journal.catch_up()
    assert snapshot_numbers(journals, "A") == [1]
    assert await recovered(journal, "A") == (1, [2, 3, 4, 5], 5)


async def test_a_snapshot_beyond_the_journal_is_not_loaded(journals: Journals) -> None:
    journal = await journals.open()
    done = await append(journal, "A", "1", "2")
    await journal.save_snapshot("A", 1, b"")
    store = await journals.store()
    assert done.position.life is not None
    ahead = SnapshotRow(done.position.life, 9, 1, b"ahead")
    assert await store.save_snapshot(TOPIC, "A", ahead, 2, SnapshotGuard(0, done.offset + 1))
    snapshot = await journal.load_snapshot("A")
    assert snapshot is not None
    assert snapshot.seq_nr == 1


@pytest.mark.parametrize("new_life", [False, True])
async def test_a_save_that_a_purge_overtook_saves_nothing(journals: Journals, new_life: bool) -> None:
    journal = await journals.open()
    done = await append(journal, "A", "1")
    assert done.position.life is not None
    guard = SnapshotGuard(0, done.offset + 1)  # the read fence of the save
    await journal.purge("A")
    if new_life:
        await append(journal, "A", "new")
    await journal.catch_up()
    store = await journals.store()
    late = SnapshotRow(done.position.life, 1, 1, b"late")
    assert not await store.save_snapshot(TOPIC, "A", late, 1, guard)
    assert snapshot_numbers(journals, "A") == []


async def test_a_save_before_the_store_knows_of_the_purge_dies_with_it(journals: Journals) -> None:
    journal = await journals.open()
    done = await append(journal, "A", "1")
    assert done.position.life is not None
    await journal.purge("A")
    store = await journals.store()
    late = SnapshotRow(done.position.life, 1, 1, b"late")
    assert await store.save_snapshot(TOPIC, "A", late, 1, SnapshotGuard(0, done.offset + 1))
    assert await journal.load_snapshot("A") is None
    await journal.catch_up()
    assert snapshot_numbers(journals, "A") == []


async def test_a_snapshot_of_a_new_life_survives_the_purge_before_it(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", "1")
    await journal.catch_up()
    await journal.purge("A")
    await append(journal, "A", "new")
    await journal.save_snapshot("A", 1, b"new")
    await journal.catch_up()
    snapshot = await journal.load_snapshot("A")
    assert snapshot is not None
    assert snapshot.payload == b"new"


async def test_events_are_read_as_of_the_fence_of_the_snapshot(journals: Journals) -> None:
    journal = await journals.open()
    other = await journals.open()
    await append(journal, "A", "1", "2")
    await journal.save_snapshot("A", 1, b"")
    async with journal.recover("A") as found:
        await append(other, "A", "3")
        await other.save_snapshot("A", 3, b"")
        await other.catch_up()
        assert found.snapshot is not None
        assert found.snapshot.seq_nr == 1
        assert [event.seq_nr async for event in found] == [2]
        assert found.position is not None
        assert found.position.seq_nr == 2


async def test_a_recovery_never_adds_events_of_another_life(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", *"12345")
    await journal.catch_up()
    await journal.save_snapshot("A", 2, b"state of the first life")
    async with journal.recover("A") as found:
        await journal.purge("A")
        await append(journal, "A", *"abcde")
        await journal.catch_up()
        with pytest.raises(Trimmed):
            await anext(aiter(found))


async def test_a_recovery_that_a_delete_overtakes_is_trimmed(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", *"12345")
    await journal.catch_up()
    async with journal.recover("A") as found:
        assert found.snapshot is None
        await journal.save_snapshot("A", 4, b"state")
        await journal.delete("A", through=4)
        await journal.catch_up()
        with pytest.raises(Trimmed) as caught:
            [event async for event in found]
        assert caught.value.start == 5
    assert await recovered(journal, "A") == (4, [5], 5)


async def test_a_snapshot_that_replaces_another_during_a_look_is_found(
    journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = await journals.open()
    await append(journal, "A", *"12345")
    await journal.save_snapshot("A", 4, b"")
    await journal.delete("A", through=4)
    await journal.catch_up()
    at_fence, other = Looks.at_fence, await journals.open()
    numbers = iter(range(6, 100))

    async def look_late(self: Looks, key: Key) -> Look:
        """Another process appends and saves a snapshot between the look and its answer."""
        look = await at_fence(self, key)
        with monkeypatch.context() as other_call:
            other_call.setattr(Looks, "at_fence", at_fence)
            number = next(numbers)
            if number < 8:
                await append(other, "A", str(number))
                await other.save_snapshot("A", number, b"")
        return look

    async def rows_late(self: Snapshots, key: Key) -> Sequence[SnapshotRow]:
        await asyncio.sleep(0.2)
        return await rows(self, key)

    rows = Snapshots._rows
    monkeypatch.setattr(Looks, "at_fence", look_late)
    monkeypatch.setattr(Snapshots, "_rows", rows_late)
    snapshot, events, end = await recovered(journal, "A")
    assert snapshot is not None
    assert end is not None
    assert events == list(range(snapshot + 1, end + 1))
