"""Nodes of Cassandra that die and come back while a journal is written, replicated and read: nothing acked is lost."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import cordwood
from cordwood import EventStore, Journal
from cordwood.store import open_store
from cordwood.testing.cassandra import Cluster
from cordwood.testing.store.under_test import (
    appended,
    batch,
    bound,
    events,
    events_of,
    head,
    head_of,
    write,
)
from tests.support.journal.journals import append, read_texts

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(300)]

KEYS = 5


@pytest.fixture
async def url(cassandra_cluster: Cluster) -> AsyncIterator[str]:
    """A keyspace with a copy on each node, which all run before and after. Each test has a topic of its own."""
    yield f"cassandra://{cassandra_cluster.address}/faults"
    cassandra_cluster.heal()


class Load:
    """Batches of five journals, one after the other, until it is stopped."""

    def __init__(self, store: EventStore) -> None:
        self.store = store
        self.acked = 0
        self._stopped = False
        self._moved = asyncio.Event()

    async def run(self) -> None:
        while not self._stopped:
            number = self.acked + 1
            keys = [appended(f"order-{key}", number, number) for key in range(KEYS)]
            await write(self.store, batch("batches", self.acked or None, number, *keys))
            self.acked = number
            self._moved.set()

    async def until(self, acked: int) -> None:
        while self.acked < acked:
            await self._moved.wait()
            self._moved.clear()

    def stop(self) -> None:
        self._stopped = True


async def check(store: EventStore, acked: int) -> None:
    for key in range(KEYS):
        assert await head_of(store, "batches", f"order-{key}") == head(acked)
        assert await events_of(store, "batches", f"order-{key}") == events(1, acked)
    assert await store.pointers("batches") == {0: acked}


async def test_a_node_that_is_lost_in_a_write_loses_nothing(url: str, cassandra_cluster: Cluster) -> None:
    async with await open_store(url, timeout=60) as store:
        await store.bind("batches", bound())
        load = Load(store)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(load.run())
            await load.until(10)
            await asyncio.to_thread(cassandra_cluster.nodes[1].kill)
            await load.until(load.acked + 30)
            await check_prefix(store, load.acked)
            load.stop()
        await check(store, load.acked)
        await asyncio.to_thread(cassandra_cluster.heal)
        # Another node is lost now: the one that was away has what it missed, or the third one has it.
        await asyncio.to_thread(cassandra_cluster.nodes[2].kill)
        await check(store, load.acked)


async def check_prefix(store: EventStore, acked: int) -> None:
    """All that was acked so far, while more is written."""
    row = await head_of(store, "batches", "order-0")
    assert row is not None
    assert row.seq_nr >= acked
    found = await store.events("batches", "order-0", row, 1, acked + 1)
    assert list(found.rows) == events(1, acked)


async def test_a_node_that_restarts_under_load_stops_no_journal(
    url: str, cassandra_cluster: Cluster, tmp_path: Path
) -> None:
    async with cordwood.connect(f"file:{tmp_path}", timeout=60) as cw:
        journal = cw.journal("orders", store=url, partitions=2, segment_size=10)
        acked: dict[str, int] = {f"key-{number}": 0 for number in range(KEYS)}
        stopped = False
        moved = asyncio.Event()

        async def work(key: str) -> None:
            while not stopped:
                done = await append(journal, key, str(acked[key] + 1))
                acked[key] = done.seq_nrs[-1]
                if acked[key] % 10 == 0:
                    await check_journal(journal, key, acked[key])
                moved.set()

        async def until_more() -> None:
            """Until each journal has ten more events, and has been read."""
            goal = {key: last // 10 * 10 + 20 for key, last in acked.items()}
            while any(acked[key] < goal[key] for key in acked):
                await moved.wait()
                moved.clear()

        async with asyncio.TaskGroup() as tasks:
            for key in acked:
                tasks.create_task(work(key))
            await until_more()
            # The node that the driver found first, and that it hears from about changes.
            await asyncio.to_thread(cassandra_cluster.nodes[0].kill)
            await until_more()
            await asyncio.to_thread(cassandra_cluster.heal)
            await until_more()
            stopped = True
        await journal.catch_up()
        for key, last in acked.items():
            await check_journal(journal, key, last)


async def check_journal(journal: Journal, key: str, last: int) -> None:
    found = await read_texts(journal, key, 1, last + 1)
    assert found == {number: str(number) for number in range(1, last + 1)}
