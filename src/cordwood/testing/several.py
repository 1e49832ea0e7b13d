"""Reads of several partitions at once, and of offsets that a program knows."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pytest

from cordwood.client import Client
from cordwood.errors import Conflict, InvalidInput, NotFound, Trimmed, Unavailable
from cordwood.log import Follow, Log, PartitionsReader, Reader
from cordwood.records import Batch, StoredBatch
from cordwood.testing.following import waiting
from cordwood.testing.positions import FOLLOWS
from cordwood.testing.under_test import UnderTest, numbered, promised

COUNT = 4
EACH = 12

Offsets = dict[int, list[int]]


async def offsets_of(reader: Reader) -> Offsets:
    """The offsets up to the reader's end, by partition, in the order in which they came."""
    found: Offsets = defaultdict(list)
    async for batch in reader:
        assert batch.partition is not None
        found[batch.partition] += batch.offsets
    return dict(found)


async def next_of(reader: PartitionsReader, wanted: Mapping[int, int]) -> dict[int, list[bytes | None]]:
    """The next values of partitions, as many of each as wanted."""
    found: dict[int, list[bytes | None]] = {partition: [] for partition in wanted}
    while any(len(found[partition]) < count for partition, count in wanted.items()):
        batch = await anext(reader)
        assert batch.partition is not None
        found[batch.partition] += batch.values
    return found


