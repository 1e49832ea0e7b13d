"""R26 and R41: the read fence, and the order in which a read looks at head and store."""

import asyncio
from collections.abc import Sequence

import pytest

from cordwood import Client, Corrupt, Event, Journal, StoredRecord
from cordwood.journal.fence import Fences
from tests.support.journal.journals import TOPIC, Journals, append, put, read_texts

FENCES = ("mark", "watermark")


async def marks(client: Client, topic: str = TOPIC) -> list[StoredRecord]:
    async with client.log(topic).read() as reader:
        records = [record async for batch in reader for record in batch]
    return [record for record in records if b'"mark"' in (record.headers[0][1] or b"")]


@pytest.mark.parametrize("fence", FENCES)
@pytest.mark.parametrize("replicate", [False, True])
async def test_a_read_sees_every_append_that_was_acked_before(journals: Journals, fence: str, replicate: bool) -> None:
    journal = await journals.open(fence=fence, replicate=replicate)
    other = await journals.open()
    for number in range(1, 16):
        await append(other, "A", f"{number}")
        assert await journal.pointer("A") == number
        assert len(await read_texts(journal, "A")) == number


@pytest.mark.parametrize("fence", FENCES)
async def test_a_read_sees_the_own_appends_of_the_journal(journals: Journals, fence: str) -> None:
    journal = await journals.open(fence=fence)
    for number in range(1, 11):
        await append(journal, "A", f"{number}")
        assert await journal.pointer("A") == number


async def test_a_watermark_includes_own_writes_of_a_deposed_leader(journals: Journals) -> None:
    # The leader says an old end: the own writes that were acked are above it.
    journal = await journals.open()
    await append(journal, "A", "1")
    parts = await journal._open()
    _, end = await parts.topic.log(0).bounds()

    async def no_mark(partition: int) -> int:
        raise AssertionError("a watermark writes no Mark")

    fences = Fences(parts.topic, "watermark", no_mark)
    assert await fences.take(0) == end
    fences.on_acked(0, end + 5)
    assert await fences.take(0) == end + 5
    fences.on_acked(0, end + 2)
    assert await fences.take(0) == end + 5


async def test_a_watermark_writes_nothing(journals: Journals) -> None:
    journal = await journals.open(fence="watermark")
    await append(journal, "A", "1")
    await asyncio.gather(*(read_texts(journal, "A") for _ in range(5)))
    assert await marks(await journals.connect()) == []


async def test_a_mark_has_no_key_so_that_no_later_read_parses_it(journals: Journals) -> None:
    journal = await journals.open(fence="mark")
    await append(journal, "A", "1")
    await read_texts(journal, "A")
    (mark,) = await marks(await journals.connect())
    assert (mark.key, mark.value) == (None, None)
    assert [action.kind async for action in journal.explain("A")] == ["append"]


async def test_reads_that_wait_share_the_next_mark(journals: Journals) -> None:
    journal = await journals.open(fence="mark")
    client = await journals.connect()
    await append(journal, "A", "1")
    await journal.pointer("A")
    before = len(await marks(client))
    found = await asyncio.gather(*(journal.pointer(key) for key in ["A", "B"] * 50))
    assert found == [1, None] * 50
    # A first read may take one alone; all that come meanwhile share the next.
    assert 1 <= len(await marks(client)) - before <= 2


async def test_reads_of_two_partitions_take_a_mark_each(journals: Journals) -> None:
    journal = await journals.open(fence="mark", partitions=2)
    client = await journals.connect()
    await asyncio.gather(*(append(journal, f"key-{n}", "1") for n in range(20)))
    await asyncio.gather(*(journal.pointer(f"key-{n}") for n in range(20)))
    for partition in range(2):
        async with client.log(TOPIC, partition).read() as reader:
            records = [record async for batch in reader for record in batch]
        assert 1 <= len([record for record in records if record.value is None]) <= 2


async def test_a_read_never_takes_a_mark_that_is_on_its_way(journals: Journals) -> None:
    # Its offset may be below an append that was acked before the read.
    journal = await journals.open()
    await append(journal, "A", "1")
    on_its_way: list[asyncio.Future[int]] = []

    async def send_mark(partition: int) -> int:
        on_its_way.append(asyncio.get_running_loop().create_future())
        return await on_its_way[-1]

    fences = Fences((await journal._open()).topic, "mark", send_mark)
    first = asyncio.ensure_future(fences.take(0))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(on_its_way) == 1
    later = [asyncio.ensure_future(fences.take(0)) for _ in range(10)]
    await asyncio.sleep(0)
    on_its_way[0].set_result(7)
    assert await first == 8
    await asyncio.sleep(0)
    assert not any(take.done() for take in later)
    assert len(on_its_way) == 2
    on_its_way[1].set_result(9)
    assert await asyncio.gather(*later) == [10] * 10


