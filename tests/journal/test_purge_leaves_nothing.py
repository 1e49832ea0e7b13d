"""A purge leaves nothing in the store, and nothing in the log once `keep` is over."""

import asyncio
from datetime import timedelta

import pytest

from cordwood import Client, Event, Journal, Timeout
from tests.support.journal.journals import TOPIC, Clock, Journals, append, put, read_texts
from tests.support.journal.scala_peer import ScalaPeer
from tests.support.journal.stored_rows import tables

ID = "secret-id"
PAYLOAD = "secret-payload"


def traces(journals: Journals) -> dict[str, int]:
    """How many rows of each table mention the journal or a payload of it."""
    found: dict[str, int] = {}
    for name, rows in tables(journals).items():
        for row in rows:
            texts = [value if isinstance(value, bytes) else str(value).encode() for value in row.values()]
            if any(ID.encode() in text or b"secret-payload" in text for text in texts):
                found[name] = found.get(name, 0) + 1
    return found


async def fill(journals: Journals, journal: Journal, client: Client) -> None:
    """Events of all kinds with everything that can go with them, a deletion, snapshots, a dead letter."""
    events = [Event.text(PAYLOAD), Event.json({"a": PAYLOAD}), Event.binary(PAYLOAD.encode()), Event.empty()]
    await journal.append(
        ID,
        events,
        headers={"h": PAYLOAD},
        metadata={"m": PAYLOAD},
        expire_after=timedelta(days=1),
        id=None if journal._config.single_writer else f"command-of-{ID}",
        expected=None if journal._config.single_writer else 0,
    )
    await append(journal, "other", "stays")
    await journal.catch_up()
    await journal.delete(ID, through=1)
    await journal.save_snapshot(ID, 2, PAYLOAD.encode(), newest=2)
    await journal.save_snapshot(ID, 4, PAYLOAD.encode(), newest=2)
    await append(journal, ID, *(PAYLOAD for _ in range(20)))
    await put(client, ID.encode(), b"no JSON", PAYLOAD.encode())
    await journal.catch_up()
    assert set(traces(journals)) == {"journal", "metajournal", "cordwood_snapshot", "cordwood_dead_letter"}


@pytest.mark.parametrize("single_writer", [False, True])
async def test_no_table_has_a_row_of_a_purged_journal(journals: Journals, single_writer: bool) -> None:
    client = await journals.connect()
    journal = await journals.open(segment_size=3, single_writer=single_writer)
    await fill(journals, journal, client)
    await journal.purge(ID)
    await journal.catch_up()
    assert traces(journals) == {}
    assert await read_texts(journal, "other") == {1: "stays"}


async def test_a_foreign_purge_leaves_nothing(journals: Journals) -> None:
    client = await journals.connect()
    journal = await journals.open(segment_size=3, single_writer=True)
    await fill(journals, journal, client)
    await ScalaPeer(client).purge(ID)
    await journal.catch_up()
    assert traces(journals) == {}


async def test_append_and_purge_in_one_batch_leave_nothing(journals: Journals) -> None:
    client = await journals.connect()
    journal = await journals.open(segment_size=3)
    await append(journal, "other", "stays")
    for _ in range(3):
        await append(journal, ID, *(PAYLOAD for _ in range(5)))
        await journal.save_snapshot(ID, 5, PAYLOAD.encode())
        await put(client, ID.encode(), b"no JSON", PAYLOAD.encode())
        await journal.purge(ID)
    assert traces(journals) == {"cordwood_snapshot": 1}
    await journal.catch_up()
    assert traces(journals) == {}


async def test_nothing_of_an_earlier_life_is_left_in_a_new_one(journals: Journals) -> None:
    client = await journals.connect()
    journal = await journals.open(segment_size=3)
    await fill(journals, journal, client)
    await journal.purge(ID)
    await append(journal, ID, "new")
    await journal.catch_up()
    assert traces(journals) == {"journal": 1, "metajournal": 1}
    assert await read_texts(journal, ID) == {1: "new"}
    assert await journal.load_snapshot(ID) is None


async def test_a_purge_that_waits_returns_when_nothing_is_left(journals: Journals) -> None:
    journal = await journals.open(replicate=True)
    for number in range(5):
        await append(journal, ID, PAYLOAD)
        await journal.save_snapshot(ID, 1, PAYLOAD.encode())
        await append(journal, f"other-{number}", "stays")
        await journal.purge(ID, wait=True)
        assert traces(journals) == {}


async def test_a_repeated_purge_waits_for_the_first_one(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, ID, PAYLOAD)
    await journal.catch_up()
    await journal.purge(ID)
    with pytest.raises(Timeout):
        await journal.purge(ID, wait=True, timeout=0.2)
    assert traces(journals) != {}
    second = asyncio.ensure_future(journal.purge(ID, wait=True))
    await journal.catch_up()
    await second
    assert traces(journals) == {}


async def test_a_purge_of_nothing_waits_for_nothing(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "other", "not replicated")
    report = await journal.purge("none", wait=True, timeout=5)
    assert report.log_until is None


async def test_the_log_has_nothing_after_keep(journals: Journals) -> None:
    clock = Clock()
    client = await journals.connect()
    journal = await journals.open(clock=clock, keep=timedelta(days=1))
    await append(journal, ID, PAYLOAD)
    clock.pass_by(timedelta(hours=1))
    report = await journal.purge(ID)
    assert report.log_until == clock.now + timedelta(days=1)
    await journal.catch_up()
    trimmer = (await journal._open()).trimmer
    assert trimmer is not None
    clock.now = report.log_until
    await trimmer.trim()
    assert await mentions(client) == 1  # the Purge itself is exactly as old as `keep` allows
    clock.pass_by(timedelta(milliseconds=1))
    await trimmer.trim()
    assert await mentions(client) == 0
    assert await journal.pointer(ID) is None


async def mentions(client: Client) -> int:
    async with client.log(TOPIC).read() as reader:
        return len([record async for batch in reader for record in batch if record.key == ID.encode()])
