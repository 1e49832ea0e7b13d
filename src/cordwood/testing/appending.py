"""One append: its offsets, and every part of a record as it was given."""

import time
from typing import Any

import pytest

from cordwood.errors import Conflict, InvalidInput, TooLarge
from cordwood.log import Log
from cordwood.records import Batch, Record, StoredRecord
from cordwood.testing.under_test import (
    UnderTest,
    numbered,
    promised,
    raises_as_write,
    records_of,
    values_of,
)


class Appending(UnderTest):
    """Appends, one at a time."""

    async def test_a_new_log_is_empty_and_starts_at_0(self, log: Log) -> None:
        assert await log.bounds() == (0, 0)
        assert await values_of(log) == []

    async def test_each_append_gets_the_offsets_after_the_last(self, log: Log) -> None:
        first = await log.append(Batch.of(numbered(3)))
        second = await log.append(Batch.of(numbered(1)))
        self.check_offsets(first, 0, 3)
        self.check_offsets(second, first[-1] + 1, 1)
        assert await log.bounds() == (first[0], second[-1] + 1)

    async def test_consecutive_offsets_are_a_range(self, log: Log) -> None:
        offsets = await log.append(Batch.of(numbered(4)))
        if list(offsets) == list(range(offsets[0], offsets[0] + 4)):
            assert isinstance(offsets, range)

    async def test_records_are_read_in_the_order_of_their_appends(self, log: Log) -> None:
        wanted = numbered(25)
        for index in range(0, 25, 5):
            await log.append(Batch.of(wanted[index : index + 5]))
        assert await values_of(log) == wanted

    async def test_the_offsets_that_are_returned_are_those_that_are_read(self, log: Log) -> None:
        returned = [*await log.append(Batch.of(numbered(3))), *await log.append(Batch.of(numbered(2)))]
        assert [record.offset for record in await records_of(log.read())] == returned

    async def test_null_and_empty_values_stay_apart(self, log: Log) -> None:
        values = [b"", None, b"a", None, b""]
        await log.append(Batch.of(values))
        assert await values_of(log) == values

    async def test_null_and_empty_keys_stay_apart(self, log: Log) -> None:
        keys = [None, b"", b"k", b"", None]
        await log.append(Batch.of(numbered(5), keys=keys))
        await log.append(Batch.of(numbered(2)))
        assert [record.key for record in await records_of(log.read())] == [*keys, None, None]

    async def test_headers_keep_their_order_duplicates_nulls_and_unicode(self, log: Log) -> None:
        headers: list[list[tuple[str, bytes | None]]] = [
            [("b", b"1"), ("a", None), ("b", b"2"), ("b", b"1")],
            [],
            [("größe-大きさ-🪵", b"ja"), ("", b"")],
        ]
        await log.append(Batch.of(numbered(3), headers=headers))
        await log.append(Batch.of([b"without"]))
        read = [record.headers for record in await records_of(log.read())]
        assert read == [*map(tuple, headers), ()]

    async def test_what_was_read_may_be_appended_again(self, log: Log) -> None:
        keys, stamps = [b"k", None, b""], [1_700_000_000_000 + number for number in range(3)]
        headers: list[list[tuple[str, bytes | None]]] = [[("h", b"1")], [], [("h", None)]]
        await log.append(Batch.of([b"a", None, b""], keys=keys, headers=headers, timestamps=stamps))
        async with log.read() as reader:
            read = [batch async for batch in reader]
        for batch in read:
            await log.append(batch)
        first = [record[:4] for record in await records_of(log.read())]
        assert first[3:] == first[:3]

    async def test_every_byte_may_be_in_a_value_and_a_key(self, log: Log) -> None:
        every = bytes(range(256))
        await log.append(Batch.of([every], keys=[every[::-1]]))
        (record,) = await records_of(log.read())
        assert (record.value, record.key) == (every, every[::-1])

    async def test_given_timestamps_are_kept(self, log: Log) -> None:
        given = [1_700_000_000_123, self.timestamp_min, 4_102_444_800_000, 1_700_000_000_123]
        await log.append(Batch.of(numbered(4), timestamps=given))
        assert [record.timestamp for record in await records_of(log.read())] == given

    async def test_a_missing_timestamp_is_the_time_of_the_append(self, log: Log) -> None:
        before = time.time_ns() // 1_000_000
        await log.append(Batch.of(numbered(2)))
        after = time.time_ns() // 1_000_000
        assert all(before <= record.timestamp <= after for record in await records_of(log.read()))

    async def test_a_stored_batch_can_be_appended_as_it_is(self, log: Log) -> None:
        await log.append(Batch.of([b"a", None], keys=[None, b"k"], headers=[[("h", b"1")], []], timestamps=[7, 5]))
        async with log.read() as reader:
            await log.append(await anext(reader))
        records = await records_of(log.read())
        assert [record[:4] for record in records[:2]] == [record[:4] for record in records[2:]]

    async def test_a_record_read_has_all_that_was_given(self, log: Log) -> None:
        await log.append(Batch.of([b"v"], keys=[b"k"], headers=[[("h", None)]], timestamps=[1]))
        (record,) = await records_of(log.read())
        assert record == StoredRecord(b"v", b"k", (("h", None),), 1, record.offset)
        assert isinstance(record, Record)

    async def test_a_batch_of_10_000_records_is_read_back_whole(self, log: Log) -> None:
        values = numbered(10_000)
        self.check_offsets(await log.append(Batch.of(values, keys=values)), 0, 10_000)
        records = await records_of(log.read())
        assert [record.value for record in records] == values
        assert [record.key for record in records] == values

    async def test_a_record_of_a_mebibyte_is_read_back_whole(self, log: Log) -> None:
        big = bytes(range(256)) * 4096
        await log.append(Batch.of([b"before"]))
        await log.append(Batch.of([big], keys=[b"k"]))
        await log.append(Batch.of([b"after"]))
        assert await values_of(log) == [b"before", big, b"after"]

    async def test_a_batch_of_exactly_the_limit_is_accepted(self, log: Log) -> None:
        batch = self.batch_of_bytes(self.batch_bytes_max)
        await log.append(batch)
        assert await values_of(log) == list(batch.values)

    async def test_a_batch_over_the_limit_is_too_large_and_writes_nothing(self, log: Log) -> None:
        whole = self.batch_of_bytes(self.batch_bytes_max)
        value = whole.values[0]
        assert value is not None
        await log.append(Batch.of([b"before"]))
        end = (await log.bounds())[1]
        for over in (Batch.of([value + b"x"]), Batch.of([value * 3])):
            with raises_as_write(TooLarge, "not_written"):
                await log.append(over)
        assert (await log.bounds())[1] == end
        self.check_offsets(await log.append(Batch.of([b"after"])), end, 1)
        assert await values_of(log) == [b"before", b"after"]

    @promised("atomic_batches")
    async def test_of_a_batch_over_the_limit_not_even_the_first_records_are_written(self, log: Log) -> None:
        half = bytes(self.batch_bytes_max // 2)
        with raises_as_write(TooLarge, "not_written"):
            await log.append(Batch.of([b"first", half, half]))
        assert await log.bounds() == (0, 0)

    async def test_an_empty_batch_is_invalid_and_writes_nothing(self, log: Log) -> None:
        with raises_as_write(InvalidInput, "not_written"):
            await log.append(Batch.of([]))
        assert await log.bounds() == (0, 0)

    async def test_what_is_no_batch_is_a_type_error(self, log: Log) -> None:
        with pytest.raises(TypeError):
            await log.append([b"a"])  # type: ignore[arg-type]  # tested on purpose
        assert await log.bounds() == (0, 0)

    @promised("expected_offsets")
    async def test_what_is_no_whole_number_is_expected_of_no_append(self, log: Log) -> None:
        wrong: list[Any] = [0.0, "0"]
        for expected in wrong:
            with pytest.raises(TypeError, match="expected is an int, not"):
                await log.append(Batch.of([b"x"]), expected=expected)
        assert await log.bounds() == (0, 0)

    @promised("expected_offsets")
    async def test_an_append_at_the_expected_offset_is_accepted(self, log: Log) -> None:
        assert await log.append(Batch.of(numbered(2)), expected=0) == range(2)
        assert await log.append(Batch.of(numbered(1)), expected=2) == range(2, 3)

    @promised("expected_offsets")
    async def test_an_append_at_another_offset_is_a_conflict_with_the_actual_one(self, log: Log) -> None:
        await log.append(Batch.of(numbered(3)))
        for wrong in (0, 2, 4, 100):
            with raises_as_write(Conflict, "not_written") as caught:
                await log.append(Batch.of([b"x"]), expected=wrong)
            assert caught.value.actual == 3
        assert await log.bounds() == (0, 3)
