"""A topic that Scala programs share, with single_writer=True: both read and write the same journals (R20)."""

import asyncio
import json
import random
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cordwood import Conflict, Event, InvalidInput, Journal, Unavailable
from cordwood.journal.tail import Tail
from cordwood.simulation.faulty_log import FaultyEngine
from cordwood.store import EventRow, HeadRow, KeyChanges, PartitionChanges
from tests.support.journal.journals import TOPIC, Journals, append, read, read_texts
from tests.support.journal.scala_peer import ScalaPeer
from tests.support.journal.stored_rows import head_row, places
from tests.support.store.keyspaces import clean as keyspaces_clean

pytestmark = pytest.mark.kinds("folder and SQLite", "Kafka and SQLite", "folder and Cassandra")


async def shared(journals: Journals, **options: Any) -> tuple[Journal, ScalaPeer]:
    journal = await journals.open(single_writer=True, **options)
    await journal.pointer("none")
    return journal, ScalaPeer(await journals.connect())


async def test_a_single_writer_moves_between_two_processes(journals: Journals) -> None:
    journal, peer = await shared(journals)
    assert (await append(journal, "A", "1", "2")).seq_nrs == range(1, 3)
    assert (await append(journal, "A", "3", "4", "5")).seq_nrs == range(3, 6)
    assert await peer.pointer("A") == 5
    await peer.append("A", [6, 7, 8])
    # From memory it would be 6: acked, and nothing of it would count.
    assert (await append(journal, "A", "9")).seq_nrs == range(9, 10)
    expected = {n: f"{n}" for n in (1, 2, 3, 4, 5, 9)} | {n: f"scala {n}" for n in (6, 7, 8)}
    assert await read_texts(journal, "A") == expected
    assert await peer.read("A") == expected
    await journal.catch_up()
    assert await read_texts(journal, "A") == expected


@pytest.mark.parametrize("fence", ["mark", "watermark"])
async def test_the_writer_moves_at_every_append(journals: Journals, fence: str) -> None:
    journal, peer = await shared(journals, fence=fence)
    for number in range(1, 20, 2):
        assert (await append(journal, "A", f"{number}")).seq_nrs == range(number, number + 1)
        await peer.append("A", [number + 1])
    assert list(await read_texts(journal, "A")) == list(range(1, 21))
    assert list(await peer.read("A")) == list(range(1, 21))


