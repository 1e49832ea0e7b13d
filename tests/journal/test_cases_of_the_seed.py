"""The cases of kafka-journal's design page: how records can be stored, and what each action does.

Each case holds whether all of it, a part of it or nothing of it is replicated.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from cordwood import Journal
from cordwood.store import Deletion, EventRow, HeadRow, KeyChanges, PartitionChanges
from tests.support.journal.journals import TOPIC, Journals, append, read_texts
from tests.support.journal.scala_peer import ScalaPeer
from tests.support.journal.stored_rows import head_row, places, snapshot_numbers

pytestmark = pytest.mark.kinds("folder and SQLite", "Kafka and SQLite", "folder and Cassandra")

Step = Callable[[Journal], Awaitable[object]]


def appending(*payloads: str) -> Step:
    return lambda journal: append(journal, "A", *payloads)


def deleting(through: int) -> Step:
    return lambda journal: journal.delete("A", through=through)


def saving(seq_nr: int) -> Step:
    return lambda journal: journal.save_snapshot("A", seq_nr, f"state {seq_nr}".encode(), newest=2)


@dataclass(frozen=True)
class Case:
    """A row of "Cases on how records can be stored": the steps that lead to it, and the rows that it has."""

    steps: tuple[Step, ...]
    segment_size: int
    seq_nr: int
    delete_to: int | None
    rows: tuple[tuple[int, int], ...]
    snapshots: tuple[int, ...] = ()


FIVE = (appending("1", "2"), appending("3", "4", "5"))

CASES = {
    "three events in one segment": Case((appending("1", "2", "3"),), 5, 3, None, ((1, 0), (2, 0), (3, 0))),
    "five events in two segments": Case(FIVE, 3, 5, None, ((1, 0), (2, 0), (3, 0), (4, 1), (5, 1))),
    "two of five events deleted": Case((*FIVE, deleting(2)), 3, 5, 2, ((3, 0), (4, 1), (5, 1))),
    "all events and a snapshot": Case(
        (*FIVE, saving(5)), 3, 5, None, ((1, 0), (2, 0), (3, 0), (4, 1), (5, 1)), snapshots=(5,)
    ),
    "all events deleted": Case((*FIVE, deleting(5)), 3, 5, 5, ()),
    "all events deleted, a snapshot": Case((*FIVE, saving(5), deleting(5)), 3, 5, 5, (), snapshots=(5,)),
    "all events deleted, two snapshots": Case(
        (*FIVE, saving(2), saving(5), deleting(5)), 3, 5, 5, (), snapshots=(2, 5)
    ),
}


async def check(journal: Journal, case: Case) -> None:
    """A caller sees the case, whatever is replicated of it."""
    first = (case.delete_to or 0) + 1
    expected = {number: str(number) for number in range(first, case.seq_nr + 1)}
    assert await journal.pointer("A") == case.seq_nr
    assert await read_texts(journal, "A") == expected
    assert await read_texts(journal, "A", 4) == {n: text for n, text in expected.items() if n >= 4}
    assert await read_texts(journal, "A", 1, 4) == {n: text for n, text in expected.items() if n < 4}
    assert [id async for id in journal.ids()] == ["A"]
    snapshot = await journal.load_snapshot("A")
    assert (snapshot and snapshot.seq_nr) == max(case.snapshots, default=None)
    async with journal.recover("A") as recovered:
        numbers = [event.seq_nr async for event in recovered]
        after = 0 if recovered.snapshot is None else recovered.snapshot.seq_nr
        assert numbers == [n for n in expected if n > after]
        assert recovered.position is not None
        assert recovered.position.seq_nr == case.seq_nr


@pytest.mark.parametrize("fence", ["mark", "watermark"])
@pytest.mark.parametrize("name", CASES)
async def test_a_case_is_read_with_any_part_of_it_replicated(journals: Journals, name: str, fence: str) -> None:
    case = CASES[name]
    options: dict[str, Any] = {"segment_size": case.segment_size, "partitions": 3, "fence": fence}
    for replicated in range(len(case.steps) + 1):
        topic = f"after-{replicated}"
        journal = await journals.open(topic, **options)
        for index, step in enumerate(case.steps):
            if index == replicated:
                await journal.catch_up()
            await step(journal)
        await check(journal, case)
        another = await journals.open(topic, **options)
        await check(another, case)


@pytest.mark.parametrize("name", CASES)
async def test_a_case_has_the_rows_of_the_seed(journals: Journals, name: str) -> None:
    case = CASES[name]
    journal = await journals.open(segment_size=case.segment_size)
    for step in case.steps:
        await step(journal)
    await journal.catch_up()
    row = head_row(journals, "A")
    assert row is not None
    assert (row["seq_nr"], row["delete_to"], row["segment_size"]) == (case.seq_nr, case.delete_to, case.segment_size)
    assert places(journals, "A") == list(case.rows)
    assert snapshot_numbers(journals, "A") == list(case.snapshots)
    await check(journal, case)


@pytest.mark.parametrize("replicate", [False, True])
@pytest.mark.parametrize("name", CASES)
async def test_the_next_append_of_a_case_continues_it(journals: Journals, name: str, replicate: bool) -> None:
    case = CASES[name]
    journal = await journals.open(segment_size=case.segment_size)
    for step in case.steps:
        await step(journal)
    if replicate:
        await journal.catch_up()
    another = await journals.open(segment_size=case.segment_size)
    done = await append(another, "A", "next")
    assert done.seq_nrs == range(case.seq_nr + 1, case.seq_nr + 2)


# --- expected action behaviour


async def test_a_mark_changes_nothing(journals: Journals) -> None:
    journal = await journals.open(single_writer=True)
    await append(journal, "A", "1")
    peer = ScalaPeer(await journals.connect())
    await journal.catch_up()
    before = head_row(journals, "A")
    await peer.mark("A")
    await peer.mark("B")
    await journal.catch_up()
    assert head_row(journals, "A") == before
    assert head_row(journals, "B") is None
    assert await journal.pointer("A") == 1
    assert await journal.pointer("B") is None


@pytest.mark.parametrize("replicate", [False, True])
async def test_an_append_creates_the_journal(journals: Journals, replicate: bool) -> None:
    journal = await journals.open(segment_size=2)
    assert await journal.pointer("A") is None
    done = await append(journal, "A", "1", "2", "3")
    assert done.seq_nrs == range(1, 4)
    if replicate:
        await journal.catch_up()
        row = head_row(journals, "A")
        assert row is not None
        assert (row["seq_nr"], row["delete_to"], row["partition"], row["offset"]) == (3, None, 0, done.offset)
        assert places(journals, "A") == [(1, 0), (2, 0), (3, 1)]
    assert await read_texts(journal, "A") == {1: "1", 2: "2", 3: "3"}


async def test_an_append_moves_number_and_place_of_the_journal(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", "1")
    await journal.catch_up()
    before = head_row(journals, "A")
    done = await append(journal, "A", "2", "3")
    await journal.catch_up()
    row = head_row(journals, "A")
    assert row is not None
    assert before is not None
    assert (row["seq_nr"], row["partition"], row["offset"]) == (3, 0, done.offset)
    assert (row["record_id"], row["created"]) == (before["record_id"], before["created"])


@pytest.mark.parametrize("replicate", [False, True])
async def test_a_foreign_delete_creates_a_journal_without_events(journals: Journals, replicate: bool) -> None:
    journal = await journals.open(single_writer=True)
    await journal.pointer("A")
    peer = ScalaPeer(await journals.connect())
    _, offset = await peer.delete("A", 7)
    if replicate:
        await journal.catch_up()
        row = head_row(journals, "A")
        assert row is not None
        assert (row["seq_nr"], row["delete_to"], row["offset"], row["record_id"]) == (7, 7, offset, None)
    assert await journal.pointer("A") == 7
    assert await read_texts(journal, "A") == {}
    done = await append(journal, "A", "next")
    assert done.seq_nrs == range(8, 9)
    await journal.catch_up()
    row = head_row(journals, "A")
    assert row is not None
    assert row["record_id"] == done.position.life


@pytest.mark.parametrize("replicate", [False, True])
async def test_our_own_delete_of_nothing_creates_nothing(journals: Journals, replicate: bool) -> None:
    journal = await journals.open()
    await journal.delete("A", through=7)
    if replicate:
        await journal.catch_up()
    assert await journal.pointer("A") is None
    assert head_row(journals, "A") is None
    assert (await append(journal, "A", "1")).seq_nrs == range(1, 2)


@pytest.mark.parametrize("replicate", [False, True])
async def test_a_delete_moves_delete_to_and_removes_rows(journals: Journals, replicate: bool) -> None:
    journal = await journals.open(segment_size=2)
    await append(journal, "A", "1", "2", "3", "4", "5")
    if replicate:
        await journal.catch_up()
    await journal.delete("A", through=3)
    assert await read_texts(journal, "A") == {4: "4", 5: "5"}
    await journal.catch_up()
    row = head_row(journals, "A")
    assert row is not None
    assert (row["seq_nr"], row["delete_to"]) == (5, 3)
    assert places(journals, "A") == [(4, 1), (5, 2)]
    # One that reaches less far changes nothing.
    await journal.delete("A", through=2)
    assert await read_texts(journal, "A") == {4: "4", 5: "5"}


@pytest.mark.parametrize("replicate", [False, True])
async def test_a_delete_beyond_the_end_deletes_to_the_end(journals: Journals, replicate: bool) -> None:
    journal = await journals.open()
    await append(journal, "A", "1", "2")
    await journal.delete("A", through=9)
    if replicate:
        await journal.catch_up()
    assert await journal.pointer("A") == 2
    assert (await append(journal, "A", "3")).seq_nrs == range(3, 4)
    assert await read_texts(journal, "A") == {3: "3"}


@pytest.mark.parametrize("replicate", [False, True])
async def test_a_purge_of_nothing_changes_nothing(journals: Journals, replicate: bool) -> None:
    journal = await journals.open(single_writer=True)
    assert (await journal.purge("A")).log_until is None
    peer = ScalaPeer(await journals.connect())
    await peer.purge("A")
    if replicate:
        await journal.catch_up()
    assert await journal.pointer("A") is None
    assert head_row(journals, "A") is None


@pytest.mark.parametrize("replicate", [False, True])
@pytest.mark.parametrize("deleted", [0, 2, 5])
async def test_a_purge_removes_the_journal(journals: Journals, deleted: int, replicate: bool) -> None:
    journal = await journals.open(segment_size=2)
    await append(journal, "A", "1", "2", "3", "4", "5")
    if deleted:
        await journal.delete("A", through=deleted)
    if replicate:
        await journal.catch_up()
    await journal.purge("A")
    assert await journal.pointer("A") is None
    assert await read_texts(journal, "A") == {}
    assert [id async for id in journal.ids()] == []
    await journal.catch_up()
    assert head_row(journals, "A") is None
    assert places(journals, "A") == []
    assert (await append(journal, "A", "new")).seq_nrs == range(1, 2)
    assert await read_texts(journal, "A") == {1: "new"}


# --- corner cases


async def test_no_event_is_returned_before_a_delete_in_the_head(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", "1", "2", "3")
    await journal.catch_up()
    await journal.delete("A", through=2)
    async with journal.read("A") as reader:
        event = await anext(reader)
        assert event.seq_nr == 3


async def test_a_journal_works_while_nothing_is_replicated(journals: Journals) -> None:
    # The head is far larger than the memory that it may use.
    journal = await journals.open(head_bytes_max=1000)
    for number in range(50):
        await append(journal, "A", f"{number}" * 100)
        await append(journal, "B", "noise")
    await journal.delete("A", through=10)
    found = await read_texts(journal, "A")
    assert found == {number + 1: f"{number}" * 100 for number in range(10, 50)}
    assert await journal.pointer("B") == 50


@pytest.mark.parametrize("replicate", [False, True])
async def test_numbers_with_a_gap_are_read_over_empty_segments(journals: Journals, replicate: bool) -> None:
    journal = await journals.open(single_writer=True, segment_size=2)
    await append(journal, "A", "1", "2", seq_nr=1)
    await append(journal, "A", "12", seq_nr=12)
    await append(journal, "A", "40", "41", seq_nr=40)
    if replicate:
        await journal.catch_up()
    assert await read_texts(journal, "A") == {1: "1", 2: "2", 12: "12", 40: "40", 41: "41"}
    assert await read_texts(journal, "A", 3, 41) == {12: "12", 40: "40"}
    assert await journal.pointer("A") == 41


async def test_journals_with_other_segment_sizes_are_read(journals: Journals) -> None:
    journal = await journals.open(segment_size=3)
    await append(journal, "A", "1", "2", "3", "4")
    await journal.catch_up()
    store = await journals.store()
    head = (await store.heads(TOPIC, ["A"]))["A"]
    # Another journal of the keyspace, written when the setting was another.
    other = HeadRow(partition=0, offset=0, segment_size=2, seq_nr=5, created=1, updated=1, life=head.life)
    rows = [EventRow(n, 1, 0, 0, None, None, head.life, None, "text", f"{n}") for n in range(1, 6)]
    pointer = (await store.pointers(TOPIC))[0]
    assert await store.write(PartitionChanges(TOPIC, 0, pointer, pointer, [KeyChanges("B", other, rows)]))
    assert places(journals, "B") == [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2)]
    assert await read_texts(journal, "B") == {n: f"{n}" for n in range(1, 6)}
    await append(journal, "B", "6")
    await journal.catch_up()
    assert places(journals, "B")[-1] == (6, 2)


async def test_a_row_with_delete_to_above_its_number_is_read(journals: Journals) -> None:
    journal = await journals.open()
    assert await journal.pointer("A") is None
    store = await journals.store()
    # The Scala replicator may leave such a row: numbers that are deleted never come back.
    head = HeadRow(partition=0, offset=0, segment_size=10, seq_nr=300, created=1, updated=1, delete_to=400)
    await append(journal, "noise", "1")
    deletion = Deletion(0, 400)
    assert await store.write(PartitionChanges(TOPIC, 0, None, 0, [KeyChanges("A", head, deletion=deletion)]))
    another = await journals.open()
    assert await another.pointer("A") == 400
    assert await read_texts(another, "A") == {}
    assert (await append(another, "A", "next")).seq_nrs == range(401, 402)
    assert await read_texts(another, "A") == {401: "next"}
    await another.catch_up()
    assert await read_texts(another, "A") == {401: "next"}


@pytest.mark.parametrize("replicate", [False, True])
async def test_an_append_above_one_tells_where_events_begin(journals: Journals, replicate: bool) -> None:
    journal = await journals.open(single_writer=True)
    await append(journal, "A", "5", seq_nr=5)
    if replicate:
        await journal.catch_up()
        row = head_row(journals, "A")
        assert row is not None
        assert (row["seq_nr"], row["delete_to"]) == (5, 4)
    assert await read_texts(journal, "A") == {5: "5"}
    assert await journal.pointer("A") == 5
