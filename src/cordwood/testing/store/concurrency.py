"""Concurrent tasks, stores and event loops."""

import asyncio

from cordwood.errors import CordwoodError
from cordwood.store import EventStore, KeyChanges
from cordwood.testing.store.under_test import (
    StoreUnderTest,
    appended,
    batch,
    event,
    events,
    events_of,
    head,
    head_of,
    write,
)

TURNS = 20


class Concurrency(StoreUnderTest):
    """Many calls at once."""

    async def fill(self, store: EventStore, topic: str, partition: int) -> None:
        """Write one journal of a partition, one event a batch."""
        after: int | None = None
        for number in range(1, TURNS + 1):
            row = event(number, partition=partition)
            changes = KeyChanges(f"order-{partition}", head(number, partition=partition), [row])
            await write(store, batch(topic, after, number, changes, partition=partition))
            after = number

    async def check_filled(self, store: EventStore, topic: str, partitions: int) -> None:
        assert await store.pointers(topic) == dict.fromkeys(range(partitions), TURNS)
        for partition in range(partitions):
            assert await events_of(store, topic, f"order-{partition}") == events(1, TURNS, partition=partition)

    async def test_partitions_are_written_at_once(self, store: EventStore, topic: str) -> None:
        await asyncio.gather(*(self.fill(store, topic, partition) for partition in range(6)))
        await self.check_filled(store, topic, 6)

    async def test_two_stores_write_at_once(self, url: str, store: EventStore, topic: str) -> None:
        async with await self.open(url) as other:
            stores = [store, other, store, other]
            await asyncio.gather(*(self.fill(each, topic, partition) for partition, each in enumerate(stores)))
            await self.check_filled(other, topic, 4)

    async def test_several_event_loops_use_one_store(self, store: EventStore, topic: str) -> None:
        async def in_own_loop(partition: int) -> None:
            await asyncio.to_thread(asyncio.run, self.fill(store, topic, partition))

        await asyncio.gather(self.fill(store, topic, 0), *map(in_own_loop, (1, 2, 3)))
        await self.check_filled(store, topic, 4)

    async def test_a_reader_beside_the_writer_sees_rows_up_to_the_head(self, store: EventStore, topic: str) -> None:
        writing = asyncio.ensure_future(self.fill(store, topic, 0))
        while not writing.done():
            row = await head_of(store, topic, "order-0")
            if row is None:
                continue
            found = await store.events(topic, "order-0", row, 1, row.seq_nr + 1)
            assert list(found.rows) == events(1, row.seq_nr)
        await writing

    async def test_a_cancelled_write_is_whole_or_not_there(self, store: EventStore, topic: str) -> None:
        after: int | None = None
        for turn in range(10):
            first = turn * 5 + 1
            changes = batch(topic, after, first + 4, *(appended(id, first, first + 4) for id in ("a", "b")))
            call = asyncio.ensure_future(store.write(changes))
            await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait([call])
            # It may still be under way, and is finished before the next one.
            await store.write(changes)
            after = (await store.pointers(topic)).get(0)
            assert after == first + 4
        for id in ("a", "b"):
            assert await events_of(store, topic, id) == events(1, 50)

    async def test_an_error_of_one_write_touches_no_other(self, store: EventStore, topic: str) -> None:
        wrong = batch(topic, None, 2**80, partition=9)
        writes = [store.write(wrong), self.fill(store, topic, 0), store.write(wrong), self.fill(store, topic, 1)]
        results = await asyncio.gather(*writes, return_exceptions=True)
        for result in results[::2]:
            assert isinstance(result, CordwoodError)
            assert result.outcome == "not_written"
        assert results[1::2] == [None, None]
        await self.check_filled(store, topic, 2)
