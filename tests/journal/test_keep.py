"""R42: the log keeps records until they are replicated, and a log that has lost some says so."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from cordwood import Event, Journal, Trimmed
from tests.support.journal.journals import TOPIC, Clock, Journals, append, read_texts

HOUR = timedelta(hours=1)


async def start_of(journals: Journals, partition: int = 0) -> int:
    client = await journals.connect()
    return (await client.log(TOPIC, partition).bounds())[0]


async def trim(journal: Journal) -> dict[int, int]:
    trimmer = (await journal._open()).trimmer
    assert trimmer is not None
    return await trimmer.trim()


async def test_records_stay_for_keep_and_until_they_are_replicated(journals: Journals) -> None:
    clock = Clock()
    journal = await journals.open(clock=clock, keep=2 * HOUR)
    for number in range(4):
        await append(journal, "A", f"{number}")
        clock.pass_by(HOUR)
    # Now 4 h: the records are 4, 3, 2 and 1 hours old.
    assert await trim(journal) == {}
    await journal.catch_up()
    assert await trim(journal) == {0: 2}
    assert await trim(journal) == {}
    clock.pass_by(10 * HOUR)
    await append(journal, "A", "4")
    clock.pass_by(10 * HOUR)
    assert await trim(journal) == {0: 4}  # and not 5: that one is not replicated
    assert await start_of(journals) == 4
    for handle in (journal, await journals.open()):
        assert await read_texts(handle, "A") == {n + 1: f"{n}" for n in range(5)}


async def test_trimming_never_overtakes_the_replicator(journals: Journals) -> None:
    journal = await journals.open(keep=timedelta(0), replicate=True, partitions=2)
    store = await journals.store()

    async def write(key: str) -> None:
        for _ in range(25):
            await append(journal, key, "x")

    async def trim_all() -> None:
        for _ in range(15):
            await trim(journal)
            pointers = await store.pointers(TOPIC)
            for partition in range(2):
                assert await start_of(journals, partition) <= pointers.get(partition, -1) + 1

    await asyncio.gather(trim_all(), *(write(f"key-{n}") for n in range(4)))
    for number in range(4):
        assert len(await read_texts(journal, f"key-{number}")) == 25


async def test_a_background_task_trims(journals: Journals) -> None:
    journal = await journals.open(keep=timedelta(0), replicate=True, trim_seconds=0.01)
    done = await append(journal, "A", "1")
    await journal.wait_replicated(done)
    log = (await journals.connect()).log(TOPIC)
    async with asyncio.timeout(5):
        while (await log.bounds())[0] == 0:
            await append(journal, "B", "x")
    assert await read_texts(journal, "A") == {1: "1"}


async def test_without_keep_nothing_is_trimmed(journals: Journals) -> None:
    journal = await journals.open(keep=None, replicate=True)
    await append(journal, "A", "1")
    assert (await journal._open()).trimmer is None


async def test_a_journal_creates_its_topic_without_retention(journals: Journals) -> None:
    await append(await journals.open(), "A", "1")
    info = await (await journals.connect()).topic(TOPIC)
    assert (info.retention, info.retention_bytes) == (None, None)


async def test_a_read_continues_in_the_store_after_a_trim(journals: Journals) -> None:
    # The head keeps no values, so the reader needs the log; the replicator and a trim come in between.
    journal = await journals.open(keep=timedelta(0), head_bytes_max=0)
    for number in range(1, 301):
        await append(journal, "A", f"{number}")
    async with journal.read("A") as reader:
        first = [(await anext(reader)).payload for _ in range(5)]
        await append(journal, "A", "after the read began")
        await journal.catch_up()
        await trim(journal)
        rest = [event.payload async for event in reader]
    assert first + rest == [f"{number}" for number in range(1, 301)]
    assert reader.position is not None
    assert reader.position.seq_nr == 300


@pytest.mark.parametrize("purge", [False, True])
async def test_a_read_that_lost_its_events_is_trimmed(journals: Journals, purge: bool) -> None:
    journal = await journals.open(keep=timedelta(0), head_bytes_max=0)
    for number in range(1, 301):
        await append(journal, "A", f"{number}")
    async with journal.read("A") as reader:
        for _ in range(5):
            await anext(reader)
        if purge:
            await journal.purge("A")
        else:
            await journal.delete("A", through=250)
        await journal.catch_up()
        await trim(journal)
        with pytest.raises(Trimmed) as caught:
            _ = [event async for event in reader]
    assert caught.value.start == (1 if purge else 251)


async def test_appends_go_on_over_a_trim(journals: Journals) -> None:
    journal = await journals.open(keep=timedelta(0), head_bytes_max=0)
    other = await journals.open(head_bytes_max=0)
    for number in range(1, 21):
        done = await append(journal if number % 2 else other, "A", f"{number}")
        assert done.seq_nrs == range(number, number + 1)
        if number % 3 == 0:
            await journal.catch_up()
            await trim(journal)
    assert len(await read_texts(other, "A")) == 20


# --- lost records


async def lose(journals: Journals, before: int) -> None:
    """Trim the log as a retention of Kafka does, over records that are not replicated."""
    await (await journals.connect()).log(TOPIC).trim(before)


CALLS: dict[str, Callable[[Journal], Awaitable[object]]] = {
    "append": lambda journal: journal.append("A", [Event.empty()]),
    "append with expected": lambda journal: journal.append("A", [Event.empty()], expected=3),
    "pointer": lambda journal: journal.pointer("A"),
    "read": lambda journal: read_texts(journal, "A"),
    "follow": lambda journal: anext(journal.follow("A")),
    "delete": lambda journal: journal.delete("A", through=1),
    "purge": lambda journal: journal.purge("A"),
    "load_snapshot": lambda journal: journal.load_snapshot("A"),
    "catch_up": lambda journal: journal.catch_up(),
    "purge_expired": lambda journal: journal.purge_expired(),
}


@pytest.mark.parametrize("replicated", [False, True])
async def test_a_log_with_lost_records_raises_trimmed(journals: Journals, replicated: bool) -> None:
    journal = await journals.open()
    await append(journal, "A", "1")
    if replicated:
        await journal.catch_up()
    pointer = 0 if replicated else -1
    await append(journal, "A", "2")
    await append(journal, "A", "3")
    await lose(journals, before=2)
    for name, call in CALLS.items():
        handle = await journals.open()
        with pytest.raises(Trimmed, match=f"{pointer + 1} to 1 were never replicated") as caught:
            await call(handle)
        assert caught.value.start == 2
        if name in ("append", "append with expected", "delete", "purge"):
            assert caught.value.outcome == "not_written", name


async def test_the_background_replicator_reports_lost_records(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", "1")
    await append(journal, "A", "2")
    await lose(journals, before=1)
    replicating = await journals.open(replicate=True)
    for _ in range(2):
        with pytest.raises(Trimmed, match="0 to 0 were never replicated"):
            await replicating.pointer("A")
    assert await (await journals.store()).pointers(TOPIC) == {}


async def test_an_accepted_loss_is_a_dead_letter(journals: Journals) -> None:
    journal = await journals.open(replicate=True)
    writer = await journals.open()
    for _ in range(3):
        await append(writer, "A", "lost")
    await append(writer, "B", "kept")
    await lose(journals, before=3)
    with pytest.raises(Trimmed):
        await journal.pointer("B")
    await journal.catch_up(accept_loss=True)
    (letter,) = await journal.dead_letters()
    assert (letter.offset, letter.through, letter.id) == (0, 2, None)
    assert "0 to 2 were trimmed before they were replicated" in letter.reason
    # The journal works again, and its replicator too.
    assert await read_texts(journal, "B") == {1: "kept"}
    assert await journal.pointer("A") is None
    done = await append(journal, "B", "2")
    await journal.wait_replicated(done, timeout=5)
    await journal.catch_up(accept_loss=True)
    assert len(await journal.dead_letters()) == 1


async def test_a_trim_below_the_pointer_loses_nothing(journals: Journals) -> None:
    journal = await journals.open()
    for number in range(1, 6):
        await append(journal, "A", f"{number}")
    await journal.catch_up()
    await lose(journals, before=5)
    for handle in (journal, await journals.open()):
        assert len(await read_texts(handle, "A")) == 5
    assert (await append(journal, "A", "6")).seq_nrs == range(6, 7)


async def test_until_includes_the_event_of_that_time(journals: Journals) -> None:
    clock = Clock(datetime(2026, 3, 10, 12, 0, 0, 1000, tzinfo=UTC))
    journal = await journals.open(clock=clock)
    for number in range(1, 41):
        await append(journal, "A", f"{number}")
        clock.pass_by(timedelta(milliseconds=number))
    events = []
    async with journal.read("A") as reader:
        events = [event async for event in reader]
    for replicate in (False, True):
        if replicate:
            await journal.catch_up()
        for event in events:
            found = await read_texts(journal, "A", until=event.timestamp)
            assert list(found) == list(range(1, event.seq_nr + 1))
            just_before = event.timestamp - timedelta(microseconds=1)
            assert len(await read_texts(journal, "A", until=just_before)) == event.seq_nr - 1


async def test_a_read_passes_records_that_another_process_trimmed(journals: Journals) -> None:
    client = await journals.connect()
    reader, writer = await journals.open(client=client), await journals.open(client=client)
    await append(reader, "A", "1")
    await append(writer, "A", "2")
    await append(writer, "A", "3")
    await writer.catch_up()
    await client.log(TOPIC, 0).trim(3)
    await append(writer, "A", "4")
    async with asyncio.timeout(30):
        assert await read_texts(reader, "A") == {1: "1", 2: "2", 3: "3", 4: "4"}
