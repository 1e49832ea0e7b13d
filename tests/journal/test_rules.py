"""Rules of the journal that one process can break: each test plays the history that needs the rule."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import cordwood
from cordwood import Client, Conflict, Event, Journal, Trimmed
from cordwood.journal.fence import Fences
from cordwood.journal.keep import LogTrimmer
from cordwood.journal.topic import system_ms

A = [Event.text("a")]


async def partition_of(journal: Journal, key: str) -> int:
    return (await anext(aiter(journal.explain(key)))).partition


async def test_r21_the_same_id_returns_the_first_result_also_after_replication(tmp_path: Path) -> None:
    async with cordwood.connect(tmp_path) as cw, cw.journal("orders") as journal:
        first = await journal.append("order-1", A, expected=0, id="command-1")
        await journal.append("order-1", A, expected=1, id="command-2")
        await journal.catch_up()
    async with cordwood.connect(tmp_path) as cw, cw.journal("orders") as journal:
        assert await journal.append("order-1", A, expected=0, id="command-1") == first
        with pytest.raises(Conflict) as lost:
            await journal.append("order-1", A, expected=0, id="command-3")
        assert (lost.value.actual, lost.value.winner) == (2, "command-1")
        assert await journal.pointer("order-1") == 2


async def test_r23_a_topic_that_was_created_again_is_another_one(tmp_path: Path) -> None:
    async with cordwood.connect(tmp_path) as cw:
        async with cw.journal("orders") as journal:
            await journal.append("order-1", A)
            await journal.catch_up()
        await cw.delete_topic("orders")
        async with cw.journal("orders") as journal:
            with pytest.raises(Conflict, match="the topic's id is"):
                await journal.append("order-1", A)


async def test_r23_a_store_that_is_ahead_of_its_log_is_refused(tmp_path: Path) -> None:
    async with cordwood.connect(tmp_path) as cw, cw.journal("orders", replicate=False) as journal:
        await journal.append("order-1", A)
        partition = await partition_of(journal, "order-1")
        assert journal._parts is not None
        journal._parts.tail.set_pointer(partition, 10_000)
        del journal._parts.tail.heads[partition]
        with pytest.raises(Conflict, match="deleted and created again"):
            await journal.pointer("order-1")


async def test_r26_the_watermark_includes_own_acked_appends() -> None:
    class Log:
        async def bounds(self) -> tuple[int, int]:
            return 0, 5  # the end that a deposed leader reports

    class Topic:
        def log(self, partition: int) -> Log:
            return Log()

        async def check_id(self) -> None:
            """It is the same topic."""

    async def send_mark(partition: int) -> int:
        raise AssertionError("a watermark writes nothing")

    topic: Any = Topic()
    fences = Fences(topic, "watermark", send_mark)
    assert await fences.take(0) == 5
    fences.on_acked(0, 8)
    assert (await fences.take(0), await fences.take(1)) == (8, 5)


async def unreplicated(cw: Client) -> Journal:
    """A journal with one partition and three records that no store has."""
    journal = cw.journal("orders", partitions=1, replicate=False)
    for key in ("order-1", "order-2", "order-3"):
        await journal.append(key, A)
    return journal


async def test_r42_no_trim_overtakes_the_replicator(tmp_path: Path) -> None:
    async with cordwood.connect(tmp_path) as cw:
        journal = await unreplicated(cw)
        assert journal._parts is not None
        later = replace(journal._parts.topic, now_ms=lambda: system_ms() + 2 * 86_400_000)
        trimmer = LogTrimmer(later, timedelta(days=1), 60)
        assert await trimmer.trim() == {}
        await journal.catch_up()
        await journal.append("order-4", A)
        assert await trimmer.trim() == {0: 3}
        assert [event.payload async for event in journal.read("order-1")] == ["a"]
        assert await LogTrimmer(journal._parts.topic, timedelta(days=1), 60).trim() == {}


async def test_r42_records_that_were_lost_are_accepted_by_request_alone(tmp_path: Path) -> None:
    async with cordwood.connect(tmp_path) as cw:
        await (await unreplicated(cw)).close()
        await cw.log("orders").trim(before=2)
        async with cw.journal("orders", replicate=False) as journal:
            for call in (journal.pointer("order-1"), journal.append("order-1", A), journal.catch_up()):
                with pytest.raises(Trimmed, match="records 0 to 1 were never replicated"):
                    await call
            await journal.catch_up(accept_loss=True)
            (letter,) = await journal.dead_letters()
            assert (letter.offset, letter.through) == (0, 1)
            assert [id async for id in journal.ids()] == ["order-3"]


async def test_r44_a_snapshot_dies_with_its_journal(tmp_path: Path) -> None:
    async with cordwood.connect(tmp_path) as cw, cw.journal("orders", replicate=False) as journal:
        await journal.append("order-1", A)
        await journal.save_snapshot("order-1", 1, b"state")
        await journal.purge("order-1")  # acked, and not replicated
        assert await journal.load_snapshot("order-1") is None
        await journal.append("order-1", A)
        assert await journal.load_snapshot("order-1") is None
        async with journal.recover("order-1") as recovered:
            assert (recovered.snapshot, [event.seq_nr async for event in recovered]) == (None, [1])
        await journal.catch_up()
        assert journal._store is not None
        assert await journal._store.snapshots("orders", "order-1") == []
