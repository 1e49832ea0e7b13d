"""Connections: closing, sharing, and the event loops that they outlive."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from datetime import UTC, datetime

import pytest

from cordwood.client import Client
from cordwood.errors import Unavailable
from cordwood.log import Log, Reader
from cordwood.records import Batch
from cordwood.testing.under_test import UnderTest, numbered, promised, raises_as_write, records_of, take, values_of


async def check_closed(cw: Client, log: Log) -> None:
    """Check that every call on a closed connection or its log raises, an append with the outcome "not_written"."""
    calls: list[Callable[[], Awaitable[object]]] = [
        cw.topics,
        lambda: cw.topic(log.topic),
        lambda: cw.create_topic(f"{log.topic}.new"),
        lambda: cw.alter_topic(log.topic, retention=None),
        lambda: cw.delete_topic(log.topic),
        log.bounds,
        lambda: log.trim(before=0),
        lambda: log.offset_at(datetime.now(UTC)),
        lambda: values_of(log),
    ]
    for index, call in enumerate(calls):
        with pytest.raises(Unavailable) as closed:
            await call()
            pytest.fail(f"call {index} went through")
        assert (closed.value.reason, closed.value.retryable) == ("closed", False)
    with pytest.raises(Unavailable):
        cw.log(log.topic)
    for append in (lambda: log.append(Batch.of([b"x"])), lambda: cw.append(log.topic, Batch.of([b"x"]))):
        with raises_as_write(Unavailable, "not_written"):
            await append()


class Connections(UnderTest):
    """The life of a connection."""

    async def test_calls_on_a_closed_connection_are_unavailable(self, url: str, topic: str) -> None:
        async with self.connect(url) as cw:
            await cw.create_topic(topic)
            log = cw.log(topic)
            await log.append(Batch.of([b"x"]))
        await check_closed(cw, log)

    async def test_it_is_closed_also_while_another_connection_is_open(self, url: str, cw: Client, log: Log) -> None:
        async with self.connect(url) as other:
            same = other.log(log.topic)
            await same.append(Batch.of([b"x"]))
        await check_closed(other, same)
        await log.append(Batch.of([b"y"]))
        assert await values_of(log) == [b"x", b"y"]

    async def test_closing_twice_is_fine(self, url: str, cw: Client, log: Log) -> None:
        async with self.connect(url) as other:
            await other.close()
            await other.close()
        await log.append(Batch.of([b"x"]))
        assert await values_of(log) == [b"x"]

    async def test_closing_from_many_tasks_is_fine(self, url: str, cw: Client, log: Log) -> None:
        async with self.connect(url) as other:
            await asyncio.gather(*(other.close() for _ in range(5)))
        await log.append(Batch.of([b"x"]))

    async def test_a_reader_ends_with_its_connection(self, url: str, cw: Client, log: Log) -> None:
        for value in numbered(20):
            await log.append(Batch.of([value]))
        async with self.connect(url) as other:
            reader = other.log(log.topic).read()
            await anext(reader)
        for _ in range(2):
            with pytest.raises((StopAsyncIteration, Unavailable)):
                await anext(reader)
        await reader.close()

    async def test_two_connections_see_each_others_work(self, url: str, cw: Client, topic: str) -> None:
        async with self.connect(url) as other:
            await cw.create_topic(topic)
            assert topic in await other.topics()
            await other.log(topic).append(Batch.of([b"theirs"]))
            await cw.log(topic).append(Batch.of([b"ours"]))
            assert await values_of(other.log(topic)) == await values_of(cw.log(topic)) == [b"theirs", b"ours"]
            await other.delete_topic(topic)
            assert topic not in await cw.topics()

    @promised("reopens")
    async def test_the_next_connection_finds_everything_and_goes_on(self, url: str, topic: str) -> None:
        for turn in range(4):
            async with self.connect(url) as cw:
                await cw.create_topic(topic, exist_ok=True)
                log = cw.log(topic)
                assert await values_of(log) == numbered(turn * 3)
                end = (await log.bounds())[1]
                values = numbered(turn * 3 + 3)[-3:]
                self.check_offsets(await log.append(Batch.of(values)), end, 3)

    @promised("reopens")
    async def test_all_parts_of_a_record_are_there_for_the_next_connection(self, url: str, topic: str) -> None:
        async with self.connect(url) as cw:
            await cw.create_topic(topic)
            await cw.log(topic).append(
                Batch.of([b"a", None], keys=[None, b""], headers=[[("h", None)], []], timestamps=[5, 3])
            )
            await cw.log(topic).append(Batch.of([b"c"]))
            before = await records_of(cw.log(topic).read())
        async with self.connect(url) as cw:
            assert await records_of(cw.log(topic).read()) == before

    @promised("reopens")
    async def test_a_log_of_several_segments_is_there_for_the_next_connection(self, url: str, topic: str) -> None:
        size = 128 * 1024
        count = self.segment_bytes // size + 2
        async with self.connect(url) as cw:
            await cw.create_topic(topic)
            for index in range(count):
                await cw.log(topic).append(Batch.of([index.to_bytes(4) + bytes(size)]))
        async with self.connect(url) as cw:
            records = await records_of(cw.log(topic).read())
            assert [int.from_bytes((record.value or b"")[:4]) for record in records] == list(range(count))
            self.check_offsets(await cw.log(topic).append(Batch.of([b"x"])), records[-1].offset + 1, 1)

    async def test_a_connection_outlives_the_loop_that_made_it(self, url: str, topic: str) -> None:
        async def make() -> Client:
            cw = await self.connect(url).__aenter__()
            await cw.create_topic(topic)
            await cw.log(topic).append(Batch.of([b"first loop"]))
            return cw

        async def use(cw: Client) -> None:
            await cw.log(topic).append(Batch.of([b"second loop"]))

        cw = await asyncio.to_thread(asyncio.run, make())
        log = cw.log(topic)
        await asyncio.to_thread(asyncio.run, use(cw))
        await log.append(Batch.of([b"this loop"]))
        assert await values_of(log) == [b"first loop", b"second loop", b"this loop"]
        await cw.close()

    async def test_a_log_may_be_used_from_one_loop_after_the_other(self, cw: Client, log: Log) -> None:
        async def append(value: bytes) -> None:
            await log.append(Batch.of([value]))
            async with log.read(follow=True) as reader:
                await take(reader, 1)

        for value in numbered(6):
            assert value is not None
            await asyncio.to_thread(asyncio.run, append(value))
            await log.bounds()
        assert await values_of(log) == numbered(6)

    async def test_a_loop_that_ends_with_appends_under_way_harms_nobody(self, cw: Client, log: Log) -> None:
        async def begin() -> None:
            for value in numbered(20, "left "):
                asyncio.ensure_future(log.append(Batch.of([value])))  # noqa: RUF006  tested on purpose
            await asyncio.sleep(0)

        for _ in range(5):
            await asyncio.to_thread(asyncio.run, begin())
            await log.append(Batch.of([b"ours"]))
        values = await values_of(log)
        assert values.count(b"ours") == 5
        assert (await log.bounds())[1] == len(values) or not self.dense

    async def test_closing_ends_a_follower_that_waits_in_another_loop(self, url: str, cw: Client, log: Log) -> None:
        waiting = threading.Event()
        ended: Future[bool] = Future()

        async def follow(reader: Reader) -> bool:
            asyncio.get_running_loop().call_later(0.05, waiting.set)
            return await anext(reader, None) is None

        other = await self.connect(url).__aenter__()
        reader = other.log(log.topic).read(follow=True)
        # A daemon thread: if this test fails, it must not hold up the next tests.
        threading.Thread(target=lambda: ended.set_result(asyncio.run(follow(reader))), daemon=True).start()
        assert await asyncio.to_thread(waiting.wait, 10)
        await asyncio.wait_for(other.close(), 10)
        assert await asyncio.wait_for(asyncio.wrap_future(ended), 10)

    async def test_a_connection_closes_although_the_loop_of_its_readers_is_gone(
        self, url: str, cw: Client, log: Log
    ) -> None:
        for value in numbered(50):
            await log.append(Batch.of([value]))
        readers: list[Reader] = []

        async def leave(other: Client) -> None:
            for follow in (False, True):
                readers.append(other.log(log.topic).read(follow=follow))
                await anext(readers[-1])
            waiting = asyncio.ensure_future(take(readers[-1], 100))
            await asyncio.sleep(0.05)
            assert not waiting.done()

        async with self.connect(url) as other:
            await asyncio.to_thread(asyncio.run, leave(other))
        assert await values_of(log) == numbered(50)

    async def test_a_connection_shows_where_it_leads(self, cw: Client) -> None:
        assert cw.url
        assert cw.url in repr(cw)
        assert not cw.read_only
