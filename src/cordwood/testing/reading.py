"""Reads without `follow`: ranges, and the life of a reader."""

import asyncio
import time
from typing import Any

import pytest

from cordwood.client import Client
from cordwood.errors import InvalidInput, NotFound
from cordwood.log import Log
from cordwood.records import Batch, StoredBatch
from cordwood.testing.under_test import UnderTest, numbered, records_of, values_of


class Reading(UnderTest):
    """Reads that end."""

    @pytest.fixture
    async def thirty(self, log: Log) -> list[int]:
        """The offsets of 30 records in three batches; each value is the record's index."""
        values = numbered(30)
        return [offset for at in range(0, 30, 10) for offset in await log.append(Batch.of(values[at : at + 10]))]

    async def test_a_read_gives_stored_batches_that_know_their_offsets(self, log: Log, thirty: list[int]) -> None:
        batches = [batch async for batch in log.read()]
        assert {type(batch) for batch in batches} == {StoredBatch}
        assert all(map(len, batches))
        assert [offset for batch in batches for offset in batch.offsets] == thirty
        if self.dense:
            assert all(isinstance(batch.offsets, range) for batch in batches)

    @pytest.mark.parametrize(
        ("start", "stop"), [(0, 30), (0, 10), (10, 20), (20, 30), (3, 7), (5, 25), (9, 11), (29, 30), (0, 1)]
    )
    async def test_a_range_is_half_open_and_cuts_stored_batches(
        self, log: Log, thirty: list[int], start: int, stop: int
    ) -> None:
        records = await records_of(log.read(thirty[start], thirty[stop - 1] + 1))
        assert [record.offset for record in records] == thirty[start:stop]
        assert [record.value for record in records] == numbered(30)[start:stop]

    async def test_every_single_record_can_be_read_alone(self, log: Log, thirty: list[int]) -> None:
        for index, offset in enumerate(thirty):
            assert await values_of(log, offset, offset + 1) == [b"%d" % index]

    async def test_all_parts_of_a_record_survive_a_cut_in_its_batch(self, log: Log) -> None:
        offsets = await log.append(
            Batch.of(
                [b"a", None, b"", b"d"],
                keys=[b"k", b"", None, b"l"],
                headers=[[("h", b"1")], [], [("i", None), ("j", b"2")], []],
                timestamps=[40, 30, 20, 10],
            )
        )
        whole = await records_of(log.read())
        assert await records_of(log.read(offsets[1], offsets[3])) == whole[1:3]
        assert await records_of(log.read(offsets[2])) == whole[2:]

    async def test_without_a_start_and_a_stop_a_read_is_of_the_whole_log(self, log: Log, thirty: list[int]) -> None:
        assert await values_of(log, None, thirty[4]) == numbered(4)
        assert await values_of(log, thirty[26]) == numbered(30)[26:]
        assert await values_of(log) == numbered(30)

    async def test_a_stop_beyond_the_end_reads_to_the_end(self, log: Log, thirty: list[int]) -> None:
        assert await values_of(log, thirty[28], thirty[-1] + 1000) == numbered(30)[28:]

    async def test_a_start_at_the_end_reads_nothing(self, log: Log, thirty: list[int]) -> None:
        assert await values_of(log, thirty[-1] + 1) == []

    async def test_an_empty_range_reads_nothing(self, log: Log, thirty: list[int]) -> None:
        assert await values_of(log, thirty[5], thirty[5]) == []
        assert await values_of(log, 0, 0) == []

    async def test_a_stop_before_the_start_reads_nothing(self, log: Log, thirty: list[int]) -> None:
        assert await values_of(log, thirty[6], thirty[5]) == []
        assert await values_of(log, thirty[-1] + 1000, thirty[5]) == []

    async def test_a_negative_offset_is_invalid(self, log: Log, thirty: list[int]) -> None:
        for start, stop in ((-1, None), (None, -1), (-5, -1)):
            with pytest.raises(InvalidInput):
                await values_of(log, start, stop)

    async def test_what_is_no_whole_number_is_no_offset(self, log: Log, thirty: list[int]) -> None:
        wrong: list[Any] = [(1.5, None), (None, 1.5), ("1", None), (None, "1")]
        for start, stop in wrong:
            with pytest.raises(TypeError, match="is an int, not"):
                await values_of(log, start, stop)

    async def test_without_a_stop_it_ends_where_the_log_ended_at_the_call(self, log: Log, thirty: list[int]) -> None:
        reader = log.read(thirty[25])
        await log.append(Batch.of([b"later"]))
        assert [record.value for record in await records_of(reader)] == numbered(30)[25:]

    async def test_a_new_connection_also_ends_where_the_log_ended_at_the_call(
        self, url: str, log: Log, thirty: list[int]
    ) -> None:
        async with self.connect(url) as other:
            reader = other.log(log.topic).read()
            await log.append(Batch.of([b"later"]))
            assert [record.value for record in await records_of(reader)] == numbered(30)

    async def test_appends_during_a_read_are_not_part_of_it(self, log: Log, thirty: list[int]) -> None:
        read: list[bytes | None] = []
        async for batch in log.read():
            read += batch.values
            await log.append(Batch.of([b"later"]))
        assert read == numbered(30)

    async def test_readers_do_not_move_each_other(self, log: Log, thirty: list[int]) -> None:
        async with log.read() as first, log.read(thirty[15]) as second:
            begun = await anext(first)
            assert await records_of(second) == await records_of(log.read(thirty[15]))
            rest = await records_of(first)
            assert [*begun.offsets, *(record.offset for record in rest)] == thirty

    async def test_a_read_may_be_left_early(self, log: Log, thirty: list[int]) -> None:
        for _ in range(50):
            async with log.read() as reader:
                async for _batch in reader:
                    break
        async for _batch in log.read():
            break
        assert await values_of(log) == numbered(30)

    async def test_a_user_who_is_slower_than_the_log_can_be_cancelled(self, log: Log) -> None:
        # If the next batch is always ready, a reader that never waits would block the loop.
        for _ in range(24):
            await log.append(Batch.of([bytes(1_000_000)]))

        late: list[int] = []

        async def read_slowly() -> None:
            async with log.read() as reader:
                await anext(reader)
                reading.cancel()
                time.sleep(0.1)  # noqa: ASYNC251  # as any work that blocks the loop
                async for batch in reader:
                    late.extend(batch.offsets)
                    time.sleep(0.1)  # noqa: ASYNC251

        reading = asyncio.ensure_future(read_slowly())
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert len(late) < 6, "more than one step reads"

    async def test_two_tasks_share_a_reader_and_each_batch_goes_to_one_of_them(
        self, log: Log, thirty: list[int]
    ) -> None:
        for _ in range(8):
            await log.append(Batch.of([bytes(1_000_000)]))
        whole = [record.offset for record in await records_of(log.read())]
        reader = log.read()
        parts = await asyncio.wait_for(asyncio.gather(records_of(reader), records_of(reader)), 30)
        offsets = [[record.offset for record in part] for part in parts]
        assert sorted(offsets[0] + offsets[1]) == whole
        assert offsets == [sorted(part) for part in offsets]

    async def test_an_ended_reader_stays_at_its_end(self, log: Log, thirty: list[int]) -> None:
        reader = log.read()
        await records_of(reader)
        await log.append(Batch.of([b"later"]))
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await anext(reader)

    async def test_a_reader_may_be_closed_twice_and_gives_nothing_after(self, log: Log, thirty: list[int]) -> None:
        reader = log.read()
        await anext(reader)
        await reader.close()
        await reader.close()
        with pytest.raises(StopAsyncIteration):
            await anext(reader)

    async def test_a_reader_that_was_never_used_may_be_closed(self, log: Log, thirty: list[int]) -> None:
        await log.read().close()
        async with log.read():
            pass

    async def test_batches_outlive_their_reader(self, log: Log, thirty: list[int]) -> None:
        async with log.read() as reader:
            batches = [batch async for batch in reader]
        await log.trim(before=thirty[-1] + 1)
        assert [value for batch in batches for value in batch.values] == numbered(30)

    async def test_a_read_over_several_segments_is_whole(self, log: Log) -> None:
        size = 64 * 1024
        count = self.segment_bytes // size + 2
        for index in range(count):
            await log.append(Batch.of([index.to_bytes(4) + bytes(size)]))
        records = await records_of(log.read())
        assert [int.from_bytes((record.value or b"")[:4]) for record in records] == list(range(count))
        last = records[-1].offset
        assert [record.offset for record in await records_of(log.read(last))] == [last]
        middle = records[count // 2].offset
        assert await records_of(log.read(middle, last)) == records[count // 2 : -1]

    async def test_an_unknown_topic_or_partition_is_not_found_at_the_first_step(
        self, cw: Client, log: Log, topic: str
    ) -> None:
        for missing in (cw.log(f"{topic}-missing"), cw.log(topic, 1)):
            for follow in (False, True):
                reader = missing.read(follow=follow)
                with pytest.raises(NotFound):
                    await anext(reader)
                await reader.close()
