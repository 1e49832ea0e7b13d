"""The defects of kafka-journal that its users met, or that a study of it found: this journal has none of them.

The numbers are those of its issues, where it has one.
"""

import math
import os
import time
from datetime import date, timedelta

import pytest

from cordwood import Batch, Conflict, Event, InvalidInput, Journal
from cordwood.store import EventRow, KeyChanges, PartitionChanges
from tests.support.journal.journals import TOPIC, Clock, Journals, append, read_texts
from tests.support.journal.scala_peer import ScalaPeer
from tests.support.journal.stored_rows import head_row, places, rows

pytestmark = pytest.mark.kinds("folder and SQLite", "Kafka and SQLite", "folder and Cassandra")


async def journal_with_peer(journals: Journals, segment_size: int = 10_000) -> tuple[Journal, ScalaPeer]:
    journal = await journals.open(single_writer=True, segment_size=segment_size)
    await journal.pointer("A")
    return journal, ScalaPeer(await journals.connect())


@pytest.mark.parametrize("replicate_first", [False, True])
async def test_a_purge_and_an_append_in_the_head_show_the_new_life(journals: Journals, replicate_first: bool) -> None:
    journal = await journals.open()
    await append(journal, "A", "old 1", "old 2", "old 3")
    if replicate_first:
        await journal.catch_up()
    await journal.purge("A")
    await append(journal, "A", "new 1")
    assert await read_texts(journal, "A") == {1: "new 1"}
    assert await journal.pointer("A") == 1
    another = await journals.open()
    assert await read_texts(another, "A") == {1: "new 1"}
    await journal.catch_up()
    assert await read_texts(journal, "A") == {1: "new 1"}


async def test_the_head_forgets_a_life_that_ended_in_a_later_batch(journals: Journals) -> None:
    journal, peer = await journal_with_peer(journals)
    await peer.append("A", range(1, 4))
    assert await journal.pointer("A") == 3  # the tail reader has taken that batch
    await peer.purge("A")
    await peer.append("A", [1], text="new")
    assert await journal.pointer("A") == 1
    assert await read_texts(journal, "A") == {1: "new 1"}


async def test_a_foreign_delete_beyond_the_end_hides_no_later_event(journals: Journals) -> None:
    journal, peer = await journal_with_peer(journals)
    await peer.append("A", range(1, 4))
    assert await journal.pointer("A") == 3
    await peer.delete("A", 9)
    assert await read_texts(journal, "A") == {}
    await peer.append("A", [4])
    assert await read_texts(journal, "A") == {4: "scala 4"}
    await journal.catch_up()
    assert await read_texts(journal, "A") == {4: "scala 4"}
    assert await journal.pointer("A") == 4


@pytest.mark.parametrize("replicate", [False, True])
async def test_a_gap_over_the_end_of_a_segment_hides_nothing(journals: Journals, replicate: bool) -> None:
    journal, peer = await journal_with_peer(journals, segment_size=10)
    await peer.append("A", range(1, 9))
    await peer.append("A", [12])
    if replicate:
        await journal.catch_up()
    assert list(await read_texts(journal, "A")) == [*range(1, 9), 12]
    assert await journal.pointer("A") == 12


async def test_of_two_writers_of_one_number_the_first_counts(journals: Journals) -> None:
    journal, peer = await journal_with_peer(journals)
    now = time.time_ns() // 1_000_000
    await peer.append("A", [1, 2], timestamp=now, text="first")
    await peer.append("A", [2, 3], timestamp=now + 1, text="second")
    expected = {1: "first 1", 2: "first 2", 3: "second 3"}
    assert await read_texts(journal, "A") == expected
    await journal.catch_up()
    assert await read_texts(journal, "A") == expected
    assert places(journals, "A") == [(1, 0), (2, 0), (3, 0)]


async def test_two_of_our_writers_never_share_a_number(journals: Journals) -> None:
    # Issues 40 and 501: duplicates.
    one, other = await journals.open(), await journals.open()
    await append(one, "A", "one")
    done = await append(other, "A", "other", "other")
    assert done.seq_nrs == range(2, 4)
    with pytest.raises(Conflict) as caught:
        await append(one, "A", "late", expected=1)
    assert (caught.value.actual, caught.value.winner) == (3, done.id)
    await one.catch_up()
    assert await read_texts(one, "A") == {1: "one", 2: "other", 3: "other"}


