"""R40: a life has a name, and Delete, Purge and Position of another life change nothing."""

from typing import Any

import pytest

from cordwood import Conflict, Journal, Position
from cordwood.journal.action import Append, Delete, Purge
from cordwood.journal.header import encode_header
from cordwood.journal.value import encode_value
from cordwood.store import EventPage, HeadRow
from tests.support.journal.journals import Journals, append, put, read_texts, texts
from tests.support.journal.scala_peer import ScalaPeer
from tests.support.journal.stored_rows import head_row, places

pytestmark = pytest.mark.kinds("folder and SQLite", "Kafka and SQLite", "folder and Cassandra")


async def two_lives(journals: Journals, replicate: bool) -> tuple[Journal, str]:
    """A journal in its second life, with events 1 to 3, and the name of its first one."""
    journal = await journals.open()
    first = await append(journal, "A", *(f"old {n}" for n in range(1, 6)))
    if replicate:
        await journal.catch_up()
    await journal.purge("A")
    second = await append(journal, "A", *(f"new {n}" for n in range(1, 4)))
    assert first.position.life != second.position.life
    assert first.position.life is not None
    return journal, first.position.life


NEW = {1: "new 1", 2: "new 2", 3: "new 3"}


@pytest.mark.parametrize("replicate", [False, True])
async def test_a_life_has_one_name_for_reader_and_replicator(journals: Journals, replicate: bool) -> None:
    journal = await journals.open()
    done = await append(journal, "A", "1")
    if replicate:
        await journal.catch_up()
        row = head_row(journals, "A")
        assert row is not None
        assert row["record_id"] == done.position.life
    another = await journals.open()
    assert await another.position("A") == done.position
    later = await append(another, "A", "2")
    assert later.position == Position(done.position.life, 2)
    async with another.read("A") as reader:
        assert [event.seq_nr async for event in reader] == [1, 2]
    assert reader.position == later.position


@pytest.mark.parametrize("replicate", [False, True])
async def test_a_delete_of_an_earlier_life_deletes_nothing(journals: Journals, replicate: bool) -> None:
    journal, old = await two_lives(journals, replicate)
    await put(await journals.connect(), b"A", encode_header(Delete(5, life=old)))
    assert await read_texts(journal, "A") == NEW
    await journal.catch_up()
    assert await read_texts(journal, "A") == NEW
    row = head_row(journals, "A")
    assert row is not None
    assert row["delete_to"] is None


@pytest.mark.parametrize("replicate", [False, True])
async def test_a_purge_of_an_earlier_life_purges_nothing(journals: Journals, replicate: bool) -> None:
    journal, old = await two_lives(journals, replicate)
    await put(await journals.connect(), b"A", encode_header(Purge(life=old)))
    assert await read_texts(journal, "A") == NEW
    await journal.catch_up()
    assert await read_texts(journal, "A") == NEW
    assert places(journals, "A") == [(1, 0), (2, 0), (3, 0)]


@pytest.mark.parametrize("replicate", [False, True])
async def test_a_position_of_an_earlier_life_is_a_conflict(journals: Journals, replicate: bool) -> None:
    journal, old = await two_lives(journals, replicate)
    another = await journals.open()
    for handle in (journal, another):
        with pytest.raises(Conflict, match="purged and begun again") as caught:
            await append(handle, "A", "decided on the old 3", expected=Position(old, 3))
        assert (caught.value.actual, caught.value.outcome) == (3, "not_written")
    assert await read_texts(journal, "A") == NEW
    # A bare number holds in any life, and the new position in its own.
    position = (await append(journal, "A", "new 4", expected=3)).position
    done = await append(another, "A", "new 5", expected=position)
    assert done.seq_nrs == range(5, 6)


@pytest.mark.parametrize("replicate", [False, True])
async def test_a_position_of_a_purged_journal_is_a_conflict(journals: Journals, replicate: bool) -> None:
    journal = await journals.open()
    done = await append(journal, "A", "1")
    await journal.purge("A")
    if replicate:
        await journal.catch_up()
    for handle in (journal, await journals.open()):
        with pytest.raises(Conflict) as caught:
            await append(handle, "A", "2", expected=done.position)
        assert caught.value.actual == 0
    assert await journal.pointer("A") is None


