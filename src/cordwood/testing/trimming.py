"""Trimming the oldest records, and finding an offset by time."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest

from cordwood.client import Client
from cordwood.errors import InvalidInput, Trimmed
from cordwood.log import Log
from cordwood.records import Batch
from cordwood.testing.under_test import UnderTest, numbered, promised, records_of, values_of

DAY = datetime(2024, 2, 29, tzinfo=UTC)


def stamp(seconds: float) -> int:
    """A record's timestamp, so many seconds into the day."""
    return round((DAY.timestamp() + seconds) * 1000)


def moment(seconds: float) -> datetime:
    """The same moment, as `offset_at` takes it."""
    return DAY + timedelta(seconds=seconds)


class Trimming(UnderTest):
    """`trim` and `offset_at`."""

    @pytest.fixture
    async def twenty(self, log: Log) -> list[int]:
        """The offsets of 20 records in four batches."""
        values = numbered(20)
        return [offset for at in range(0, 20, 5) for offset in await log.append(Batch.of(values[at : at + 5]))]

    async def test_trim_forgets_what_is_before(self, log: Log, twenty: list[int]) -> None:
        await log.trim(before=twenty[5])
        assert await log.bounds() == (twenty[5], twenty[-1] + 1)
        assert await values_of(log) == numbered(20)[5:]

    async def test_trim_may_cut_a_batch(self, log: Log, twenty: list[int]) -> None:
        await log.trim(before=twenty[7])
        assert await log.bounds() == (twenty[7], twenty[-1] + 1)
        assert await values_of(log) == numbered(20)[7:]

    async def test_a_read_below_the_first_kept_offset_is_trimmed_and_names_it(
        self, log: Log, twenty: list[int]
    ) -> None:
        await log.trim(before=twenty[7])
        for start in (twenty[0], twenty[6]):
            for follow in (False, True):
                async with log.read(start, follow=follow) as reader:
                    with pytest.raises(Trimmed) as caught:
                        await anext(reader)
                    assert caught.value.start == twenty[7]
        assert await values_of(log, twenty[7]) == numbered(20)[7:]

    async def test_trim_again_or_below_changes_nothing(self, log: Log, twenty: list[int]) -> None:
        await log.trim(before=twenty[7])
        for before in (twenty[7], twenty[3], 0):
            await log.trim(before=before)
            assert await log.bounds() == (twenty[7], twenty[-1] + 1)

    async def test_trim_of_an_empty_log_to_its_end_changes_nothing(self, log: Log) -> None:
        await log.trim(before=0)
        assert await log.bounds() == (0, 0)

    async def test_after_trimming_everything_offsets_go_on(self, log: Log, twenty: list[int]) -> None:
        end = twenty[-1] + 1
        await log.trim(before=end)
        assert await log.bounds() == (end, end)
        assert await values_of(log) == []
        self.check_offsets(await log.append(Batch.of([b"next"])), end, 1)
        assert await values_of(log) == [b"next"]

    @promised("reopens")
    async def test_what_was_trimmed_stays_so_for_the_next_connection(self, url: str, topic: str) -> None:
        async with self.connect(url) as cw:
            await cw.create_topic(topic)
            offsets = await cw.log(topic).append(Batch.of(numbered(10)))
            await cw.log(topic).trim(before=offsets[4])
        async with self.connect(url) as cw:
            log = cw.log(topic)
            assert await log.bounds() == (offsets[4], offsets[-1] + 1)
            with pytest.raises(Trimmed):
                await values_of(log, offsets[3])
            assert await values_of(log) == numbered(10)[4:]

    @promised("reopens")
    async def test_after_trimming_everything_the_next_connection_goes_on_too(self, url: str, topic: str) -> None:
        async with self.connect(url) as cw:
            await cw.create_topic(topic)
            end = (await cw.log(topic).append(Batch.of(numbered(10))))[-1] + 1
            await cw.log(topic).trim(before=end)
        for turn in range(2):
            async with self.connect(url) as cw:
                log = cw.log(topic)
                assert await log.bounds() == (end, end + turn)
                with pytest.raises(Trimmed) as caught:
                    await values_of(log, end - 1)
                assert caught.value.start == end
                self.check_offsets(await log.append(Batch.of([b"next"])), end + turn, 1)

    async def test_trim_beyond_the_end_is_invalid_and_forgets_nothing(self, log: Log, twenty: list[int]) -> None:
        for before in (twenty[-1] + 2, 2**63, 2**70):
            with pytest.raises(InvalidInput):
                await log.trim(before=before)
        assert await values_of(log) == numbered(20)

    async def test_a_negative_trim_is_invalid(self, log: Log, twenty: list[int]) -> None:
        with pytest.raises(InvalidInput):
            await log.trim(before=-1)

    async def test_a_trim_to_no_whole_number_changes_nothing(self, log: Log, twenty: list[int]) -> None:
        with pytest.raises(TypeError):
            await log.trim(before=twenty[1] + 0.5)  # type: ignore[arg-type]  # tested on purpose
        assert await log.bounds() == (twenty[0], twenty[-1] + 1)

    async def test_every_connection_sees_the_trim(self, url: str, cw: Client, log: Log, twenty: list[int]) -> None:
        async with self.connect(url) as other:
            same = other.log(log.topic)
            assert await same.bounds() == (twenty[0], twenty[-1] + 1)
            await log.trim(before=twenty[12])
            assert await same.bounds() == (twenty[12], twenty[-1] + 1)
            assert await values_of(same) == numbered(20)[12:]

    async def test_trims_at_once_leave_the_highest(self, log: Log, twenty: list[int]) -> None:
        await asyncio.gather(*(log.trim(before=twenty[place]) for place in (3, 15, 7, 11, 2)))
        assert (await log.bounds())[0] == twenty[15]

    async def test_a_trim_over_segments_keeps_exactly_the_rest(self, log: Log) -> None:
        size = 128 * 1024
        count = self.segment_bytes // size + 2
        offsets = [(await log.append(Batch.of([bytes(size)])))[0] for _ in range(count)]
        for keep in (count // 2, 1):
            await log.trim(before=offsets[-keep])
            assert [record.offset for record in await records_of(log.read())] == offsets[-keep:]

    async def test_a_reader_that_is_overtaken_by_a_trim_never_skips(self, log: Log) -> None:
        size = 64 * 1024
        count = self.segment_bytes // size + 2
        offsets = [(await log.append(Batch.of([bytes(size)])))[0] for _ in range(count)]
        read: list[int] = []
        async with log.read() as reader:
            read += (await anext(reader)).offsets
            await log.trim(before=offsets[-1])
            told: int | None = None
            try:
                async for batch in reader:
                    read += batch.offsets
            except Trimmed as trimmed:
                told = trimmed.start
        assert read == offsets[: len(read)]
        assert told == (None if len(read) == count else offsets[-1])

    async def test_appends_go_on_while_the_log_is_trimmed(self, log: Log) -> None:
        async def append() -> list[int]:
            return [(await log.append(Batch.of([b"%d" % turn])))[0] for turn in range(60)]

        appending = asyncio.ensure_future(append())
        while not appending.done():
            await log.trim(before=(await log.bounds())[1])
            await asyncio.sleep(0)
        offsets = await appending
        self.check_offsets(range(offsets[0], offsets[-1] + 1) if self.dense else offsets, 0, 60)
        start, end = await log.bounds()
        assert end == offsets[-1] + 1
        assert [record.offset for record in await records_of(log.read())] == [o for o in offsets if o >= start]

    # -- by time -----------------------------------------------------------------------------------------------

    async def test_offset_at_finds_the_first_record_at_or_after(self, log: Log) -> None:
        for begin in (10, 20, 30):
            await log.append(Batch.of(numbered(2), timestamps=[stamp(begin), stamp(begin + 5)]))
        offsets = [record.offset for record in await records_of(log.read())]
        for wanted, seconds in ((0, 0.0), (0, 10), (1, 10.001), (1, 12), (1, 15), (2, 16), (4, 25.5), (5, 35)):
            assert await log.offset_at(moment(seconds)) == offsets[wanted], f"at {seconds} s"

    async def test_offset_at_after_the_last_record_is_the_end(self, log: Log) -> None:
        assert await log.offset_at(moment(0)) == 0
        await log.append(Batch.of(numbered(3), timestamps=[stamp(1)] * 3))
        assert await log.offset_at(moment(1.001)) == (await log.bounds())[1]

    async def test_offset_at_finds_the_first_even_where_timestamps_go_back(self, log: Log) -> None:
        for seconds in (10, 50, 20, 30, 60, 5):
            await log.append(Batch.of([b"x"], timestamps=[stamp(seconds)]))
        offsets = [record.offset for record in await records_of(log.read())]
        for wanted, seconds in ((0, 5), (0, 10), (1, 11), (1, 50), (4, 51), (4, 60)):
            assert await log.offset_at(moment(seconds)) == offsets[wanted], f"at {seconds} s"

    async def test_offset_at_looks_into_batches_whose_timestamps_go_back(self, log: Log) -> None:
        offsets = await log.append(Batch.of(numbered(4), timestamps=[stamp(s) for s in (30, 10, 40, 20)]))
        assert await log.offset_at(moment(15)) == offsets[0]
        assert await log.offset_at(moment(35)) == offsets[2]

    async def test_offset_at_never_names_what_was_trimmed(self, log: Log) -> None:
        offsets = await log.append(Batch.of(numbered(6), timestamps=[stamp(s) for s in range(6)]))
        await log.trim(before=offsets[3])
        assert await log.offset_at(moment(0)) == offsets[3]
        assert await log.offset_at(moment(4)) == offsets[4]
        await log.trim(before=offsets[-1] + 1)
        assert await log.offset_at(moment(0)) == offsets[-1] + 1

    async def test_offset_at_counts_time_zones(self, log: Log) -> None:
        offsets = await log.append(Batch.of(numbered(2), timestamps=[stamp(0), stamp(3600)]))
        east = timezone(timedelta(hours=5, minutes=30))
        assert await log.offset_at(moment(1).astimezone(east)) == offsets[1]
        with pytest.raises(InvalidInput):
            await log.offset_at(datetime(2024, 2, 29))  # without a time zone it names no moment

    async def test_offset_at_is_exact_to_the_microsecond(self, log: Log) -> None:
        # Computed with floats, it is one millisecond off for some moments, such as this one.
        near = datetime(1970, 1, 1, 0, 0, 2, 7_000, UTC)
        offsets = await log.append(Batch.of(numbered(2), timestamps=[2007, 2008]))
        assert await log.offset_at(near) == offsets[0]
        assert await log.offset_at(near + timedelta(microseconds=1)) == offsets[1]
        with pytest.raises(TypeError):
            await log.offset_at("1970-01-01")  # type: ignore[arg-type]  # tested on purpose

    async def test_offset_at_over_segments(self, log: Log) -> None:
        size = 128 * 1024
        count = self.segment_bytes // size + 2
        offsets: list[int] = []
        for index in range(count):
            offsets += await log.append(Batch.of([bytes(size)], timestamps=[stamp(index)]))
        for index in (0, 1, count // 3, count // 2, count - 1):
            assert await log.offset_at(moment(index)) == offsets[index]