@pytest.mark.parametrize("replicate", [False, True])
async def test_an_event_below_the_first_number_does_not_count(journals: Journals, replicate: bool) -> None:
    journal, peer = await journal_with_peer(journals)
    await peer.append("A", [5])
    if replicate:
        await journal.catch_up()
    await peer.append("A", [3])
    assert await read_texts(journal, "A") == {5: "scala 5"}
    await journal.catch_up()
    assert await read_texts(journal, "A") == {5: "scala 5"}
    assert places(journals, "A") == [(5, 0)]


async def test_another_partition_count_is_a_conflict(journals: Journals) -> None:
    # Keys would move, and offsets of two partitions would be compared.
    client = await journals.connect()
    await client.create_topic("grown", partitions=1)
    first = await journals.open("grown")
    await first.pointer("A")
    await client.delete_topic("grown")
    await client.create_topic("grown", partitions=3)
    second = await journals.open("grown")
    with pytest.raises(Conflict, match="partitions is 1 there, not 3"):
        await second.pointer("A")


async def test_an_append_without_expiry_clears_it_unless_it_keeps_it(journals: Journals) -> None:
    clock = Clock()
    journal = await journals.open(clock=clock)
    await append(journal, "cleared", "1", expire_after=timedelta(days=1))
    await append(journal, "cleared", "2")
    await append(journal, "kept", "1", expire_after=timedelta(days=1))
    await append(journal, "kept", "2", keep_expiry=True)
    await journal.catch_up()
    days = {key: (head_row(journals, key) or {})["expire_on"] for key in ("cleared", "kept")}
    assert days == {"cleared": None, "kept": "2026-03-11"}


@pytest.mark.parametrize("splits", [(), (1,), (2,), (1, 2)])
async def test_delete_and_purge_leave_no_head_row(journals: Journals, splits: tuple[int, ...]) -> None:
    # Issue 676: batching left the head row behind.
    journal = await journals.open()
    await append(journal, "A", "1", "2")
    for step in (1, 2):
        if step in splits:
            await journal.catch_up()
        if step == 1:
            await journal.delete("A", through=2)
        else:
            await journal.purge("A")
    await journal.catch_up()
    assert head_row(journals, "A") is None
    assert places(journals, "A") == []


async def test_the_day_of_expiry_is_utc_in_every_time_zone(journals: Journals, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "TZ", "Pacific/Kiritimati")  # 14 hours ahead
    time.tzset()
    try:
        journal = await journals.open(clock=Clock())
        await append(journal, "A", "1", expire_after=timedelta(hours=11, minutes=59))
        await append(journal, "B", "1", expire_after=timedelta(hours=12))
        await journal.catch_up()
    finally:
        monkeypatch.undo()
        time.tzset()
    found = sorted(rows(journals, "metajournal"), key=lambda row: str(row["id"]))
    assert [row["expire_on"] for row in found] == ["2026-03-10", "2026-03-11"]
    assert {row["created_date"] for row in found} == {"2026-03-10"}


async def test_a_day_that_no_run_completed_is_purged_later(journals: Journals) -> None:
    clock = Clock()
    journal = await journals.open(clock=clock)
    await append(journal, "A", "1", expire_after=timedelta(0))
    clock.pass_by(timedelta(days=5))
    await append(journal, "B", "1", expire_after=timedelta(0))
    clock.pass_by(timedelta(days=1))
    report = await journal.purge_expired()
    assert set(report.purged) == {"A", "B"}
    assert report.failed == {}


async def test_a_purge_removes_rows_that_have_no_head(journals: Journals) -> None:
    # Issue 665: rows that were left over appear again in a new journal.
    journal, peer = await journal_with_peer(journals)
    await peer.append("A", [1, 2])
    await journal.catch_up()
    store = await journals.store()
    pointer = (await store.pointers(TOPIC))[0]
    lost_head = KeyChanges("A", None)
    assert await store.write(PartitionChanges(TOPIC, 0, pointer, pointer, [lost_head]))
    assert places(journals, "A") == [(1, 0), (2, 0)]
    await peer.purge("A")
    await journal.catch_up()
    assert places(journals, "A") == []


