"""Concurrent tasks, logs, connections and threads."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from cordwood.client import Client
from cordwood.errors import Conflict
from cordwood.log import Log
from cordwood.records import Batch
from cordwood.testing.under_test import UnderTest, numbered, promised, records_of, take, values_of

TASKS = 40
APPENDS = 10

Acked = dict[int, bytes | None]
"""Offset -> value of every record whose append has returned."""


async def append_in_turn(log: Log, name: str) -> Acked:
    """Append several batches of one to three records, one after the other."""
    acked: Acked = {}
    for turn in range(APPENDS):
        values = numbered(1 + turn % 3, f"{name}.{turn}.")
        offsets = await log.append(Batch.of(values))
        assert not acked or offsets[0] > max(acked)
        acked |= zip(offsets, values, strict=True)
    return acked


class Concurrency(UnderTest):
    """Concurrent appends."""

    async def check_acked(self, log: Log, parts: Sequence[Acked]) -> None:
        """Check that the log has every acked record once, at its offset, and no others."""
        found = {record.offset: record.value for record in await records_of(log.read())}
        assert found == {offset: value for part in parts for offset, value in part.items()}
        assert len(found) == sum(map(len, parts)), "an offset was given out twice"
        if self.dense:
            assert list(found) == list(range(len(found)))

    async def test_appends_of_many_tasks_are_each_found_once_at_their_offset(self, log: Log) -> None:
        parts = await asyncio.gather(*(append_in_turn(log, str(task)) for task in range(TASKS)))
        await self.check_acked(log, parts)

    async def test_appends_to_several_logs_stay_in_theirs(self, cw: Client, topic: str) -> None:
        await cw.create_topic(topic, partitions=5)
        logs = [cw.log(topic, partition) for partition in range(5)]
        for log, acked in zip(
            logs, await asyncio.gather(*(append_in_turn(log, log.name) for log in logs)), strict=True
        ):
            await self.check_acked(log, [acked])

    async def test_two_connections_append_to_one_log(self, url: str, cw: Client, log: Log) -> None:
        async with self.connect(url) as other:
            logs = [log, other.log(log.topic)] * 5
            parts = await asyncio.gather(*(append_in_turn(each, str(index)) for index, each in enumerate(logs)))
        await self.check_acked(log, parts)

    async def test_several_event_loops_append_to_one_log(self, log: Log) -> None:
        async def in_own_loop(name: str) -> Acked:
            return await asyncio.to_thread(asyncio.run, append_in_turn(log, name))

        parts = await asyncio.gather(append_in_turn(log, "here"), *map(in_own_loop, ("a", "b", "c")))
        await self.check_acked(log, parts)

    @promised("acks_in_order")
    async def test_appends_return_in_the_order_of_their_offsets(self, log: Log) -> None:
        returned: list[int] = []

        async def append() -> None:
            returned.append((await log.append(Batch.of([b"x"])))[0])

        await asyncio.gather(*(append() for _ in range(200)))
        assert returned == sorted(returned)

    @promised("expected_offsets")
    async def test_of_many_appends_that_expect_one_offset_one_wins(self, log: Log) -> None:
        results = await asyncio.gather(
            *(log.append(Batch.of([b"%d" % task]), expected=0) for task in range(20)), return_exceptions=True
        )
        winners = [b"%d" % task for task, result in enumerate(results) if result == range(1)]
        assert len(winners) == 1
        assert await values_of(log) == winners
        conflicts = [result for result in results if isinstance(result, Conflict)]
        assert len(conflicts) == 19
        assert {(conflict.actual, conflict.outcome) for conflict in conflicts} == {(1, "not_written")}

    @promised("expected_offsets")
    async def test_tasks_that_expect_what_they_read_count_without_losing_one(self, log: Log) -> None:
        async def count_up() -> None:
            at, counted = 0, 0
            while counted < 10:
                try:
                    await log.append(Batch.of([b"%d" % at]), expected=at)
                    counted += 1
                    at += 1
                except Conflict as conflict:
                    at = conflict.actual or 0

        await asyncio.gather(*(count_up() for _ in range(8)))
        assert await values_of(log) == numbered(80)

    async def test_what_is_acked_can_be_read_at_once(self, log: Log) -> None:
        async def append_and_look(name: str) -> None:
            for turn in range(APPENDS):
                value = f"{name}.{turn}".encode()
                (offset,) = await log.append(Batch.of([value]))
                start, stop = await log.bounds()
                assert start <= offset < stop
                assert await values_of(log, offset, offset + 1) == [value]

        await asyncio.gather(*(append_and_look(str(task)) for task in range(10)))

    async def test_readers_beside_writers_see_a_prefix(self, log: Log) -> None:
        writing = asyncio.gather(*(append_in_turn(log, str(task)) for task in range(TASKS)))
        seen: list[list[int]] = []
        while not writing.done():
            seen.append([record.offset for record in await records_of(log.read())])
            await asyncio.sleep(0)
        everything = [record.offset for record in await records_of(log.read())]
        for offsets in seen:
            assert offsets == everything[: len(offsets)]
        await self.check_acked(log, await writing)

    async def test_records_of_one_batch_stay_together(self, log: Log) -> None:
        async def append(name: str) -> None:
            await log.append(Batch.of(numbered(5, f"{name}.")))

        await asyncio.gather(*(append(str(task)) for task in range(TASKS)))
        values = await values_of(log)
        for at in range(0, len(values), 5):
            name = (values[at] or b"").split(b".")[0].decode()
            assert values[at : at + 5] == numbered(5, f"{name}.")

    async def test_followers_and_writers_meet(self, log: Log) -> None:
        count = TASKS * APPENDS

        async def follow() -> list[int]:
            async with log.read(follow=True) as reader:
                return [record.offset for record in await take(reader, count)]

        async def write(task: int) -> list[int]:
            return [(await log.append(Batch.of([b"%d" % task])))[0] for _ in range(APPENDS)]

        jobs: list[Callable[[], Awaitable[list[int]]]] = [follow] * 5
        followers = [asyncio.ensure_future(job()) for job in jobs]
        written = await asyncio.gather(*(write(task) for task in range(TASKS)))
        everything = sorted(offset for part in written for offset in part)
        for follower in followers:
            assert await follower == everything