async def test_the_copy_of_an_append_counts_in_no_later_life(journals: Journals) -> None:
    journal = await journals.open()
    client = await journals.connect()
    first = await append(journal, "A", "1")
    done = await append(journal, "A", "2")
    await journal.purge("A")
    await append(journal, "A", "new 1")
    # A late copy of the append of 2: it names the number that it follows, and its life.
    payload_type, value = encode_value(texts("2"), 2, None, None)
    copied = Append(2, 2, payload_type, id=done.id, expected=1, life=first.position.life)
    await put(client, b"A", encode_header(copied), value)
    assert await read_texts(journal, "A") == {1: "new 1"}
    await journal.catch_up()
    assert await read_texts(journal, "A") == {1: "new 1"}


async def test_our_deletes_and_purges_carry_the_life(journals: Journals) -> None:
    journal = await journals.open()
    done = await append(journal, "A", "1", "2")
    await journal.delete("A", through=1)
    await journal.purge("A")
    client = await journals.connect()
    async with client.log("orders").read() as reader:
        headers = [record.headers[0][1] async for batch in reader for record in batch if record.key == b"A"]
    life = f'"life":"{done.position.life}"'.encode()
    assert [life in (header or b"") for header in headers] == [False, True, True]


async def test_a_topic_with_a_single_writer_has_no_lives_in_records(journals: Journals) -> None:
    journal = await journals.open(single_writer=True)
    await append(journal, "A", "1", "2")
    await journal.delete("A", through=1)
    await journal.purge("A")
    client = await journals.connect()
    async with client.log("orders").read() as reader:
        headers = [record.headers[0][1] or b"" async for batch in reader for record in batch if record.key == b"A"]
    assert len(headers) == 3
    for field in (b"life", b"expected", b"after", b"keepExpiry", b'"id"', b"seqNr"):
        assert not any(field in header for header in headers)


async def test_a_foreign_delete_gets_its_life_with_the_first_append(journals: Journals) -> None:
    journal = await journals.open(single_writer=True)
    await journal.pointer("A")
    peer = ScalaPeer(await journals.connect())
    await peer.delete("A", 3)
    assert await journal.position("A") == Position(None, 3)
    done = await append(journal, "A", "4")
    assert done.position.life is not None
    assert await journal.position("A") == done.position
    await journal.catch_up()
    assert await journal.position("A") == done.position


async def test_a_copied_append_begins_the_life_of_its_source(journals: Journals) -> None:
    journal = await journals.open()
    client = await journals.connect()
    await journal.pointer("A")
    payload_type, value = encode_value(texts("1"), 1, None, None)
    named = "00000000-0000-5000-8000-00000000beef"
    copied = Append(1, 1, payload_type, id="copy", expected=0, named=named)
    await put(client, b"A", encode_header(copied), value)
    await put(client, b"A", encode_header(Delete(1, life=named)))
    assert await journal.position("A") == Position(named, 1)
    assert await read_texts(journal, "A") == {}
    await journal.catch_up()
    row = head_row(journals, "A")
    assert row is not None
    assert (row["record_id"], row["delete_to"]) == (named, 1)


async def test_repeated_deletes_and_purges_change_nothing_more(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", "1", "2", "3")
    for _ in range(2):
        await journal.delete("A", through=2)
    assert await read_texts(journal, "A") == {3: "3"}
    for _ in range(2):
        await journal.purge("A")
    assert await journal.pointer("A") is None
    await journal.catch_up()
    assert head_row(journals, "A") is None


async def test_a_read_that_starts_over_reads_a_new_life_from_its_start(
    journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = await journals.open()
    await append(journal, "A", *"12345")
    await journal.delete("A", through=2)
    await journal.catch_up()
    store = (await journal._open()).topic.store
    first_events = store.first_events

    async def purge_between(*arguments: Any) -> tuple[HeadRow | None, EventPage | None]:
        """A Purge and a new life come between the head row and the event rows."""
        monkeypatch.setattr(store, "first_events", first_events)
        row, _ = await first_events(*arguments)
        await journal.purge("A")
        await append(journal, "A", *"abc")
        await journal.catch_up()
        return row, EventPage((), None)

    monkeypatch.setattr(store, "first_events", purge_between)
    async with journal.read("A") as reader:
        assert [event.payload async for event in reader] == ["a", "b", "c"]
