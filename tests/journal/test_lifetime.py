"""A journal begins where its call says, and ends with its connection, like everything that waits for it."""

import asyncio
from pathlib import Path

import pytest

import cordwood
from cordwood import Event, Journal, Timeout, Unavailable
from cordwood.simulation.faulty_log import FaultyEngine
from cordwood.simulation.memory import MemoryEngine, MemoryStore
from tests.support.journal.handles import handle


async def test_a_journal_that_was_dropped_closes_with_its_connection(tmp_path: Path) -> None:
    async with cordwood.connect(tmp_path) as cw:
        await cw.journal("orders").append("order-1", [Event.text("a")])
        assert len(asyncio.all_tasks()) > 1
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_closed_journal_is_not_kept_by_its_connection(tmp_path: Path) -> None:
    async with cordwood.connect(tmp_path) as cw:
        for _ in range(3):
            async with cw.journal("orders") as journal:
                await journal.append("order-1", [Event.text("a")])
        assert not cw._journals


async def test_a_folder_may_have_a_percent_sign_in_its_name(tmp_path: Path) -> None:
    async with cordwood.connect(tmp_path / "100%41") as cw:
        await cw.journal("orders").append("order-1", [Event.text("a")])
    assert (tmp_path / "100%41" / "store.db").exists()


async def test_a_relative_store_is_in_the_folder_of_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with cordwood.connect("file:data") as cw:
        journal = cw.journal("orders", store="sqlite:other.db")
        monkeypatch.chdir(tmp_path / "data")
        await journal.append("order-1", [Event.text("a")])
    assert (tmp_path / "other.db").exists()


async def test_a_follower_that_waits_raises_when_its_connection_closes(tmp_path: Path) -> None:
    async with cordwood.connect(tmp_path) as cw:
        journal = cw.journal("orders")
        await journal.append("order-1", [Event.text("a")])
        reader = journal.follow("order-1")
        await anext(reader)
        waiting = asyncio.ensure_future(anext(reader))
        await asyncio.sleep(0)
    with pytest.raises(Unavailable) as closed:
        await waiting
    assert closed.value.reason == "closed"
    await reader.close()


async def test_a_journal_closes_though_the_log_never_answers(tmp_path: Path) -> None:
    engine = FaultyEngine(MemoryEngine(MemoryStore()), seed=1, odds=1, faults=["lost"], part="orders")
    journal = handle(engine, tmp_path / "store.db", fence="mark")
    with pytest.raises(Timeout):
        await journal.pointer("order-1", timeout=0.1)
    async with asyncio.timeout(30):
        await journal.close()


async def read_ids(journal: Journal) -> list[str]:
    return [id async for id in journal.ids()]


async def read_numbers(journal: Journal) -> list[int]:
    return [event.seq_nr async for event in journal.read("order-1")]


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("turns", range(0, 40, 2))
async def test_a_close_ends_calls_with_unavailable(turns: int, opened: bool, tmp_path: Path) -> None:
    journal = handle(MemoryEngine(MemoryStore()), tmp_path / "store.db")
    if opened:
        await journal.append("order-2", [Event.text("a")])
    calls = [
        asyncio.ensure_future(call)
        for call in (
            journal.pointer("order-1"),
            journal.append("order-1", [Event.text("a")]),
            journal.delete("order-1", through=1),
            journal.catch_up(),
            read_ids(journal),
            read_numbers(journal),
        )
    ]
    for _ in range(turns):
        await asyncio.sleep(0.0002)
    await journal.close()
    async with asyncio.timeout(30):
        results = await asyncio.gather(*calls, return_exceptions=True)
    failed = [result for result in results if isinstance(result, BaseException)]
    assert all(isinstance(error, Unavailable) and error.reason == "closed" for error in failed), failed


async def test_a_close_ends_appends_that_wait_for_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cordwood.journal.appender.PENDING_BYTES_MAX", 500)
    journal = handle(MemoryEngine(MemoryStore()), tmp_path / "store.db", timeout=600)
    await journal.append("order-1", [Event.text("a")])
    calls = [asyncio.ensure_future(journal.append("order-1", [Event.text("a" * 200)])) for _ in range(8)]
    await asyncio.sleep(0)
    await journal.close()
    async with asyncio.timeout(30):
        results = await asyncio.gather(*calls, return_exceptions=True)
    failed = [result for result in results if isinstance(result, BaseException)]
    assert failed
    assert all(isinstance(error, Unavailable) and error.reason == "closed" for error in failed), failed
