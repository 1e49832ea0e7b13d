"""Limits: appends under way, heads that nobody needs, partitions that nobody uses."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cordwood import Batch, Event, Unavailable
from cordwood.journal import appender, tail
from cordwood.journal.topic import JournalTopic
from cordwood.log import PartitionsReader
from cordwood.records import StoredBatch
from cordwood.simulation.memory import MemoryEngine, MemoryPartitionsReader, MemoryStore
from tests.support.journal.handles import handle
from tests.support.journal.journals import Journals, append, read_texts
from tests.support.kafka.waiting import until


async def test_appends_over_the_limit_wait_in_the_order_of_their_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appender, "PENDING_BYTES_MAX", 3_000)
    journal = handle(MemoryEngine(MemoryStore()), tmp_path / "store.db")
    await journal.append("key", [Event.empty()])
    calls = [
        asyncio.ensure_future(journal.append("key", [Event.binary(number.to_bytes(2) * 500)])) for number in range(30)
    ]
    await asyncio.sleep(0)
    parts = await journal._open()
    assert parts.appender._pending_bytes < 3_000 + 1_300
    calls[7].cancel()  # one that waits leaves the line, and holds nobody back
    await asyncio.wait(calls)
    found = [event.payload[:2] async for event in journal.read("key", start=2)]
    assert found == [number.to_bytes(2) for number in range(30) if number != 7]
    assert parts.appender._pending_bytes == 0
    await journal.close()


async def test_a_partition_that_only_we_append_to_is_no_longer_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "_POINTER_SECONDS", 0.01)
    monkeypatch.setattr(tail, "_OWN_ONLY_SECONDS", 0.05)
    store = MemoryStore()
    journal, other = (handle(MemoryEngine(store), tmp_path / "store.db") for _ in range(2))
    await journal.append("a", [Event.text("1")])
    await other.append("a", [Event.text("2")])
    await journal.append("a", [Event.text("3")])  # after a record of another one: the partition is followed
    followed = (await journal._open()).tail._followed
    await until(lambda: not followed)
    await other.append("a", [Event.text("4")])
    await journal.append("a", [Event.text("5")])
    assert [event.payload async for event in journal.read("a")] == ["1", "2", "3", "4", "5"]
    for each in (journal, other):
        await each.close()


class SlowReader:
    """Gives a batch only when it is let go."""

    def __init__(self, reader: PartitionsReader, go: asyncio.Event) -> None:
        self._reader = reader
        self._go = go

    def __aiter__(self) -> "SlowReader":
        return self

    async def __anext__(self) -> StoredBatch:
        batch = await anext(self._reader)
        await self._go.wait()
        return batch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


async def test_a_partition_is_read_until_an_own_record_is_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "_POINTER_SECONDS", 0.01)
    monkeypatch.setattr(tail, "_OWN_ONLY_SECONDS", 0.05)
    store, go = MemoryStore(), asyncio.Event()
    journal, other = (handle(MemoryEngine(store), tmp_path / "store.db") for _ in range(2))
    await journal.pointer("b")
    read = JournalTopic.read
    monkeypatch.setattr(JournalTopic, "read", lambda *args, **how: SlowReader(read(*args, **how), go))
    await other.append("a", [Event.text("1")])
    append = asyncio.ensure_future(journal.append("b", [Event.text("1")]))
    await asyncio.sleep(0.3)  # longer than a partition without foreign records is read
    go.set()
    async with asyncio.timeout(20):
        assert (await append).seq_nrs == range(1, 2)
    for each in (journal, other):
        await each.close()


async def test_a_partition_that_nobody_uses_leaves_and_joins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "_POINTER_SECONDS", 0.01)
    monkeypatch.setattr(tail, "_IDLE_SECONDS", 0.05)
    journal = handle(MemoryEngine(MemoryStore()), tmp_path / "store.db")
    await journal.append("a", [Event.text("1")])
    heads = (await journal._open()).tail.heads
    await until(lambda: not heads)
    await journal.append("a", [Event.text("2")])
    assert [event.payload async for event in journal.read("a")] == ["1", "2"]
    await journal.close()


async def test_an_append_keeps_the_reader_that_it_waits_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = MemoryPartitionsReader.step

    async def slow(reader: MemoryPartitionsReader) -> StoredBatch:
        await asyncio.sleep(0.3)  # as after the loss of a leader
        return await step(reader)

    monkeypatch.setattr(tail, "_POINTER_SECONDS", 0.01)
    monkeypatch.setattr(tail, "_OWN_ONLY_SECONDS", 0.05)
    monkeypatch.setattr(MemoryPartitionsReader, "step", slow)
    store = MemoryStore()
    journal, other = (handle(MemoryEngine(store), tmp_path / "store.db", timeout=5) for _ in range(2))
    await journal.append("a", [Event.text("1")])
    await other.append("a", [Event.text("2")])
    done = await journal.append("a", [Event.text("3")])  # the reader brings its verdict
    assert done.seq_nrs == range(3, 4)
    for each in (journal, other):
        await each.close()


@pytest.mark.parametrize("appends", [False, True])
async def test_a_tail_reader_that_follows_nothing_ends(
    journals: Journals, monkeypatch: pytest.MonkeyPatch, appends: bool
) -> None:
    monkeypatch.setattr(tail, "_POINTER_SECONDS", 0.01)
    monkeypatch.setattr(tail, "_OWN_ONLY_SECONDS", 0.05)
    monkeypatch.setattr(tail, "_IDLE_SECONDS", 0.2)
    journal, other = await journals.open(), await journals.open()
    await append(journal, "a", "1")
    await append(other, "a", "2")
    await append(journal, "a", "3")
    parts = await journal._open()
    task = parts.tail._reading
    assert task is not None
    number = 3
    async with asyncio.timeout(30):
        while not task.done():
            if appends:  # it stays in use, and knows its own records without the reader
                number += 1
                await append(journal, "a", str(number))
            await asyncio.sleep(0.1)  # longer than a foreign record keeps it reading
    await until(lambda: parts.tail._reader is None)
    await append(other, "a", str(number + 1))
    await append(journal, "a", str(number + 2))
    assert await read_texts(journal, "a") == {n: str(n) for n in range(1, number + 3)}
    assert await read_texts(other, "a") == {n: str(n) for n in range(1, number + 3)}


async def test_a_head_keeps_the_newest_records_within_its_limit(tmp_path: Path) -> None:
    engine = MemoryEngine(MemoryStore())
    journal = handle(engine, tmp_path / "store.db", head_bytes_max=50_000)
    for number in range(200):
        await journal.append(f"key-{number % 7}", [Event.binary(number.to_bytes(2) * 500)])
    parts = await journal._open()
    assert parts.tail.kept_bytes <= 50_000
    head = parts.tail.heads[0]
    assert head.record(0) is None
    assert head.record(199) is not None
    # Records that are not kept are looked up in the log.
    found = [event.payload async for event in journal.read("key-3")]
    assert found == [number.to_bytes(2) * 500 for number in range(3, 200, 7)]
    await journal.close()


async def test_foreign_records_of_other_kinds_disturb_no_journal(tmp_path: Path) -> None:
    engine = MemoryEngine(MemoryStore())
    journal = handle(engine, tmp_path / "store.db")
    await journal.append("a", [Event.text("1")])
    log = engine.log("orders", 0, timeout=30)
    await log.append(Batch.of([b"x", None, b"y"], keys=[b"a", None, b"\xff"], headers=[[("h", b"1")], [], []]))
    await journal.append("a", [Event.text("2")])
    await journal.catch_up()
    assert [event.payload async for event in journal.read("a")] == ["1", "2"]
    assert await journal.dead_letters() == []
    await journal.close()


async def test_short_timeouts_share_one_timer(tmp_path: Path) -> None:
    journal = handle(MemoryEngine(MemoryStore()), tmp_path / "store.db")
    await journal.append("key", [Event.empty()])
    loop = asyncio.get_running_loop()
    parts = await journal._open()
    for _ in range(50):
        await asyncio.gather(*(journal.append("key", [Event.empty()], timeout=0.2) for _ in range(8)))
    sweeps = [timer for timer in loop._scheduled if timer._callback == parts.appender._sweep]  # type: ignore[attr-defined]
    assert len([timer for timer in sweeps if not timer.cancelled()]) == 1
    await journal.close()


async def test_the_pause_of_the_replicator_begins_anew_after_a_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = handle(MemoryEngine(MemoryStore()), tmp_path / "store.db", replicate=True)
    done = await journal.append("key", [Event.empty()])
    await journal.wait_replicated(done)
    parts = await journal._open()
    store, pauses = parts.topic.store, set()
    write = store.write
    for _ in range(3):

        async def fail(changes: object) -> bool:
            monkeypatch.setattr(store, "write", write)
            raise Unavailable("locked for a moment", reason="busy")

        monkeypatch.setattr(store, "write", fail)
        done = await journal.append("key", [Event.empty()])
        await journal.wait_replicated(done)
        pauses.add(parts.replicator._pause)
    assert pauses == {0.1}
    await journal.close()
