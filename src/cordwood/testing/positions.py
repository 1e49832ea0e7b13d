"""Positions that a program keeps: the start of a read, and its topic."""

import asyncio
from typing import Any

import pytest

from cordwood.client import Client
from cordwood.errors import Conflict, InvalidInput, NotFound
from cordwood.log import Follow, Log
from cordwood.records import Batch
from cordwood.testing.following import waiting
from cordwood.testing.under_test import UnderTest, numbered, promised, records_of, take

FOLLOWS: tuple[Follow, ...] = (False, True, "wait")


class Positions(UnderTest):
    """`TopicInfo.id`, `read(topic_id=…)`, and a start beyond the end."""

    async def test_a_topic_that_is_created_again_has_another_id(self, cw: Client, topic: str) -> None:
        ids = set()
        for _ in range(3):
            made = await cw.create_topic(topic)
            assert isinstance(made.id, str)
            assert made.id
            assert (await cw.topic(topic)).id == made.id
            ids.add(made.id)
            await cw.delete_topic(topic)
        assert len(ids) == 3

    async def test_topics_have_ids_of_their_own_for_every_connection(self, url: str, cw: Client, topic: str) -> None:
        ids = [(await cw.create_topic(f"{topic}.{name}")).id for name in ("a", "b")]
        assert len(set(ids)) == 2
        async with self.connect(url) as other:
            assert [(await other.topic(f"{topic}.{name}")).id for name in ("a", "b")] == ids

    async def test_a_read_that_names_its_topic_reads_it(self, cw: Client, log: Log, topic: str) -> None:
        offsets = await log.append(Batch.of(numbered(5)))
        id = (await cw.alter_topic(topic, retention_bytes=1 << 40)).id
        for follow in FOLLOWS:
            async with log.read(offsets[1], offsets[-1] + 1, follow, topic_id=id) as reader:
                assert [record.value for record in await records_of(reader)] == numbered(5)[1:]
        async with log.read(follow=True, topic_id=id) as reader:
            assert len(await take(reader, 5)) == 5
            task = await waiting(reader)
            await log.append(Batch.of([b"news"]))
            assert list((await task).values) == [b"news"]

    async def test_a_named_topic_that_was_created_again_is_a_conflict(self, cw: Client, log: Log, topic: str) -> None:
        await log.append(Batch.of(numbered(5)))
        old = (await cw.topic(topic)).id
        await cw.delete_topic(topic)
        new = (await cw.create_topic(topic)).id
        await log.append(Batch.of(numbered(3)))

        async def read(start: int | None, follow: Follow) -> str:
            with pytest.raises(Conflict) as raised:
                await anext(log.read(start, follow=follow, topic_id=old))
            return str(raised.value)

        starts = (None, 0, 2, 3, 5)
        for text in await asyncio.gather(*(read(start, follow) for start in starts for follow in FOLLOWS)):
            assert old in text
            assert new in text

    async def test_a_named_topic_that_is_gone_is_not_found(self, cw: Client, log: Log, topic: str) -> None:
        old = (await cw.topic(topic)).id
        await cw.delete_topic(topic)
        for follow in FOLLOWS:
            with pytest.raises(NotFound):
                await anext(log.read(follow=follow, topic_id=old))

    @pytest.mark.parametrize("named", [False, True])
    @pytest.mark.parametrize("start", [0, 7])
    async def test_a_follower_never_continues_in_the_next_topic_of_the_name(
        self, cw: Client, log: Log, topic: str, start: int, named: bool
    ) -> None:
        old = (await cw.topic(topic)).id if named else None
        async with log.read(start, follow="wait", topic_id=old) as reader:
            task = await waiting(reader)
            await cw.delete_topic(topic)
            await cw.create_topic(topic)
            await log.append(Batch.of([b"new"] * 20))
            with pytest.raises((NotFound, Conflict) if named else NotFound):
                await asyncio.wait_for(task, 30)

    async def test_a_start_beyond_the_end_is_invalid_and_the_error_names_the_end(self, log: Log) -> None:
        async def read(start: int, stop: int | None, follow: Follow, end: int) -> None:
            with pytest.raises(InvalidInput, match=rf"\b{end}\b.*\b{start}\b"):
                await anext(log.read(start, stop, follow))

        await read(1, None, False, 0)
        end = (await log.append(Batch.of(numbered(30))))[-1] + 1
        ranges = [(end + 1, None), (end + 1000, None), (end + 1000, end + 2000)]
        await asyncio.gather(*(read(*range, follow, end) for range in ranges for follow in (False, True)))

    async def test_a_start_at_the_end_is_where_new_records_come(self, log: Log) -> None:
        end = (await log.append(Batch.of(numbered(3))))[-1] + 1
        for follow in (True, "wait"):
            async with log.read(end, follow=follow) as reader:
                task = await waiting(reader)
                await log.append(Batch.of([b"news"]))
                assert list((await task).values) == [b"news"]
            end = (await log.bounds())[1]
        assert await records_of(log.read(end)) == []

    @promised("dense")
    async def test_a_reader_may_wait_for_a_start_beyond_the_end(self, log: Log) -> None:
        async with log.read(start=3, follow="wait") as reader:
            await log.append(Batch.of(numbered(2)))
            task = await waiting(reader)
            await log.append(Batch.of(numbered(3)))
            records = [*(await task)]
            records += await take(reader, 2 - len(records)) if len(records) < 2 else []
            assert [(record.offset, record.value) for record in records] == [(3, b"1"), (4, b"2")]

    async def test_what_is_no_position_is_refused_at_the_call(self, log: Log) -> None:
        follows: list[Any] = ["", "True", "end", None, 2]
        for follow in follows:
            with pytest.raises(InvalidInput, match="follow is"):
                log.read(follow=follow)
        ids: list[Any] = [7, b"7"]
        for id in ids:
            with pytest.raises(TypeError, match="topic_id is a str"):
                log.read(topic_id=id)
