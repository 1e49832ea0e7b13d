"""R24: a replicator that was paused brings nothing back, whatever another one has applied meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import chain, repeat

import pytest

from cordwood import Journal, Unavailable
from cordwood.journal.gather import merged
from cordwood.journal.replicator import Replicator
from tests.support.crash.programs import Output, program
from tests.support.journal.journals import TOPIC, Journals, append, put, read_texts
from tests.support.journal.stored_rows import head_row, places, rebuilt_rows, rows, rows_of_log, snapshot_numbers

ON_SQLITE = pytest.mark.kinds("folder and SQLite", "Kafka and SQLite")
pytestmark = [pytest.mark.processes, pytest.mark.kinds("folder and SQLite", "Kafka and SQLite", "folder and Cassandra")]

SEGMENT_SIZE = 2


@contextmanager
def paused(journals: Journals, what: str, point: str = "before its write") -> Iterator[Output]:
    """A process that has stopped itself at that point."""
    urls = journals.kind.log_url, journals.kind.store_url
    with program("tests.support.journal.other_process", *urls, what, TOPIC, SEGMENT_SIZE, point) as output:
        output.wait_paused()
        yield output


def resume(output: Output) -> list[str]:
    """Let it continue to its end: its last line."""
    output.resume()
    assert output.process.wait(timeout=30) == 0
    output._thread.join()
    return output.lines[-1]


async def check(journals: Journals, journal: Journal) -> None:
    """The store has what follows from the log, and nothing else."""
    assert rows_of_log(journals) == await rebuilt_rows(journals, segment_size=SEGMENT_SIZE)
    (pointer,) = rows(journals, "pointer2")
    async with (await journals.connect()).log(TOPIC).read() as reader:
        actions = [record.offset async for batch in reader for record in batch if record.key is not None]
    assert pointer["offset"] >= actions[-1]  # a Mark, which has no key, may follow


async def begun(journals: Journals) -> Journal:
    """A journal with an Append that is not replicated, and one of another key that is."""
    journal = await journals.open(segment_size=SEGMENT_SIZE)
    await append(journal, "other", "1")
    await journal.catch_up()
    await append(journal, "A", "1", "2", "3", expire_after=timedelta(days=1))
    return journal


async def test_a_purged_journal_does_not_come_back(journals: Journals) -> None:
    journal = await begun(journals)
    with paused(journals, "catch_up") as other:
        await journal.purge("A")
        await journal.catch_up()
        assert resume(other) == ["done"]
    assert head_row(journals, "A") is None
    assert places(journals, "A") == []
    await check(journals, journal)


async def test_the_batch_is_applied_and_then_the_purge(journals: Journals) -> None:
    journal = await begun(journals)
    with paused(journals, "catch_up") as other:
        await journal.catch_up()
        await journal.purge("A")
        await journal.catch_up()
        assert resume(other) == ["done"]
    assert places(journals, "A") == []
    await check(journals, journal)


async def test_a_new_life_is_not_mixed_with_the_old_one(journals: Journals) -> None:
    journal = await begun(journals)
    with paused(journals, "catch_up") as other:
        await journal.purge("A")
        await append(journal, "A", "new")
        await journal.catch_up()
        assert resume(other) == ["done"]
    assert await read_texts(journal, "A") == {1: "new"}
    assert places(journals, "A") == [(1, 0)]
    await check(journals, journal)


async def test_deleted_events_do_not_come_back(journals: Journals) -> None:
    journal = await begun(journals)
    with paused(journals, "catch_up") as other:
        await journal.delete("A", through=2)
        await append(journal, "A", "4")
        await journal.catch_up()
        assert resume(other) == ["done"]
    assert places(journals, "A") == [(3, 1), (4, 1)]
    await check(journals, journal)


async def test_an_expiry_that_was_cleared_does_not_come_back(journals: Journals) -> None:
    journal = await begun(journals)
    with paused(journals, "catch_up") as other:
        await append(journal, "A", "4")  # in one batch with the append that sets it
        await journal.catch_up()
        assert resume(other) == ["done"]
    row = head_row(journals, "A")
    assert row is not None
    assert (row["expire_on"], row["expire_after"], row["seq_nr"]) == (None, None, 4)
    await check(journals, journal)


async def test_a_dead_letter_of_a_purged_journal_does_not_come_back(journals: Journals) -> None:
    journal = await begun(journals)
    await put(await journals.connect(), b"A", b"no JSON")
    with paused(journals, "catch_up") as other:
        await journal.purge("A")
        await journal.catch_up()
        assert resume(other) == ["done"]
    assert await journal.dead_letters() == []
    await check(journals, journal)


async def test_a_replicator_that_was_overtaken_continues(journals: Journals) -> None:
    journal = await begun(journals)
    with paused(journals, "catch_up") as other:
        await journal.catch_up()
        assert resume(other) == ["done"]
    assert places(journals, "A") == [(1, 0), (2, 0), (3, 1)]
    await check(journals, journal)


@ON_SQLITE
async def test_one_that_stops_in_its_transaction_harms_nothing(journals: Journals) -> None:
    await begun(journals)
    journal = await journals.open(segment_size=SEGMENT_SIZE, timeout=1)
    await journal.pointer("A")
    with paused(journals, "catch_up", "inside its transaction") as other:
        await journal.purge("A")
        with pytest.raises(Unavailable) as caught:
            await journal.catch_up()
        assert caught.value.reason == "busy"
        assert await journal.pointer("A") is None  # reads need no lock
        assert resume(other) == ["done"]
    await journal.catch_up()
    assert places(journals, "A") == []
    await check(journals, journal)


@ON_SQLITE
async def test_one_that_dies_in_its_transaction_leaves_nothing(journals: Journals) -> None:
    journal = await begun(journals)
    with paused(journals, "catch_up", "inside its transaction") as other:
        other.kill()
    assert places(journals, "A") == []
    await journal.catch_up()
    await check(journals, journal)


@pytest.mark.kinds("folder and Cassandra", "Kafka and Cassandra")
@pytest.mark.parametrize("new_life", [False, True])
async def test_one_that_stops_amid_its_statements_brings_nothing_back(journals: Journals, new_life: bool) -> None:
    journal = await begun(journals)
    with paused(journals, "catch_up", "amid its statements") as other:
        assert places(journals, "A") == [(1, 0), (2, 0), (3, 1)], "its rows are there, and no head row"
        assert head_row(journals, "A") is None
        await journal.purge("A")
        if new_life:
            await append(journal, "A", "new")
        await journal.catch_up()
        assert places(journals, "A") == ([(1, 0)] if new_life else [])
        assert resume(other) == ["done"]
    assert places(journals, "A") == ([(1, 0)] if new_life else [])
    assert (head_row(journals, "A") is not None) == new_life
    await check(journals, journal)


@pytest.mark.kinds("folder and Cassandra")
async def test_one_that_dies_amid_its_statements_is_finished_by_the_next(journals: Journals) -> None:
    journal = await begun(journals)
    with paused(journals, "catch_up", "amid its statements") as other:
        other.kill()
    assert await read_texts(journal, "A") == {1: "1", 2: "2", 3: "3"}
    await journal.catch_up()
    assert places(journals, "A") == [(1, 0), (2, 0), (3, 1)]
    await check(journals, journal)


@pytest.mark.parametrize("new_life", [False, True])
@pytest.mark.parametrize("replicated", [False, True])
async def test_a_snapshot_of_a_purged_journal_does_not_come_back(
    journals: Journals, replicated: bool, new_life: bool
) -> None:
    journal = await begun(journals)
    if replicated:
        await journal.catch_up()
    with paused(journals, "snapshot") as other:  # between its read fence and its write
        await journal.purge("A")
        if new_life:
            await append(journal, "A", "new")
        await journal.catch_up()
        assert resume(other) == ["failed", "Conflict"]
    assert snapshot_numbers(journals, "A") == []
    assert await journal.load_snapshot("A") is None


async def test_a_snapshot_saved_before_the_purge_is_replicated_goes_with_it(journals: Journals) -> None:
    journal = await begun(journals)
    await journal.catch_up()
    with paused(journals, "snapshot") as other:
        await journal.purge("A")
        assert resume(other) == ["done"]  # the store does not know of the purge yet
    assert await journal.load_snapshot("A") is None
    await journal.catch_up()
    assert snapshot_numbers(journals, "A") == []


@ON_SQLITE  # a store with write times compares the age of a batch with its own clock
async def test_pointers_that_were_read_long_ago_are_read_again(journals: Journals) -> None:
    journal = await begun(journals)
    topic = (await journal._open()).topic
    times = chain(repeat(0.0, 2), repeat(601.0))
    replicator = Replicator(topic, lambda partition, pointer: None, clock=lambda: next(times))
    await replicator.catch_up()
    assert replicator._looked_at == 601.0
    await check(journals, journal)


async def test_a_replicator_continues_after_the_pointer_of_another_one(journals: Journals) -> None:
    """The other one may write a part of a batch: batches are merged."""
    journal = await begun(journals)
    topic = (await journal._open()).topic
    for number in range(4, 8):
        await append(journal, "A", str(number))
    slow = Replicator(topic, lambda partition, pointer: None)
    await slow._load_pointers()
    quick = Replicator(topic, lambda partition, pointer: None)
    await quick.replicate_to(0, 3)
    async with topic.read({0: 0}, {0: (await topic.log(0).bounds())[1]}) as reader:
        whole = merged([batch async for batch in reader])
    await slow._replicate(whole)
    await check(journals, journal)
