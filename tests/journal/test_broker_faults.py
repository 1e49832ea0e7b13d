"""A journal on three Kafka servers: its leaders die, are paused and come back, and every acked event counts once."""

import asyncio
from pathlib import Path

import pytest

import cordwood
from cordwood import Appended, Client, Conflict, CordwoodError, Event, Journal
from cordwood.testing.kafka import Cluster

KEYS = [f"key-{number}" for number in range(6)]
SECONDS = 90


class Writer:
    """The only writer of its key: appends after the number that it knows, and repeats an append of unknown outcome."""

    def __init__(self, journal: Journal, key: str) -> None:
        self.journal = journal
        self.key = key
        self.acked: list[str] = []

    async def run(self, ended: asyncio.Event) -> None:
        while not ended.is_set():
            text = f"{self.key} {len(self.acked) + 1}"
            done = await self._append_until_acked(text)
            assert done.seq_nrs == range(len(self.acked) + 1, len(self.acked) + 2)
            self.acked.append(text)

    async def _append_until_acked(self, text: str) -> Appended:
        async with asyncio.timeout(SECONDS):
            while True:
                try:
                    return await self.journal.append(
                        self.key, [Event.text(text)], expected=len(self.acked), id=text, timeout=5
                    )
                except Conflict:
                    raise
                except CordwoodError as error:
                    if not error.retryable and error.outcome != "unknown":
                        raise


async def payloads(journal: Journal, key: str) -> list[object]:
    async with journal.read(key) as reader:
        return [event.payload async for event in reader]


@pytest.mark.processes
@pytest.mark.parametrize("fault", ["kill", "pause"])
async def test_acked_events_count_once_while_leaders_change(kafka_cluster: Cluster, tmp_path: Path, fault: str) -> None:
    topic = f"faults-{fault}"
    store = f"sqlite:{tmp_path / 'store.db'}"
    async with cordwood.connect(kafka_cluster.url) as cw:
        journal = cw.journal(topic, store=store, partitions=2, replicate=True)
        writers = [Writer(journal, key) for key in KEYS]
        ended = asyncio.Event()
        work = [asyncio.ensure_future(writer.run(ended)) for writer in writers]
        try:
            await _until_all_have(writers, work, 5)
            broken = await asyncio.to_thread(kafka_cluster.leader, topic, 0)
            getattr(broken, fault)()
            counts = [len(writer.acked) for writer in writers]
            await _until_all_have(writers, work, max(counts) + 3)
        finally:
            ended.set()
            await asyncio.to_thread(kafka_cluster.heal)
            await asyncio.wait(work)
        for task in work:
            task.result()
        await _check(cw, topic, store, journal, writers)


async def _until_all_have(writers: list[Writer], work: "list[asyncio.Task[None]]", count: int) -> None:
    async with asyncio.timeout(SECONDS):
        while any(len(writer.acked) < count for writer in writers):
            for task in work:
                if task.done():
                    task.result()
            await asyncio.sleep(0.05)


async def _check(cw: Client, topic: str, store: str, journal: Journal, writers: list[Writer]) -> None:
    """The handle that wrote, a new one, and one after replication return every acked event, once and in order."""
    new = cw.journal(topic, store=store, replicate=False)
    for handle in (new, journal):
        for writer in writers:
            assert await payloads(handle, writer.key) == writer.acked
    await journal.close()  # nothing replicates the Marks of the reads below
    for writer in writers:
        assert await payloads(new, writer.key) == writer.acked
    assert all(new.stats().lag.values())
    await new.catch_up()
    assert set(new.stats().lag.values()) == {0}
    for writer in writers:
        assert await payloads(new, writer.key) == writer.acked