class Several(UnderTest):
    """`cw.read`, and `log.fetch`."""

    @pytest.fixture
    async def four(self, cw: Client, topic: str) -> Offsets:
        """The offsets of four partitions with twelve records each, in three batches; a value names its place."""
        await cw.create_topic(topic, partitions=COUNT)
        offsets: Offsets = {}
        for partition in range(COUNT):
            values = numbered(EACH, f"{partition}-")
            offsets[partition] = [
                offset
                for at in range(0, EACH, 4)
                for offset in await cw.log(topic, partition).append(Batch.of(values[at : at + 4]))
            ]
        return offsets

    # -- partitions --------------------------------------------------------------------------------------------

    async def test_all_partitions_are_read_each_in_its_order(self, cw: Client, topic: str, four: Offsets) -> None:
        found: dict[int, list[tuple[int, bytes | None]]] = defaultdict(list)
        async with cw.read(topic) as reader:
            async for batch in reader:
                assert type(batch) is StoredBatch
                assert batch.partition is not None
                found[batch.partition] += zip(batch.offsets, batch.values, strict=True)
        for partition in range(COUNT):
            wanted = zip(four[partition], numbered(EACH, f"{partition}-"), strict=True)
            assert found[partition] == list(wanted)

    async def test_a_batch_of_one_log_names_its_partition_too(self, cw: Client, topic: str, four: Offsets) -> None:
        async for batch in cw.log(topic, 2).read(four[2][1]):
            assert batch.partition == 2
            assert batch[1:].partition == 2

    async def test_exactly_the_named_partitions_are_read_from_their_starts(
        self, cw: Client, topic: str, four: Offsets
    ) -> None:
        found = await offsets_of(cw.read(topic, {1: four[1][5], 3: four[3][11], 2: four[2][-1] + 1}))
        assert found == {1: four[1][5:], 3: four[3][11:]}

    async def test_each_partition_has_its_own_stop(self, cw: Client, topic: str, four: Offsets) -> None:
        stops = {0: four[0][3], 1: four[1][-1] + 1000, 2: 0}
        assert await offsets_of(cw.read(topic, stop=stops)) == {0: four[0][:3], 1: four[1], 3: four[3]}
        starts = {0: four[0][2], 1: four[1][10]}
        assert await offsets_of(cw.read(topic, starts, {0: four[0][3]})) == {0: four[0][2:3], 1: four[1][10:]}

    async def test_a_read_of_no_partition_ends_at_once(self, cw: Client, topic: str, four: Offsets) -> None:
        assert await offsets_of(cw.read(topic, {})) == {}
        assert await offsets_of(cw.read(topic, "end")) == {}

    async def test_a_read_of_all_ends_where_each_partition_ended_at_the_call(
        self, cw: Client, topic: str, four: Offsets
    ) -> None:
        readers = [cw.read(topic), cw.read(topic, dict.fromkeys(range(COUNT), 0))]
        for partition in range(COUNT):
            await cw.log(topic, partition).append(Batch.of([b"later"]))
        for reader in readers:
            assert await offsets_of(reader) == four

    async def test_from_the_end_a_reader_gets_all_that_comes_after_the_call(
        self, cw: Client, topic: str, four: Offsets
    ) -> None:
        async with cw.read(topic, "end", follow=True) as reader:
            for partition in (3, 1):
                await cw.log(topic, partition).append(Batch.of([b"later %d" % partition]))
            assert await next_of(reader, {1: 1, 3: 1}) == {1: [b"later 1"], 3: [b"later 3"]}

    async def test_a_follower_of_several_sees_what_is_there_and_what_comes(
        self, cw: Client, topic: str, four: Offsets
    ) -> None:
        async with cw.read(topic, {0: 0, 2: four[2][-1]}, follow=True) as reader:
            found = await next_of(reader, {0: EACH, 2: 1})
            assert found == {0: numbered(EACH, "0-"), 2: numbered(EACH, "2-")[-1:]}
            for turn in range(4):
                task = await waiting(reader)
                await cw.log(topic, 1).append(Batch.of([b"of no interest"]))
                await cw.log(topic, turn % 2 * 2).append(Batch.of([b"%d" % turn]))
                batch = await task
                assert (batch.partition, list(batch.values)) == (turn % 2 * 2, [b"%d" % turn])

    @promised("dense")
    async def test_a_follower_of_several_ends_when_all_are_at_their_stops(self, cw: Client, topic: str) -> None:
        await cw.create_topic(topic, partitions=2)
        following = asyncio.ensure_future(offsets_of(cw.read(topic, {0: 0, 1: 2}, {0: 3, 1: 4}, follow="wait")))
        await cw.log(topic, 0).append(Batch.of(numbered(9)))
        await asyncio.sleep(0.1)
        assert not following.done()
        await cw.log(topic, 1).append(Batch.of(numbered(9)))
        assert await asyncio.wait_for(following, 30) == {0: [0, 1, 2], 1: [2, 3]}

    async def test_a_partition_that_lags_does_not_hold_up_the_others(self, cw: Client, topic: str) -> None:
        await cw.create_topic(topic, partitions=3)
        for _ in range(24):
            await cw.log(topic, 0).append(Batch.of([bytes(10_000)] * 100))
        behind = 0
        async with cw.read(topic, follow=True) as reader:
            await anext(reader)
            await cw.log(topic, 2).append(Batch.of([b"live"]))
            while (batch := await anext(reader)).partition == 0:
                behind += len(batch)
            assert list(batch.values) == [b"live"]
            assert behind < 2300, "it came after all of the other partition"

    async def test_what_several_lag_behind_is_read_whole(self, cw: Client, topic: str) -> None:
        await cw.create_topic(topic, partitions=3)
        appended: Offsets = {partition: [] for partition in range(3)}
        for _ in range(9):
            for partition in range(3):
                appended[partition] += await cw.log(topic, partition).append(Batch.of([bytes(100_000)] * 5))
        assert await offsets_of(cw.read(topic)) == appended

    async def test_a_read_names_its_topic_as_that_of_one_log_does(self, cw: Client, topic: str, four: Offsets) -> None:
        id = (await cw.topic(topic)).id
        for follow in FOLLOWS:
            stops = {partition: offsets[-1] + 1 for partition, offsets in four.items()}
            assert await offsets_of(cw.read(topic, stop=stops, follow=follow, topic_id=id)) == four

    async def test_several_partitions_of_a_topic_created_again_are_a_conflict(
        self, cw: Client, topic: str, four: Offsets
    ) -> None:
        old = (await cw.topic(topic)).id
        await cw.delete_topic(topic)
        new = (await cw.create_topic(topic, partitions=COUNT)).id

        async def read(start: Any, follow: Follow) -> str:
            with pytest.raises(Conflict) as raised:
                await anext(cw.read(topic, start, follow=follow, topic_id=old))
            return str(raised.value)

        starts: list[Any] = ["first", "end", {0: 0}, {1: 5}]
        for text in await asyncio.gather(*(read(start, follow) for start in starts for follow in FOLLOWS)):
            assert old in text
            assert new in text

    @pytest.mark.parametrize("named", [False, True])
    async def test_a_follower_of_several_never_continues_in_the_next_topic(
        self, cw: Client, topic: str, four: Offsets, named: bool
    ) -> None:
        old = (await cw.topic(topic)).id if named else None
        starts = {partition: offsets[-1] + 1 for partition, offsets in four.items()}
        async with cw.read(topic, starts, follow=True, topic_id=old) as reader:
            task = await waiting(reader)
            await cw.delete_topic(topic)
            await cw.create_topic(topic, partitions=COUNT)
            await cw.log(topic, 1).append(Batch.of([b"new"] * 20))
            with pytest.raises((NotFound, Conflict) if named else NotFound):
                await asyncio.wait_for(task, 30)

    async def test_a_trimmed_start_of_one_partition_is_told_with_the_first_kept(
        self, cw: Client, topic: str, four: Offsets
    ) -> None:
        await cw.log(topic, 2).trim(before=four[2][5])
        for follow in (False, True):
            with pytest.raises(Trimmed) as raised:
                await anext(cw.read(topic, dict.fromkeys(range(COUNT), 0), follow=follow))
            assert raised.value.start == four[2][5]
        assert await offsets_of(cw.read(topic)) == {**four, 2: four[2][5:]}

    async def test_a_start_of_one_partition_beyond_its_end_is_invalid(
        self, cw: Client, topic: str, four: Offsets
    ) -> None:
        async def read(stop: dict[int, int] | None, follow: Follow) -> None:
            with pytest.raises(InvalidInput, match=rf"\b{end}\b.*\b{end + 5}\b"):
                await anext(cw.read(topic, {0: 0, 1: end + 5}, stop, follow))

        end = four[1][-1] + 1
        await asyncio.gather(*(read(stop, follow) for stop in (None, {1: end + 9}) for follow in (False, True)))

    @promised("dense")
    async def test_a_start_that_is_waited_for_holds_up_no_other_partition(
        self, cw: Client, topic: str, four: Offsets
    ) -> None:
        end = four[1][-1] + 1
        async with cw.read(topic, {0: four[0][0], 1: end + 2}, follow="wait") as reader:
            assert await next_of(reader, {0: EACH}) == {0: numbered(EACH, "0-")}
            task = await waiting(reader)
            await cw.log(topic, 1).append(Batch.of(numbered(3)))
            batch = await asyncio.wait_for(task, 30)
            assert (batch.partition, list(batch.offsets), list(batch.values)) == (1, [end + 2], [b"2"])

    async def test_an_unknown_topic_or_partition_of_several_is_not_found(
        self, cw: Client, topic: str, four: Offsets
    ) -> None:
        starts: list[Any] = ["first", "end", {0: 0}]
        for follow in FOLLOWS:
            for start in starts:
                with pytest.raises(NotFound):
                    await anext(cw.read(f"{topic}.missing", start, follow=follow))
            with pytest.raises(NotFound):
                await anext(cw.read(topic, {0: 0, COUNT: 0}, follow=follow))
            with pytest.raises(NotFound):
                await anext(cw.read(topic, stop={COUNT: 5}, follow=follow))

    async def test_what_is_no_start_or_stop_of_partitions_is_refused_at_the_call(
        self, cw: Client, topic: str, four: Offsets
    ) -> None:
        invalid: list[Any] = [("last", None), ({0: -1}, None), ({-1: 0}, None), ("first", {0: -1}), ({0: 0}, {1: 5})]
        for start, stop in invalid:
            with pytest.raises(InvalidInput):
                cw.read(topic, start, stop)
        wrong: list[Any] = [
            (0, None),
            (None, None),
            ({0: "0"}, None),
            ({"0": 0}, None),
            ("first", 5),
            ("first", {0: 1.5}),
        ]
        for start, stop in wrong:
            with pytest.raises(TypeError):
                cw.read(topic, start, stop)
        with pytest.raises(InvalidInput, match="follow is"):
            cw.read(topic, follow="end")  # type: ignore[arg-type]  # tested on purpose
        with pytest.raises(TypeError, match="topic_id is a str"):
            cw.read(topic, topic_id=7)  # type: ignore[arg-type]  # tested on purpose
        with pytest.raises(InvalidInput):
            cw.read("no/name")

    # -- a reader of several -----------------------------------------------------------------------------------

    async def test_the_position_is_one_past_what_the_reader_has_returned(
        self, cw: Client, topic: str, four: Offsets
    ) -> None:
        starts = {0: four[0][0], 1: four[1][7]}
        async with cw.read(topic, starts) as reader:
            expected = dict(starts)
            assert {partition: reader.position(partition) for partition in starts} == expected
            async for batch in reader:
                assert batch.partition is not None
                expected[batch.partition] = batch.offsets[-1] + 1
                assert {partition: reader.position(partition) for partition in starts} == expected
            assert expected == {partition: four[partition][-1] + 1 for partition in starts}
            with pytest.raises(InvalidInput):
                reader.position(2)

    async def test_a_position_that_was_kept_is_where_the_next_reader_continues(
        self, cw: Client, topic: str, four: Offsets
    ) -> None:
        async with cw.read(topic) as reader:
            first = await anext(reader)
            assert first.partition is not None
            positions = {partition: reader.position(partition) for partition in range(COUNT)}
        rest = await offsets_of(cw.read(topic, positions))
        assert {**rest, first.partition: [*first.offsets, *rest.get(first.partition, [])]} == four

    async def test_a_partition_may_be_added_while_the_reader_waits(self, cw: Client, topic: str, four: Offsets) -> None:
        async with cw.read(topic, {}, follow=True) as reader:
            task = await waiting(reader)
            reader.add(2, four[2][10])
            batch = await asyncio.wait_for(task, 30)
            assert (batch.partition, batch.offsets[0]) == (2, four[2][10])
            assert reader.position(2) == batch.offsets[-1] + 1
            reader.add(0, four[0][0])
            assert reader.position(0) == four[0][0]
            wanted = {0: EACH, 2: 2 - len(batch)}
            assert (await next_of(reader, wanted))[0] == numbered(EACH, "0-")
            with pytest.raises(InvalidInput):
                reader.add(0, 0)

    async def test_only_a_follower_takes_one_more_partition(self, cw: Client, topic: str, four: Offsets) -> None:
        async with cw.read(topic, {0: 0}) as reader:
            with pytest.raises(InvalidInput):
                reader.add(1, 0)

    async def test_a_partition_that_is_added_must_be_there_and_have_its_start(
        self, cw: Client, topic: str, four: Offsets
    ) -> None:
        await cw.log(topic, 1).trim(before=four[1][3])
        for partition, start, kind in ((1, four[1][2], Trimmed), (COUNT, 0, NotFound), (2, 1000, InvalidInput)):
            async with cw.read(topic, {0: four[0][-1] + 1}, follow=True) as reader:
                task = await waiting(reader)
                reader.add(partition, start)
                with pytest.raises(kind):
                    await asyncio.wait_for(task, 30)

    async def test_nothing_is_returned_of_a_partition_after_it_was_dropped(
        self, cw: Client, topic: str, four: Offsets
    ) -> None:
        async with cw.read(topic, follow=True) as reader:
            await anext(reader)
            for partition in (0, 2):
                reader.drop(partition)
                reader.drop(partition)
            for partition in range(COUNT):
                await cw.log(topic, partition).append(Batch.of([b"last"]))
            ended: set[int | None] = set()
            while ended != {1, 3}:
                batch = await anext(reader)
                assert batch.partition in (1, 3)
                if batch.values[-1] == b"last":
                    ended.add(batch.partition)
            with pytest.raises(InvalidInput):
                reader.position(0)

    async def test_a_partition_that_was_dropped_may_be_added_at_another_place(
        self, cw: Client, topic: str, four: Offsets
    ) -> None:
        async with cw.read(topic, {0: four[0][0]}, follow=True) as reader:
            for start in (6, 1, 11, 0):
                reader.drop(0)
                reader.add(0, four[0][start])
                found = await next_of(reader, {0: EACH - start})
                assert found == {0: numbered(EACH, "0-")[start:]}
                assert reader.position(0) == four[0][-1] + 1

    async def test_a_wait_for_several_that_is_cancelled_loses_no_batch(
        self, cw: Client, topic: str, four: Offsets
    ) -> None:
        found: list[bytes | None] = []
        async with cw.read(topic, "end", follow=True) as reader:
            for turn, value in enumerate(numbered(20)):
                task = asyncio.ensure_future(anext(reader))
                appending = asyncio.ensure_future(cw.log(topic, turn % COUNT).append(Batch.of([value])))
                for _ in range(turn % 6):
                    await asyncio.sleep(0.0005)
                task.cancel()
                (result,) = await asyncio.gather(task, return_exceptions=True)
                if isinstance(result, StoredBatch):
                    found += result.values
                await appending
            while len(found) < 20:
                found += (await anext(reader)).values
        assert sorted(value or b"" for value in found) == sorted(value or b"" for value in numbered(20))

    async def test_a_follower_of_several_that_is_closed_while_it_waits_ends(
        self, cw: Client, topic: str, four: Offsets
    ) -> None:
        reader = cw.read(topic, "end", follow=True)
        tasks = [await waiting(reader) for _ in range(2)]
        await reader.close()
        await reader.close()
        ends = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
        assert [type(end) for end in ends] == [StopAsyncIteration] * 2
        with pytest.raises(StopAsyncIteration):
            await anext(reader)

    async def test_a_follower_of_several_ends_with_its_connection(
        self, url: str, cw: Client, topic: str, four: Offsets
    ) -> None:
        async with self.connect(url) as other:
            task = await waiting(other.read(topic, "end", follow=True))
        with pytest.raises(StopAsyncIteration):
            await task
        with pytest.raises(Unavailable):
            other.read(topic)

    async def test_a_follower_of_several_of_a_deleted_topic_is_told(
        self, cw: Client, topic: str, four: Offsets
    ) -> None:
        async with cw.read(topic, "end", follow=True) as reader:
            task = await waiting(reader)
            await cw.delete_topic(topic)
            with pytest.raises(NotFound):
                await asyncio.wait_for(task, 10)

    async def test_tasks_that_share_a_reader_of_several_get_each_batch_once(
        self, cw: Client, topic: str, four: Offsets
    ) -> None:
        reader = cw.read(topic)
        parts = await asyncio.wait_for(asyncio.gather(offsets_of(reader), offsets_of(reader)), 30)
        both = {partition: sorted(parts[0].get(partition, []) + parts[1].get(partition, [])) for partition in four}
        assert both == four

    # -- known offsets -----------------------------------------------------------------------------------------

    @pytest.fixture
    async def many(self, log: Log) -> list[int]:
        """The offsets of 3,000 records in 60 batches; each value is the record's index."""
        values = numbered(3000)
        return [offset for at in range(0, 3000, 50) for offset in await log.append(Batch.of(values[at : at + 50]))]

    @pytest.mark.parametrize(
        "wanted",
        [[], [0], [2999], [5, 6, 7], [49, 50], list(range(0, 3000, 700)), list(range(1000, 1300)), [0, 1, 1500, 2998]],
        ids=["none", "first", "last", "dense", "two batches", "sparse", "many", "mixed"],
    )
    async def test_known_offsets_give_their_records_in_order(
        self, log: Log, many: list[int], wanted: list[int]
    ) -> None:
        records = await log.fetch([many[index] for index in wanted])
        assert [(record.offset, record.value) for record in records] == [
            (many[index], b"%d" % index) for index in wanted
        ]

    async def test_a_known_record_has_all_its_parts(self, log: Log) -> None:
        batch = Batch.of([b"a", None], keys=[None, b"k"], headers=[[("h", b"1")], []], timestamps=[10, 20])
        offsets = await log.append(batch)
        whole = [record async for stored in log.read() for record in stored]
        assert await log.fetch(offsets) == whole

    async def test_a_fetch_of_some_bytes_returns_the_first_records(self, log: Log) -> None:
        offsets = [offset for _ in range(40) for offset in await log.append(Batch.of([bytes(100_000)]))]
        rest, rounds = offsets, 0
        while found := await log.fetch(rest, bytes_max=1):
            assert [record.offset for record in found] == rest[: len(found)]
            rest, rounds = rest[len(found) :], rounds + 1
        assert not rest
        assert rounds > 1
        assert len(await log.fetch(offsets, bytes_max=4_000_000)) == 40

    async def test_a_known_offset_that_was_trimmed_is_told_with_the_first_kept(self, log: Log, many: list[int]) -> None:
        await log.trim(before=many[70])
        for wanted in ([0], [69], [3, 2000], [69, 70]):
            with pytest.raises(Trimmed) as raised:
                await log.fetch([many[index] for index in wanted])
            assert raised.value.start == many[70]
        assert [record.value for record in await log.fetch([many[70], many[2000]])] == [b"70", b"2000"]

    async def test_offsets_that_the_log_has_not_reached_are_left_out(self, log: Log, many: list[int]) -> None:
        end = many[-1] + 1
        assert await log.fetch([end]) == []
        assert await log.fetch([end + 1000]) == []
        records = await log.fetch([many[7], many[-1], end, end + 1, end + 5000])
        assert [record.offset for record in records] == [many[7], many[-1]]

    async def test_of_an_empty_log_no_offset_is_known(self, log: Log) -> None:
        assert await log.fetch([0, 5]) == []
        assert await log.fetch([]) == []

    async def test_a_fetch_sees_what_was_just_acked(self, log: Log) -> None:
        for value in numbered(20):
            offsets = await log.append(Batch.of([value]))
            assert [record.value for record in await log.fetch(offsets)] == [value]

    async def test_fetches_at_once_do_not_disturb_each_other(self, log: Log, many: list[int]) -> None:
        async def fetch(first: int) -> None:
            wanted = range(first, 3000, 311)
            records = await log.fetch([many[index] for index in wanted])
            assert [record.value for record in records] == [b"%d" % index for index in wanted]

        await asyncio.gather(*(fetch(first) for first in range(0, 300, 12)))

    async def test_known_offsets_that_do_not_increase_are_invalid(self, log: Log, many: list[int]) -> None:
        for wrong in ([5, 5], [6, 5], [-1]):
            with pytest.raises(InvalidInput):
                await log.fetch(wrong)
        with pytest.raises(TypeError):
            await log.fetch([1.5])  # type: ignore[list-item]  # tested on purpose

    async def test_a_fetch_of_an_unknown_log_is_not_found(self, cw: Client, log: Log, topic: str) -> None:
        for missing in (cw.log(f"{topic}.missing"), cw.log(topic, 1)):
            with pytest.raises(NotFound):
                await missing.fetch([0])