async def test_rows_of_an_earlier_life_do_not_appear_again(journals: Journals) -> None:
    # Issue 665, where the rows stay: the life of a row tells.
    journal = await journals.open()
    await append(journal, "A", "old 1", "old 2", "old 3")
    await journal.catch_up()
    row = head_row(journals, "A")
    assert row is not None
    await journal.purge("A")
    await append(journal, "A", "new 1", "new 2")
    await journal.catch_up()
    store = await journals.store()
    head = (await store.heads(TOPIC, ["A"]))["A"]
    left = [EventRow(n, 7, 0, 0, None, None, row["record_id"], None, "text", f"old {n}") for n in (1, 2, 3)]
    pointer = (await store.pointers(TOPIC))[0]
    assert await store.write(PartitionChanges(TOPIC, 0, pointer, pointer, [KeyChanges("A", head, left)]))
    assert await read_texts(journal, "A") == {1: "new 1", 2: "new 2"}
    await append(journal, "A", "new 3")
    assert await read_texts(journal, "A") == {1: "new 1", 2: "new 2", 3: "new 3"}


async def test_a_row_that_is_there_twice_is_read_once(journals: Journals) -> None:
    # A defect of Cassandra, CASSANDRA-18507, made such rows.
    journal = await journals.open()
    await append(journal, "A", "1", "2", "3")
    await journal.catch_up()
    store = await journals.store()
    head = (await store.heads(TOPIC, ["A"]))["A"]
    for timestamp in (1, 2**50):
        again = [EventRow(2, timestamp, 0, head.offset + 9, None, None, head.life, None, "text", "twice")]
        pointer = (await store.pointers(TOPIC))[0]
        assert await store.write(PartitionChanges(TOPIC, 0, pointer, pointer, [KeyChanges("A", head, again)]))
    assert len(places(journals, "A")) == 5
    assert await read_texts(journal, "A") == {1: "1", 2: "2", 3: "3"}
    assert await read_texts(journal, "A", 2, 3) == {2: "2"}


async def test_an_event_that_cannot_be_encoded_is_refused_alone(journals: Journals) -> None:
    # Issue 924: a failure to serialize is a rejection, and stops nothing.
    journal = await journals.open()
    await append(journal, "A", "1")
    with pytest.raises(InvalidInput):
        Event.json({"n": math.nan})
    with pytest.raises(InvalidInput) as caught:
        await append(journal, "A", "2", metadata={"n": math.inf})
    assert caught.value.outcome == "not_written"
    assert (await append(journal, "A", "2")).seq_nrs == range(2, 3)


async def test_records_of_no_journal_are_passed_over(journals: Journals) -> None:
    # Issue 922: a strange record stalls the head cache.
    journal = await journals.open()
    await append(journal, "A", "1")
    client = await journals.connect()
    log = client.log(TOPIC, 0)
    await log.append(Batch.of([b"no header"], keys=[b"A"]))
    await log.append(Batch.of([b"no key"], headers=[[("journal.action", b'{"append":{}}')]]))
    await log.append(Batch.of([None], keys=[b"A"], headers=[[("journal.action", b'{"rename":{"to":"x"}}')]]))
    append_2 = b'{"append":{"range":{"from":2,"to":2},"payloadType":"json","metadata":{}}}'
    await log.append(Batch.of([None], keys=[b"A"], headers=[[("journal.action", append_2)]]))
    another = await journals.open()
    for reader in (journal, another):
        assert await reader.pointer("A") == 1
        assert await read_texts(reader, "A") == {1: "1"}
    assert (await append(journal, "A", "2")).seq_nrs == range(2, 3)
    await journal.catch_up()
    assert await read_texts(journal, "A") == {1: "1", 2: "2"}


async def test_expiry_follows_the_last_append_in_any_split(journals: Journals) -> None:
    for split in (False, True):
        journal = await journals.open(f"split-{split}", clock=Clock())
        await append(journal, "A", "1", expire_after=timedelta(days=3))
        if split:
            await journal.catch_up()
        await append(journal, "A", "2", expire_after=timedelta(days=1))
        await journal.catch_up()
        row = head_row(journals, "A", f"split-{split}")
        assert row is not None
        assert date.fromisoformat(row["expire_on"]) == date(2026, 3, 11)
