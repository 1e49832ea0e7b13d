"""R23: a topic is bound to its store at first use, and a topic that was created again is another one."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from cordwood import Batch, Conflict, CordwoodError, Event, Journal
from cordwood.store import Binding, PartitionChanges
from tests.support.journal.journals import TOPIC, Journals, append, read_texts
from tests.support.journal.scala_peer import ScalaPeer
from tests.support.journal.stored_rows import rows, rows_of_log

pytestmark = pytest.mark.kinds("folder and SQLite", "Kafka and SQLite", "folder and Cassandra")

CALLS: dict[str, Callable[[Journal], Awaitable[object]]] = {
    "append": lambda journal: journal.append("A", [Event.empty()]),
    "append with expected": lambda journal: journal.append("A", [Event.empty()], expected=1),
    "pointer": lambda journal: journal.pointer("A"),
    "read": lambda journal: read_texts(journal, "A"),
    "delete": lambda journal: journal.delete("A", through=1),
    "purge": lambda journal: journal.purge("A"),
    "load_snapshot": lambda journal: journal.load_snapshot("A"),
    "catch_up": lambda journal: journal.catch_up(),
}


async def recreate(journals: Journals, records: int = 0) -> None:
    client = await journals.connect()
    await client.delete_topic(TOPIC)
    await client.create_topic(TOPIC, partitions=1)
    for _ in range(records):
        await ScalaPeer(client).append("A", [1])


async def test_a_recreated_topic_is_a_conflict_for_new_handles(journals: Journals) -> None:
    first = await journals.open()
    await append(first, "A", "old")
    await first.catch_up()
    before = rows_of_log(journals)
    await recreate(journals, records=3)
    for name, call in CALLS.items():
        journal = await journals.open()
        with pytest.raises(Conflict, match=r"the topic's id is '.*' there, not '.*'"):
            await call(journal)
        assert rows_of_log(journals) == before, name


@pytest.mark.parametrize("name", CALLS)
async def test_a_recreated_topic_is_a_conflict_for_open_handles(journals: Journals, name: str) -> None:
    journal = await journals.open(timeout=5)
    await append(journal, "A", "old 1")
    await append(journal, "A", "old 2")
    await journal.catch_up()
    before = rows_of_log(journals)
    await recreate(journals, records=1)
    with pytest.raises(Conflict, match="deleted and created again"):
        await CALLS[name](journal)
    assert rows_of_log(journals) == before


async def test_the_replicator_applies_nothing_of_a_recreated_topic(journals: Journals) -> None:
    journal = await journals.open(replicate=True)
    done = await append(journal, "A", "old")
    await journal.wait_replicated(done)
    before = rows_of_log(journals)
    await recreate(journals, records=5)
    with pytest.raises(CordwoodError, match="deleted"):
        async with asyncio.timeout(5):
            while True:
                await journal.pointer("other")
    assert rows_of_log(journals) == before


@pytest.mark.parametrize("end", [0, 3])
async def test_a_pointer_beyond_the_end_is_a_conflict(journals: Journals, end: int) -> None:
    # A keyspace without the row: the pointer is the only sign.
    client = await journals.connect()
    await client.create_topic(TOPIC, partitions=1)
    for _ in range(end):
        await ScalaPeer(client).append("A", [1])
    store = await journals.store()
    assert await store.write(PartitionChanges(TOPIC, 0, None, 10))
    before = rows_of_log(journals)
    for name, call in CALLS.items():
        if name in ("append with expected", "load_snapshot"):
            continue  # not on this topic: its pointers are those of another replicator
        journal = await journals.open(single_writer=True)
        with pytest.raises(Conflict, match=f"ends at {end}, and the store .* up to 10"):
            await (journal.catch_up(adopt=True) if name == "catch_up" else call(journal))
    assert rows_of_log(journals) == before


async def test_the_background_replicator_reports_a_pointer_beyond_the_end(journals: Journals) -> None:
    await (await journals.open()).pointer("A")  # binds the topic: its replicator is ours
    store = await journals.store()
    assert await store.write(PartitionChanges(TOPIC, 0, None, 10))
    journal = await journals.open(replicate=True)
    with pytest.raises(Conflict, match=r"ends at \d, and the store"):
        await journal.pointer("A")


async def test_a_pointer_at_the_last_record_is_none(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", "1")
    await journal.catch_up()
    assert await (await journals.open()).pointer("A") == 1


async def test_the_first_use_writes_the_row_once(journals: Journals) -> None:
    # Several handles at once: one of them binds.
    handles = [await journals.open(partitions=3, segment_size=7) for _ in range(4)]
    await asyncio.gather(*(handle.pointer("A") for handle in handles))
    store = await journals.store()
    binding = await store.binding(TOPIC)
    assert binding is not None
    info = await (await journals.connect()).topic(TOPIC)
    assert (binding.topic_id, binding.partitions, binding.segment_size) == (info.id, 3, 7)
    assert (binding.single_writer, binding.replicator) == (False, "cordwood")
    (row,) = [row for row in rows(journals, "setting") if row["key"] == "cordwood/orders"]
    assert row["value"]


async def test_several_topics_share_a_store(journals: Journals) -> None:
    first, second = await journals.open("first"), await journals.open("second", segment_size=2, single_writer=True)
    await append(first, "A", "first")
    await append(second, "A", "second", "second")
    await first.catch_up()
    await second.catch_up()
    await first.purge("A")
    await first.catch_up()
    assert await first.pointer("A") is None
    assert await read_texts(second, "A") == {1: "second", 2: "second"}


async def test_another_log_with_a_topic_of_that_name_is_a_conflict(journals: Journals) -> None:
    store = await journals.store()
    await store.bind(TOPIC, Binding("id of another topic", 1, False, 10_000, "cordwood", 1))
    journal = await journals.open()
    with pytest.raises(Conflict, match="'id of another topic' there, not"):
        await append(journal, "A", "1")


@pytest.mark.parametrize("marks", [0, 3])
async def test_records_of_scala_programs_ask_for_a_single_writer(journals: Journals, marks: int) -> None:
    client = await journals.connect()
    await client.create_topic(TOPIC, partitions=2)
    peer = ScalaPeer(client)
    for _ in range(marks):
        await peer.mark("A")
    await peer.append("A", [1])
    journal = await journals.open()
    with pytest.raises(Conflict, match=r"single_writer=True.*adopt") as caught:
        await append(journal, "A", "1")
    assert caught.value.outcome == "not_written"
    assert await (await journals.store()).binding(TOPIC) is None
    shared = await journals.open(single_writer=True)
    assert (await append(shared, "A", "2")).seq_nrs == range(2, 3)


async def test_pointers_without_a_row_ask_for_a_single_writer(journals: Journals) -> None:
    client = await journals.connect()
    await client.create_topic(TOPIC, partitions=1)
    await ScalaPeer(client).mark("A")
    store = await journals.store()
    assert await store.write(PartitionChanges(TOPIC, 0, None, 0))
    with pytest.raises(Conflict, match=r"single_writer=True.*adopt"):
        await (await journals.open()).pointer("A")


async def test_our_own_records_bind_to_a_new_store(journals: Journals) -> None:
    # The store was lost, and is built again from the log.
    await append(await journals.open(), "A", "1")
    rebuilt = await journals.open(store=journals.kind.new_store_url())
    await rebuilt.catch_up()
    assert await read_texts(rebuilt, "A") == {1: "1"}


async def test_records_of_no_journal_do_not_hinder_the_first_use(journals: Journals) -> None:
    client = await journals.connect()
    await client.create_topic(TOPIC, partitions=1)
    await client.log(TOPIC).append(Batch.of([b"plain"] * 3))
    journal = await journals.open()
    assert (await append(journal, "A", "1")).seq_nrs == range(1, 2)
