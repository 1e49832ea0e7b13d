"""Following a journal: stored, unreplicated and new events without a gap, each once, after its ack."""

import asyncio
import gc
import tracemalloc
from collections.abc import Awaitable
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar

import pytest

from cordwood import Batch, Event, InvalidInput, Journal, Trimmed, Unavailable
from cordwood.journal import FollowReader
from cordwood.journal.action import Append, Delete
from cordwood.journal.header import encode_header
from cordwood.journal.value import encode_value
from tests.support.journal.journals import TOPIC, Journals, append, texts
from tests.support.journal.scala_peer import ScalaPeer

T = TypeVar("T")


async def soon(call: Awaitable[T]) -> T:
    """The result, which comes at once unless the code is wrong."""
    async with asyncio.timeout(5):
        return await call


async def take(reader: FollowReader, count: int) -> list[str]:
    """The next events, whose numbers must follow each other."""
    events = [await soon(anext(reader)) for _ in range(count)]
    assert [event.seq_nr for event in events] == list(range(events[0].seq_nr, events[0].seq_nr + count))
    return [event.payload for event in events]


async def waiting(journal: Journal, reader: FollowReader) -> "asyncio.Task[object]":
    """A step that waits for the next event."""
    step = asyncio.ensure_future(anext(reader))
    for _ in range(3):
        # It looks at the same things, one after the other: the step has looked when this has.
        await journal.pointer("another")
        assert not step.done(), step
    return step


async def cancel(step: "asyncio.Task[object]") -> None:
    step.cancel()
    with suppress(asyncio.CancelledError):
        await step