async def test_a_shared_mark_comes_after_every_read_that_shares_it(journals: Journals) -> None:
    # A read that begins after an ack must not take a fence from before it.
    journal = await journals.open(fence="mark")
    other = await journals.open()
    await append(journal, "A", "0")

    async def write_and_read(key: str) -> int | None:
        await append(other, key, "1")
        return await journal.pointer(key)

    assert await asyncio.gather(*(write_and_read(f"k{n}") for n in range(50))) == [1] * 50


async def test_a_mark_that_the_store_has_passed_needs_no_log(journals: Journals) -> None:
    journal = await journals.open(fence="mark", replicate=True)
    for number in range(1, 11):
        done = await append(journal, "A", f"{number}")
        await journal.wait_replicated(done)
        assert await journal.pointer("A") == number


@pytest.mark.parametrize("fence", FENCES)
async def test_the_store_moves_under_a_read(journals: Journals, fence: str) -> None:
    """R41: actions that are replicated between the looks at head and store are in one of them."""
    journal = await journals.open(fence=fence, replicate=True)
    other = await journals.open()
    wrong: list[Sequence[int]] = []
    stop = asyncio.Event()

    async def read() -> None:
        while not stop.is_set():
            least = acked
            numbers = list(await read_texts(journal, "A"))
            if numbers != list(range(1, len(numbers) + 1)) or len(numbers) < least:
                wrong.append(numbers)

    acked = 0
    readers = [asyncio.ensure_future(read()) for _ in range(4)]
    for _ in range(60):
        acked = (await append(other, "A", "x", "y")).seq_nrs[-1]
    stop.set()
    await asyncio.gather(*readers)
    assert wrong == []


async def test_a_purge_and_a_new_life_never_mix_with_the_old(journals: Journals) -> None:
    """R25: events of one read belong to one life."""
    journal = await journals.open(replicate=True)
    other = await journals.open()
    stop = asyncio.Event()
    mixed: list[set[str]] = []

    async def read(reader: Journal) -> None:
        while not stop.is_set():
            lives = set((await read_texts(reader, "A")).values())
            if len(lives) > 1:
                mixed.append(lives)

    readers = [asyncio.ensure_future(read(journal)) for _ in range(3)]
    for life in range(15):
        await other.append("A", [Event.text(f"life {life}")] * 5)
        await other.purge("A")
    stop.set()
    await asyncio.gather(*readers)
    assert mixed == []


async def test_every_id_comes_once_while_the_store_moves(journals: Journals) -> None:
    journal = await journals.open(replicate=True, partitions=2)
    await asyncio.gather(*(append(journal, f"key-{n}", "1") for n in range(50)))
    for number in range(50, 60):
        await append(journal, f"key-{number}", "1")
        found = [id async for id in journal.ids()]
        assert sorted(found) == sorted(f"key-{n}" for n in range(number + 1))
    await journal.purge("key-7")
    assert "key-7" not in [id async for id in journal.ids()]


@pytest.mark.parametrize("replicate", [False, True])
async def test_a_cancelled_step_of_a_read_loses_no_event(journals: Journals, replicate: bool) -> None:
    # Numbers with gaps, which a reader believes only after a second look at the row, and no values in the head.
    journal = await journals.open(single_writer=True, head_bytes_max=0)
    numbers = [*range(1, 6), 9, 10, *range(20, 25)]
    for number in numbers:
        await append(journal, "A", f"{number}", seq_nr=number)
    if replicate:
        await journal.catch_up()
    await append(journal, "A", "30", seq_nr=30)
    cut = 0
    for turns in range(0, 80, 2):
        async with journal.read("A") as reader:
            step = asyncio.ensure_future(anext(reader))
            for _ in range(turns):
                await asyncio.sleep(0)
            step.cancel()
            await asyncio.wait([step])
            found = [] if step.cancelled() else [step.result().seq_nr]
            cut += step.cancelled()
            found += [event.seq_nr async for event in reader]
        assert found == [*numbers, 30], turns
    assert cut > 1


async def test_a_step_after_an_error_skips_no_event(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", "1")
    client = await journals.connect()
    header = b'{"append":{"range":{"from":2,"to":2},"payloadType":"json","metadata":{}}}'
    await put(client, b"A", header, b"no events")
    await append(journal, "A", "3")
    async with journal.read("A", 2) as reader:
        for _ in range(3):
            with pytest.raises(Corrupt):
                await anext(reader)
