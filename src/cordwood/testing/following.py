"""Readers that wait for later records."""

import asyncio

import pytest

from cordwood.client import Client
from cordwood.errors import NotFound
from cordwood.log import Log, Reader
from cordwood.records import Batch, StoredBatch
from cordwood.testing.under_test import UnderTest, numbered, promised, records_of, take

SOON = 0.1  # long enough for a reader to reach its wait


async def waiting(reader: Reader) -> "asyncio.Task[StoredBatch]":
    """A task that waits for the next batch of a reader that has none."""
    task = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(SOON)
    assert not task.done()
    return task


class Following(UnderTest):
    """`read(follow=True)`."""

    async def test_a_follower_sees_what_is_there_and_what_comes(self, log: Log) -> None:
        await log.append(Batch.of([b"before"]))
        async with log.read(follow=True) as reader:
            assert [record.value for record in await take(reader, 1)] == [b"before"]
            task = await waiting(reader)
            await log.append(Batch.of([b"after"]))
            assert list((await task).values) == [b"after"]
            task = await waiting(reader)
            await log.append(Batch.of([b"again"]))
            assert list((await task).values) == [b"again"]

    async def test_a_follower_of_an_empty_log_waits_for_its_first_record(self, log: Log) -> None:
        async with log.read(follow=True) as reader:
            task = await waiting(reader)
            await log.append(Batch.of([b"first"]))
            assert list((await task).values) == [b"first"]

    @promised("dense")
    async def test_a_follower_ends_at_its_stop(self, log: Log) -> None:
        await log.append(Batch.of(numbered(2)))
        reader = log.read(stop=5, follow=True)
        following = asyncio.ensure_future(records_of(reader))
        await asyncio.sleep(SOON)
        assert not following.done()
        await log.append(Batch.of(numbered(10)))
        assert [record.offset for record in await following] == list(range(5))

    async def test_a_follower_of_an_empty_range_waits_for_nothing(self, log: Log) -> None:
        await log.append(Batch.of(numbered(2)))
        async with asyncio.timeout(30):
            for start, stop in ((1, 1), (2, 2), (9, 9), (9, 1)):
                assert [batch async for batch in log.read(start, stop, follow=True)] == []

    async def test_a_follower_goes_on_over_a_switch_of_segments(self, log: Log) -> None:
        size = 128 * 1024
        count = self.segment_bytes // size + 2
        async with log.read(follow=True) as reader:
            following = asyncio.ensure_future(take(reader, count))
            for index in range(count):
                await log.append(Batch.of([index.to_bytes(4) + bytes(size)]))
            records = await following
        assert [int.from_bytes((record.value or b"")[:4]) for record in records] == list(range(count))

    @promised("dense")
    async def test_several_followers_see_the_same(self, log: Log) -> None:
        async def follow(start: int) -> list[bytes | None]:
            async with log.read(start, follow="wait") as reader:
                return [record.value for record in await take(reader, 20 - start)]

        followers = [asyncio.ensure_future(follow(start)) for start in (0, 0, 5, 19)]
        await asyncio.sleep(SOON)
        for value in numbered(20):
            await log.append(Batch.of([value]))
        for follower, start in zip(followers, (0, 0, 5, 19), strict=True):
            assert await follower == numbered(20)[start:]

    async def test_a_follower_of_another_connection_sees_it_too(self, url: str, cw: Client, log: Log) -> None:
        async with self.connect(url) as other, other.log(log.topic).read(follow=True) as reader:
            task = await waiting(reader)
            await log.append(Batch.of([b"news"]))
            assert list((await task).values) == [b"news"]

    async def test_a_wait_that_is_cancelled_loses_no_batch(self, log: Log) -> None:
        async with log.read(follow=True) as reader:
            for value in numbered(5):
                task = await waiting(reader)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await log.append(Batch.of([value]))
                assert [record.value for record in await take(reader, 1)] == [value]

    async def test_a_wait_that_is_cancelled_as_the_batch_comes_loses_none(self, log: Log) -> None:
        async with log.read(follow=True) as reader:
            read: list[bytes | None] = []
            for turn, value in enumerate(numbered(30)):
                task = asyncio.ensure_future(anext(reader))
                appending = asyncio.ensure_future(log.append(Batch.of([value])))
                for _ in range(turn % 6):
                    await asyncio.sleep(0.0005)
                task.cancel()
                (result,) = await asyncio.gather(task, return_exceptions=True)
                if isinstance(result, StoredBatch):
                    read += result.values
                await appending
            while len(read) < 30:
                read += (await anext(reader)).values
        assert read == numbered(30)

    async def test_a_follower_that_is_closed_while_it_waits_ends(self, log: Log) -> None:
        reader = log.read(follow=True)
        task = await waiting(reader)
        await reader.close()
        with pytest.raises(StopAsyncIteration):
            await task
        with pytest.raises(StopAsyncIteration):
            await anext(reader)

    async def test_tasks_that_wait_for_one_follower_get_each_batch_once(self, log: Log) -> None:
        async with log.read(follow=True) as reader:
            tasks = {await waiting(reader) for _ in range(3)}
            for value in numbered(3):
                await log.append(Batch.of([value]))
                done, tasks = await asyncio.wait(tasks, timeout=10, return_when=asyncio.FIRST_COMPLETED)
                assert [[*task.result().values] for task in done] == [[value]]

    async def test_closing_a_follower_ends_all_tasks_that_wait_for_it(self, log: Log) -> None:
        reader = log.read(follow=True)
        tasks = [await waiting(reader) for _ in range(3)]
        await reader.close()
        ends = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
        assert [type(end) for end in ends] == [StopAsyncIteration] * 3

    async def test_of_tasks_that_wait_for_one_follower_one_may_give_up(self, log: Log) -> None:
        async with log.read(follow=True) as reader:
            first, second = [await waiting(reader) for _ in range(2)]
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            await log.append(Batch.of([b"news"]))
            assert list((await asyncio.wait_for(second, 10)).values) == [b"news"]

    async def test_a_follower_ends_with_its_connection(self, url: str, cw: Client, log: Log) -> None:
        async with self.connect(url) as other:
            reader = other.log(log.topic).read(follow=True)
            task = await waiting(reader)
        with pytest.raises(StopAsyncIteration):
            await task

    async def test_a_follower_of_a_deleted_topic_is_told(self, cw: Client, log: Log) -> None:
        async with log.read(follow=True) as reader:
            task = await waiting(reader)
            await cw.delete_topic(log.topic)
            with pytest.raises(NotFound):
                await asyncio.wait_for(task, 10)