async def test_stored_unreplicated_and_new_events_come_once(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", "1", "2")
    await journal.catch_up()
    await append(journal, "A", "3")
    await append(journal, "B", "noise")
    async with journal.follow("A") as reader:
        assert await take(reader, 3) == ["1", "2", "3"]
        step = await waiting(journal, reader)
        await append(journal, "A", "4", "5")
        event = await soon(step)
        assert getattr(event, "payload", None) == "4"
        assert await take(reader, 1) == ["5"]
        await journal.catch_up()
        await append(journal, "A", "6")
        await journal.catch_up()
        assert await take(reader, 1) == ["6"]


@pytest.mark.parametrize("start", [1, 3, 4])
async def test_a_follower_begins_at_its_start(journals: Journals, start: int) -> None:
    journal = await journals.open()
    await append(journal, "A", "1", "2", "3")
    async with journal.follow("A", start=start) as reader:
        if start <= 3:
            assert await take(reader, 4 - start) == ["1", "2", "3"][start - 1 :]
        step = await waiting(journal, reader)
        await append(journal, "A", "4")
        assert getattr(await soon(step), "seq_nr", None) == 4


@pytest.mark.parametrize("key", ["A", "none"])
async def test_a_start_beyond_the_end_names_the_end(journals: Journals, key: str) -> None:
    journal = await journals.open()
    await append(journal, "A", "1", "2")
    end = 2 if key == "A" else 0
    async with journal.follow(key, start=end + 2) as reader:
        with pytest.raises(InvalidInput, match=f"ends at {end}, and start is {end + 2}"):
            await soon(anext(reader))


async def test_a_follower_waits_for_a_journal_that_does_not_exist(journals: Journals) -> None:
    journal = await journals.open()
    async with journal.follow("A") as reader:
        step = await waiting(journal, reader)
        await append(journal, "A", "1")
        assert getattr(await soon(step), "seq_nr", None) == 1


@pytest.mark.parametrize("replicate", [False, True])
async def test_events_of_another_writer_reach_the_follower(journals: Journals, replicate: bool) -> None:
    # Its replicator may be faster than its tail reader: then the head never takes these records.
    journal = await journals.open(replicate=replicate)
    other = await journals.open()
    async with journal.follow("A") as reader:
        for number in range(1, 30):
            await append(other, "A", f"{number}")
            assert await take(reader, 1) == [f"{number}"]


async def test_a_follower_works_while_the_replicator_passes_it(journals: Journals) -> None:
    journal = await journals.open(replicate=True)
    other = await journals.open()
    async with journal.follow("A") as reader:
        step = await waiting(journal, reader)
        for number in range(1, 201):
            await append(other, "A", f"{number}")
        assert getattr(await soon(step), "seq_nr", None) == 1
        assert await take(reader, 199) == [f"{number}" for number in range(2, 201)]


async def test_a_read_only_follower_gets_new_events(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", "1")
    watcher = await journals.open(read_only=True)
    async with watcher.follow("A") as reader:
        assert await take(reader, 1) == ["1"]
        await append(journal, "A", "2")
        assert await take(reader, 1) == ["2"]


@pytest.mark.parametrize("replicate", [False, True])
async def test_a_purge_ends_the_follower(journals: Journals, replicate: bool) -> None:
    journal = await journals.open()
    await append(journal, "A", "1")
    async with journal.follow("A") as reader:
        assert await take(reader, 1) == ["1"]
        step = await waiting(journal, reader)
        await journal.purge("A")
        if replicate:
            await journal.catch_up()
        with pytest.raises(StopAsyncIteration):
            await soon(step)
        await append(journal, "A", "new")
        with pytest.raises(StopAsyncIteration):
            await soon(anext(reader))


@pytest.mark.parametrize("replicate", [False, True])
async def test_no_event_of_a_new_life_reaches_the_follower(journals: Journals, replicate: bool) -> None:
    journal = await journals.open()
    await append(journal, "A", "1", "2")
    async with journal.follow("A") as reader:
        assert await take(reader, 2) == ["1", "2"]
        await journal.purge("A")
        await append(journal, "A", "new 1", "new 2", "new 3", "new 4")
        if replicate:
            await journal.catch_up()
        with pytest.raises(StopAsyncIteration):
            await soon(anext(reader))


async def test_a_purge_of_a_foreign_delete_ends_the_follower(journals: Journals) -> None:
    journal = await journals.open(single_writer=True)
    await journal.pointer("A")
    peer = ScalaPeer(await journals.connect())
    await peer.delete("A", 3)
    async with journal.follow("A") as reader:
        step = await waiting(journal, reader)
        await peer.purge("A")
        with pytest.raises(StopAsyncIteration):
            await soon(step)


@pytest.mark.parametrize("replicate", [False, True])
async def test_a_delete_beyond_the_place_raises_trimmed(journals: Journals, replicate: bool) -> None:
    journal = await journals.open()
    await append(journal, "A", "1", "2")
    async with journal.follow("A") as reader:
        assert await take(reader, 2) == ["1", "2"]
        await append(journal, "A", "3", "4", "5")
        await journal.delete("A", through=4)
        if replicate:
            await journal.catch_up()
        with pytest.raises(Trimmed, match="deleted through 4, and this reader is at 3") as caught:
            await soon(anext(reader))
        assert caught.value.start == 5
    async with journal.follow("A", start=caught.value.start) as reader:
        assert await take(reader, 1) == ["5"]


async def test_a_delete_below_the_place_is_not_noticed(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", "1", "2")
    async with journal.follow("A") as reader:
        assert await take(reader, 2) == ["1", "2"]
        step = await waiting(journal, reader)
        await journal.delete("A", through=2)
        await append(journal, "A", "3")
        assert getattr(await soon(step), "seq_nr", None) == 3


async def test_a_delete_in_an_empty_journal_raises_trimmed(journals: Journals) -> None:
    # The follower waits at 1 before there is a journal: it must not step over 1 and 2 in silence.
    journal = await journals.open()
    async with journal.follow("A") as reader:
        step = await waiting(journal, reader)
        payload_type, value = encode_value(texts("1", "2", "3"), 1, None, None)
        actions = [encode_header(Append(1, 3, payload_type, id="x", expected=0)), encode_header(Delete(2))]
        headers = [[("journal.action", header)] for header in actions]
        client = await journals.connect()
        await client.log(TOPIC).append(Batch.of([value, None], keys=[b"A", b"A"], headers=headers))
        with pytest.raises(Trimmed) as caught:
            await soon(step)
        assert caught.value.start == 3


async def test_events_that_are_deleted_at_the_first_look_are_left_out(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", "1", "2", "3")
    await journal.delete("A", through=2)
    async with journal.follow("A") as reader:
        assert await take(reader, 1) == ["3"]


@pytest.mark.parametrize("lead", [0, 30])
async def test_a_purge_while_events_are_read_ends_the_follower(journals: Journals, lead: int) -> None:
    # Several pages: the purge and a new life come between two of them.
    journal = await journals.open()
    for _ in range(6):
        await journal.append("A", [Event.binary(bytes(100_000)) for _ in range(10)])
    await journal.catch_up()
    async with journal.follow("A") as reader:
        for _ in range(1 + lead):
            await soon(anext(reader))
        await journal.purge("A")
        await journal.append("A", [Event.text("new") for _ in range(60)])
        await journal.catch_up()
        kinds = [event.kind async for event in reader]
    assert "text" not in kinds


async def test_two_followers_get_all_events(journals: Journals) -> None:
    journal = await journals.open(replicate=True)

    async def follow(key: str) -> list[int]:
        async with journal.follow(key) as reader:
            return [(await soon(anext(reader))).seq_nr for _ in range(50)]

    first, second, third = (asyncio.ensure_future(follow(key)) for key in ("A", "A", "B"))
    for number in range(50):
        await asyncio.gather(append(journal, "A", f"{number}"), append(journal, "B", f"{number}"))
    assert await first == await second == await third == list(range(1, 51))


async def test_a_slow_follower_holds_no_events(journals: Journals) -> None:
    journal = await journals.open(head_bytes_max=1 << 20)
    value = bytes(200_000)
    async with journal.follow("A") as reader:
        await journal.append("A", [Event.binary(value)])
        await soon(anext(reader))
        tracemalloc.start()
        try:
            for _ in range(250):
                await journal.append("A", [Event.binary(value)])
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert held < 24 << 20  # of the 50 MB that it has not read; the log has buffers of its own
        assert journal.stats().head_bytes <= 1 << 20
        for number in range(2, 252):
            event = await soon(anext(reader))
            assert (event.seq_nr, len(event.raw)) == (number, len(value))


@pytest.mark.parametrize("lead", [0, 1, 150])
async def test_a_slow_follower_continues_in_the_store_after_a_trim(journals: Journals, lead: int) -> None:
    journal = await journals.open(head_bytes_max=0, keep=timedelta(0), partitions=2)
    other = await journals.open(partitions=2)
    async with journal.follow("A") as reader, journal.follow("B") as beside:
        step = await waiting(journal, beside)
        for number in range(1, 301):
            await append(other, "A", f"{number}")
        if lead:
            await take(reader, lead)
        await other.catch_up()
        trimmer = (await journal._open()).trimmer
        assert trimmer is not None
        await trimmer.trim()
        await append(other, "A", "301")
        assert await take(reader, 301 - lead) == [f"{number}" for number in range(lead + 1, 302)]
        await append(other, "B", "1")
        assert getattr(await soon(step), "payload", None) == "1"


async def test_a_cancelled_step_loses_no_event(journals: Journals) -> None:
    journal = await journals.open()
    other = await journals.open()
    async with journal.follow("A") as reader:
        for number in range(1, 20):
            step: asyncio.Task[object] = asyncio.ensure_future(anext(reader))
            for _ in range(number % 5):
                await asyncio.sleep(0)
            await cancel(step)
            await append(other, "A", f"{number}")
            if step.cancelled():
                assert await take(reader, 1) == [f"{number}"]


async def test_closing_the_reader_ends_a_step_that_waits(journals: Journals) -> None:
    journal = await journals.open()
    reader = journal.follow("A")
    step = await waiting(journal, reader)
    await reader.close()
    with pytest.raises(StopAsyncIteration):
        await soon(step)


async def test_a_follower_that_a_break_leaves_listens_no_more(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", "1")
    tail = (await journal._open()).tail
    listeners = len(tail.on_fed), len(tail.on_passed), len(tail.on_failed)
    for _ in range(20):
        async for event in journal.follow("A"):
            assert event.payload == "1"
            break
    kept = journal.follow("A")
    assert await take(kept, 1) == ["1"]
    gc.collect()
    await asyncio.sleep(0)
    assert (len(tail.on_fed), len(tail.on_passed), len(tail.on_failed)) == tuple(count + 1 for count in listeners)
    assert tail._held == {0: 1}
    step: asyncio.Task[object] = asyncio.ensure_future(anext(kept))
    await append(journal, "A", "2")
    await soon(step)
    await kept.close()
    await kept.close()
    assert tail._held == {}


async def test_closing_the_journal_ends_a_step_that_waits(journals: Journals) -> None:
    journal = await journals.open()
    reader = journal.follow("A")
    step = await waiting(journal, reader)
    await journal.close()
    with pytest.raises(Unavailable, match="closed") as caught:
        await soon(step)
    assert caught.value.reason == "closed"


async def test_a_topic_that_is_deleted_ends_a_step_that_waits(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", "1")
    async with journal.follow("A") as reader:
        await take(reader, 1)
        step = await waiting(journal, reader)
        await (await journals.connect()).delete_topic(TOPIC)
        with pytest.raises(Exception, match=TOPIC):
            await soon(step)