async def test_an_append_that_cannot_be_checked_has_an_unknown_outcome(
    journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, _ = await shared(journals)
    await append(journal, "A", "1")

    async def fail(self: Tail, partition: int, offset: int) -> None:
        raise Unavailable("the tail reader failed", reason="failed")

    with monkeypatch.context() as failing, pytest.raises(Unavailable) as caught:
        failing.setattr(Tail, "reach", fail)
        await append(journal, "A", "2")
    assert caught.value.outcome == "unknown"
    assert await journal.pointer("A") == 2


async def test_scala_reads_what_we_write(journals: Journals) -> None:
    journal, peer = await shared(journals)
    events = [Event.json({"n": 1.5}), Event.text("text é"), Event.empty()]
    await journal.append("A", events, metadata={"m": 1}, headers={"h": "x"}, expire_after=timedelta(days=1))
    await journal.append("A", [Event.binary(b"\0\xff"), Event.text("beside", tags={"t1", "t2"}), Event.json([1])])
    assert await peer.read("A") == {1: {"n": 1.5}, 2: "text é", 3: None, 4: "AP8=", 5: "beside", 6: [1]}
    assert await peer.pointer("A") == 6
    await journal.delete("A", through=4)
    assert list(await peer.read("A")) == [5, 6]
    await journal.purge("A")
    assert await peer.read("A") == {}
    assert await peer.pointer("A") is None


async def test_our_records_have_the_fields_of_the_library_alone(journals: Journals) -> None:
    journal, _ = await shared(journals, fence="mark")
    await append(journal, "A", "1")
    async with (await journals.connect()).log(TOPIC).read() as reader:
        records = [record async for batch in reader for record in batch]
    (header,) = [record.headers[0][1] or b"" for record in records if record.value is not None]
    assert header.startswith(b'{"append":{"range":{"from":1,"to":1},"origin":')
    assert header.endswith(b',"payloadType":"json","metadata":{}}}')


async def test_we_read_what_scala_writes(journals: Journals) -> None:
    journal, peer = await shared(journals)
    await peer.append("A", [1, 2], expire_after="1 day")
    await peer.append("A", [5, 6])
    await peer.mark("A")
    await peer.delete("A", 1)
    expected = {2: "scala 2", 5: "scala 5", 6: "scala 6"}
    for replicate in (False, True):
        if replicate:
            await journal.catch_up()
        assert await read_texts(journal, "A") == expected == await peer.read("A")
        assert await journal.pointer("A") == 6 == await peer.pointer("A")
        (event, *_) = await read(journal, "A")
        assert (event.origin, event.version, event.append_id) == ("scala-host", "10.1.0", None)


@pytest.mark.parametrize("seed", range(4))
async def test_both_read_the_same_after_any_history(journals: Journals, seed: int) -> None:
    chance = random.Random(seed)
    journal, peer = await shared(journals, segment_size=3)
    for _ in range(40):
        key = chance.choice("AB")
        last = await journal.pointer(key) or 0
        match chance.randrange(9):
            case 0 | 1 | 2:
                await append(journal, key, *("x" for _ in range(chance.randint(1, 3))))
            case 3 | 4:
                await peer.append(key, range(last + 1, last + 1 + chance.randint(1, 3)))
            case 5 if last:
                through = chance.randint(1, last)
                await (journal.delete(key, through=through) if chance.random() < 0.5 else peer.delete(key, through))
            case 6 if chance.random() < 0.3:
                await (journal.purge(key) if chance.random() < 0.5 else peer.purge(key))
            case 7:
                await journal.catch_up()
            case _:
                await peer.mark(key)
    for key in "AB":
        for handle in (journal, await journals.open(single_writer=True, segment_size=3)):
            assert await read_texts(handle, key) == await peer.read(key)
            assert await handle.pointer(key) == await peer.pointer(key)
    await journal.catch_up()
    for key in "AB":
        assert await read_texts(journal, key) == await peer.read(key)


async def test_the_caller_may_give_the_first_number(journals: Journals) -> None:
    journal, peer = await shared(journals)
    assert (await append(journal, "A", "3", "4", seq_nr=3)).seq_nrs == range(3, 5)
    assert (await append(journal, "A", "9", seq_nr=9)).seq_nrs == range(9, 10)
    for number in (1, 4, 9):
        with pytest.raises(Conflict, match=f"is at 9, and seq_nr is {number}: use 10") as caught:
            await append(journal, "A", "late", seq_nr=number)
        assert caught.value.actual == 9
    await peer.append("A", [10])
    with pytest.raises(Conflict, match="is at 10"):
        await append(journal, "A", "late", seq_nr=10)
    assert await read_texts(journal, "A") == {3: "3", 4: "4", 9: "9", 10: "scala 10"}
    await journal.catch_up()
    row = head_row(journals, "A")
    assert row is not None
    assert (row["seq_nr"], row["delete_to"]) == (10, 2)


@pytest.mark.parametrize("replicate", [False, True])
async def test_an_append_that_a_foreign_one_overtook_is_no_ack(journals: Journals, replicate: bool) -> None:
    """Two programs break the contract: whoever is acked has written what a reader finds."""
    journal, peer = await shared(journals, replicate=replicate)
    for number in range(1, 41):
        ours, theirs = await asyncio.gather(
            append(journal, "A", "ours", seq_nr=number), peer.append("A", [number]), return_exceptions=True
        )
        assert not isinstance(theirs, BaseException)
        event = (await read(journal, "A", number, number + 1))[0]
        if isinstance(ours, BaseException):
            assert isinstance(ours, Conflict), ours
            assert event.payload == f"scala {number}"
        else:
            assert (event.payload, event.offset) == ("ours", ours.offset)
    assert await journal.pointer("A") == 40


async def test_one_append_of_a_key_is_under_way(journals: Journals) -> None:
    journal, _ = await shared(journals)
    done = await asyncio.gather(*(append(journal, "A", f"{n}") for n in range(20)))
    assert sorted(one.seq_nrs[0] for one in done) == list(range(1, 21))


async def test_an_append_after_a_cancelled_one_looks_for_it(journals: Journals) -> None:
    journal, peer = await shared(journals)
    acked = []
    for turns in range(0, 60, 2):
        step = asyncio.ensure_future(append(journal, "A", f"cancelled {turns}"))
        for _ in range(turns):
            await asyncio.sleep(0)
        step.cancel()
        await asyncio.wait([step])
        acked.append((await append(journal, "A", f"acked {turns}")).seq_nrs[0])
    found = await read_texts(journal, "A")
    assert [found[number] for number in acked] == [f"acked {turns}" for turns in range(0, 60, 2)]
    assert list(found) == list(range(1, len(found) + 1))
    assert found == await peer.read("A")


@pytest.mark.parametrize("replicate", [False, True])
@pytest.mark.parametrize("fault", ["lost", "lost, but written", "twice"])
async def test_a_repeated_append_counts_once_and_is_acked(journals: Journals, fault: str, replicate: bool) -> None:
    client = await journals.connect()
    engine = FaultyEngine(client, seed=5, odds=0.5, faults=[fault], part=TOPIC)
    journal = await journals.open(client=client, engine=engine, single_writer=True, replicate=replicate)
    for number in range(1, 16):
        done = await append(journal, "A", f"{number}")
        assert done.seq_nrs == range(number, number + 1)
    assert sum(len(log.made) for log in engine.logs) > 0
    expected = {number: f"{number}" for number in range(1, 16)}
    assert await read_texts(journal, "A") == expected
    assert await ScalaPeer(client).read("A") == expected


# --- the Scala library's replicator


async def replicated_by_scala(journals: Journals, peer: ScalaPeer) -> None:
    """Two journals in the log; the store has the first, as the other replicator wrote it by its clock."""
    await peer.append("A", [1, 2])
    await peer.append("B", [1])
    life = str(uuid.uuid4())
    store = await journals.store()
    head = HeadRow(0, 0, 10_000, 2, 1, 1, life=life, origin="scala")
    rows = [EventRow(n, 1, 0, 0, "scala", "1.0", life, None, "text", f"scala {n}") for n in (1, 2)]
    # Nothing binds the topic here, so that the write times are those of the clock.
    assert await store.write(PartitionChanges(TOPIC, 0, None, 0, [KeyChanges("A", head, rows, reached=2)]))


async def test_a_topic_is_taken_over_from_the_other_replicator(journals: Journals) -> None:
    client = await journals.connect()
    await client.create_topic(TOPIC, partitions=1)
    peer = ScalaPeer(client)
    await replicated_by_scala(journals, peer)
    journal = await journals.open(single_writer=True)
    assert await read_texts(journal, "A") == {1: "scala 1", 2: "scala 2"}
    assert await read_texts(journal, "B") == {1: "scala 1"}
    store = await journals.store()
    before = await store.binding(TOPIC)
    assert before is not None
    assert before.replicator == "scala"
    with pytest.raises(Conflict, match=r"catch_up\(adopt=True\)"):
        await journal.catch_up()
    for call in (
        journal.load_snapshot("A"),
        journal.save_snapshot("A", 1, b"x"),
        journal.delete_snapshots("A", through=1),
    ):
        with pytest.raises(InvalidInput, match="no snapshots"):
            await call
    await journal.catch_up(adopt=True)
    after = await store.binding(TOPIC)
    assert after is not None
    assert (after.replicator, after.base_us > before.base_us) == ("cordwood", True)
    assert (await store.heads(TOPIC, ["B"]))["B"].seq_nr == 1
    # Its rows go with a Purge, whose write time is above theirs.
    await peer.purge("A")
    await journal.catch_up(adopt=True)
    assert head_row(journals, "A") is None
    assert places(journals, "A") == []
    assert await read_texts(journal, "B") == {1: "scala 1"}


async def test_a_background_replicator_refuses_the_topic_until_it_is_taken_over(journals: Journals) -> None:
    client = await journals.connect()
    await client.create_topic(TOPIC, partitions=1)
    await replicated_by_scala(journals, ScalaPeer(client))
    journal = await journals.open(single_writer=True, replicate=True)
    for _ in range(2):
        with pytest.raises(Conflict, match="replicate=False"):
            await journal.pointer("A")
    await journal.catch_up(adopt=True)
    assert await journal.pointer("A") == 2
    done = await append(journal, "A", "3")
    await journal.wait_replicated(done)


@pytest.mark.kinds("folder and Cassandra")
async def test_rows_of_the_library_are_read_and_written_as_they_are(journals: Journals, golden: Path) -> None:
    lines = (golden / "generated" / "cassandra_rows.txt").read_text(encoding="utf-8").splitlines()
    recorded = [line.split(" ", 2)[1:] for line in lines if line.startswith("ROW ")]
    link, keyspace = journals.kind.link, "journal"
    assert link is not None
    for table, columns in recorded:
        if table != "setting":
            link.run(f"INSERT INTO {keyspace}.{table} JSON %s", (columns,))
    store = await journals.store()
    found: dict[str, list[tuple[str, HeadRow, list[EventRow]]]] = {}
    for topic in {json.loads(columns)["topic"] for table, columns in recorded if table == "pointer2"}:
        (part,) = await store.parts(topic, 1)
        rows = [row async for page in store.scan_events(topic, part) for row in page]
        heads = [row async for page in store.scan_heads(topic, part) for row in page]
        assert await store.heads(topic, [id for id, _ in heads]) == dict(heads)
        found[topic] = [(id, head, [row for of, row in rows if of == id]) for id, head in heads]
        assert sum(len(of) for _, _, of in found[topic]) == len(rows), "every row belongs to a journal"
    # Written by us they are the same, byte for byte.
    keyspaces_clean(link, keyspace)
    for topic, keys in found.items():
        changes = [KeyChanges(id, head, rows) for id, head, rows in keys]
        assert await store.write(PartitionChanges(topic, 0, None, 0, changes))
    for table in ("journal", "metajournal"):
        written = {text for (text,) in link.run(f"SELECT JSON * FROM {keyspace}.{table}")}
        assert written == {columns for of, columns in recorded if of == table}
