"""A journal begins where its call says, and ends with its connection, like everything that waits for it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import cordwood
from cordwood import Event, Journal, Timeout, TopicInfo, Unavailable
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


CALLS: dict[str, Callable[[Journal], Awaitable[object]]] = {
    "append": lambda journal: journal.append("order-1", [Event.text("a")]),
    "pointer": lambda journal: journal.pointer("order-1"),
    "read": read_numbers,
    "recover": lambda journal: recovered(journal),
    "ids": read_ids,
    "explain": lambda journal: explained(journal),
    "follow": lambda journal: anext(journal.follow("order-1")),
}


async def recovered(journal: Journal) -> list[int]:
    async with journal.recover("order-1") as found:
        return [event.seq_nr async for event in found]


async def explained(journal: Journal) -> list[int]:
    return [action.offset async for action in journal.explain("order-1")]


@pytest.mark.parametrize("name", CALLS)
async def test_every_call_ends_though_the_log_never_answers(tmp_path: Path, name: str) -> None:
    engine = FaultyEngine(MemoryEngine(MemoryStore()), seed=1, odds=0, faults=["lost"], part="orders")
    journal = handle(engine, tmp_path / "store.db", fence="mark", timeout=0.5)
    await journal.append("order-1", [Event.text("a")])
    for log in engine.logs:
        log.odds = 1
    async with asyncio.timeout(30):
        with pytest.raises(Timeout):
            await CALLS[name](journal)
    await journal.close()


class SlowToOpen(MemoryEngine):
    """An engine that says nothing of a topic until it is let go."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.go = asyncio.Event()

    async def topic(self, name: str, *, timeout: float) -> TopicInfo:
        await self.go.wait()
        return await super().topic(name, timeout=timeout)


TIMED: dict[str, Callable[[Journal], Awaitable[object]]] = {
    "append": lambda journal: journal.append("order-1", [Event.text("a")], timeout=0.05),
    "delete": lambda journal: journal.delete("order-1", through=1, timeout=0.05),
    "purge": lambda journal: journal.purge("order-1", timeout=0.05),
    "pointer": lambda journal: journal.pointer("order-1", timeout=0.05),
    "save_snapshot": lambda journal: journal.save_snapshot("order-1", 1, b"", timeout=0.05),
    "load_snapshot": lambda journal: journal.load_snapshot("order-1", timeout=0.05),
    "dead_letters": lambda journal: journal.dead_letters(timeout=0.05),
}


@pytest.mark.parametrize("name", TIMED)
async def test_the_time_of_a_call_includes_the_opening(tmp_path: Path, name: str) -> None:
    engine = SlowToOpen()
    journal = handle(engine, tmp_path / "store.db")
    async with asyncio.timeout(20):
        with pytest.raises(Timeout):
            await TIMED[name](journal)
    engine.go.set()
    assert (await journal.append("order-1", [Event.text("a")])).seq_nrs == range(1, 2)
    await journal.close()


async def test_a_close_ends_an_append_whose_winner_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    journal, other = (handle(MemoryEngine(store), tmp_path / "store.db", timeout=600) for _ in range(2))
    await other.append("order-1", [Event.text("a")])
    await other.catch_up()  # the head does not have the winner
    looking = asyncio.Event()

    async def look_for_ever(*_: object) -> None:
        looking.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("cordwood.journal.appender.Appender._find_winner", look_for_ever)
    late = asyncio.ensure_future(journal.append("order-1", [Event.text("b")], expected=0))
    async with asyncio.timeout(30):
        await looking.wait()
        await journal.close()
        with pytest.raises(Unavailable) as closed:
            await late
    assert (closed.value.reason, closed.value.outcome) == ("closed", "unknown")
    await other.close()


async def test_a_close_that_is_cancelled_ends_all_the_same(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    journal = handle(MemoryEngine(MemoryStore()), tmp_path / "store.db", replicate=True)
    await journal.append("order-1", [Event.text("a")])
    closing = asyncio.ensure_future(journal.close())
    await asyncio.sleep(0)
    closing.cancel()
    async with asyncio.timeout(30):
        await journal.close()
    assert asyncio.all_tasks() == before
