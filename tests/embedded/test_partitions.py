"""Several partitions of a folder with one reader, and known offsets."""

import asyncio
import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

import cordwood
from cordwood import Batch, Corrupt, InvalidInput, NotFound
from cordwood.log.native.api.part import PartState
from cordwood.log.native.api.partitions import FolderPartitionsReader
from cordwood.log.native.stream.reading.blocks import PlogCursor
from cordwood.log.native.stream.reading.cursor import LogCursor, Step
from tests.embedded.test_reading_ahead import flip_bit_of_batch
from tests.support.folder.scripts import program
from tests.support.kafka.waiting import until

WRITER = """
with cordwood.sync.connect(url) as cw:
    cw.create_topic("events", partitions=3)
    say("writing")
    while line := told():
        verb, partition, value = line.split()
        log = cw.log("events", int(partition))
        if verb == "append":
            log.append(Batch.of([value.encode()]))
        else:
            log.trim(before=int(value))
        say(verb)
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def _is_resting(reader: FolderPartitionsReader) -> bool:
    """Whether it waits for growth, and no thread of it reads."""
    return {part.state for part in reader._parts.values()} == {PartState.RESTING} and not reader._threads


def _finish_looks(reader: FolderPartitionsReader) -> None:
    """Return when the connection's threads have done all that they were given: a busy one does not meet the others."""
    executor = reader._executor
    assert isinstance(executor, ThreadPoolExecutor)
    meeting = threading.Barrier(executor._max_workers)
    for arrival in [executor.submit(meeting.wait, 30) for _ in range(executor._max_workers)]:
        arrival.result(30)


@pytest.mark.processes
async def test_a_follower_of_several_beside_the_writing_process_sees_what_comes(data: Path) -> None:
    with program(WRITER, data) as writer:
        assert writer.says() == "writing"
        async with cordwood.connect(data, read_only=True) as cw, cw.read("events", follow=True) as reader:
            for number, partition in enumerate((2, 0, 0, 1, 2)):
                following = asyncio.ensure_future(anext(reader))
                writer.tell(f"append {partition} {number}")
                assert writer.says() == "append"
                batch = await asyncio.wait_for(following, 30)
                assert (batch.partition, list(batch.values)) == (partition, [b"%d" % number])
            assert [reader.position(partition) for partition in range(3)] == [2, 1, 2]
            assert [record.value for record in await cw.log("events").fetch([0, 1, 2])] == [b"1", b"2"]


@pytest.mark.processes
async def test_a_read_of_several_next_to_the_writer_ends_where_they_ended(data: Path) -> None:
    with program(WRITER, data) as writer:
        assert writer.says() == "writing"
        writer.tell("append 1 before")
        assert writer.says() == "append"
        async with cordwood.connect(data, read_only=True) as cw:
            await cw.topics()
            readers = [cw.read("events"), cw.read("events", {0: 0, 1: 0})]
            ends = cw.read("events", "end", follow=True)
            assert isinstance(ends, FolderPartitionsReader)
            _finish_looks(ends)
            writer.tell("append 1 after")
            assert writer.says() == "append"
            for reader in readers:
                assert [value async for batch in reader for value in batch.values] == [b"before"]
            assert list((await anext(ends)).values) == [b"after"]
            with pytest.raises(NotFound):
                await anext(cw.read("missing", {0: 0}))


async def test_many_partitions_that_lag_have_no_more_read_ahead_than_one(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cordwood.connect(data) as cw:
        await cw.create_topic("events", partitions=12)
        for partition in range(12):
            await cw.log("events", partition).append(Batch.of([bytes(1000)] * 1000))
        steps = 0
        fetch = LogCursor.fetch

        def counted(cursor: LogCursor, stop: int | None, read_bytes: int) -> Step | None:
            nonlocal steps
            step = fetch(cursor, stop, read_bytes)
            steps += step is not None
            return step

        monkeypatch.setattr(LogCursor, "fetch", counted)
        async with cw.read("events") as reader:
            assert isinstance(reader, FolderPartitionsReader)
            seen = 0
            async for batch in reader:
                seen += len(batch)
                await asyncio.gather(*map(asyncio.wrap_future, list(reader._jobs)))  # until no thread reads ahead
                assert steps <= seen // 1000 + 3
        assert seen == 12_000


async def test_an_append_to_one_partition_has_no_other_one_looked_at(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cordwood.connect(data) as cw:
        await cw.create_topic("events", partitions=20)
        looked: list[str] = []
        fetch = LogCursor.fetch

        def noted(cursor: LogCursor, stop: int | None, read_bytes: int) -> Step | None:
            looked.append(cursor._source.name)
            return fetch(cursor, stop, read_bytes)

        async with cw.read("events", follow=True) as reader:
            following = asyncio.ensure_future(anext(reader))
            await cw.log("events", 3).append(Batch.of([b"first"]))
            assert (await following).partition == 3
            following = asyncio.ensure_future(anext(reader))
            assert isinstance(reader, FolderPartitionsReader)
            await until(partial(_is_resting, reader))
            monkeypatch.setattr(LogCursor, "fetch", noted)
            await cw.log("events", 7).append(Batch.of([b"second"]))
            assert (await following).partition == 7
        assert set(looked) == {"events/7"}


async def test_a_follower_of_several_that_is_left_is_collected(data: Path) -> None:
    async with cordwood.connect(data) as cw:
        await cw.create_topic("events", partitions=2)
        reader = cw.read("events", follow=True)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(reader), 0.2)
        left = weakref.ref(reader)
        assert isinstance(reader, FolderPartitionsReader)
        await asyncio.gather(*map(asyncio.wrap_future, list(reader._jobs)))
        del reader
        gc.collect()
        assert left() is None
        await cw.log("events", 1).append(Batch.of([b"x"]))


async def test_a_damaged_partition_ends_the_reader_of_several_at_its_place(data: Path) -> None:
    async with cordwood.connect(data) as cw:
        await cw.create_topic("events", partitions=2)
        await cw.log("events", 1).append(Batch.of([b"small"]))
        for _ in range(4):
            await cw.log("events", 0).append(Batch.of([bytes(1024)] * 1000))
    flip_bit_of_batch(data, 2)
    seen: dict[int | None, list[int]] = {0: [], 1: []}
    async with cordwood.connect(data, read_only=True) as cw:
        reader = cw.read("events")
        with pytest.raises(Corrupt, match="is damaged at byte"):
            async for batch in reader:
                seen[batch.partition] += batch.offsets
        assert seen[0] == list(range(2000))
        assert reader.position(0) == 2000
        with pytest.raises(Corrupt, match="is damaged at byte"):
            await cw.log("events").fetch([5, 2500])
        assert [record.offset for record in await cw.log("events").fetch([5, 1999, 3000])] == [5, 1999, 3000]


async def test_a_fetch_reads_only_the_frames_of_its_offsets(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    read_one = PlogCursor.read_one

    def noted(cursor: PlogCursor, end: int) -> cordwood.StoredBatch:
        batch = read_one(cursor, end)
        read.append(batch.offsets[0])
        return batch

    async with cordwood.connect(data) as cw:
        await cw.create_topic("events")
        log = cw.log("events")
        for _ in range(40):
            await log.append(Batch.of([bytes(100_000)] * 10))
        monkeypatch.setattr(PlogCursor, "read_one", noted)
        records = await log.fetch([3, 4, 105, 399])
        assert [record.offset for record in records] == [3, 4, 105, 399]
    assert read == [0, 100, 390]


async def test_a_reader_of_several_knows_where_it_is_after_its_first_step(data: Path) -> None:
    async with cordwood.connect(data) as cw:
        await cw.create_topic("events", partitions=2)
        reader = cw.read("events")
        with pytest.raises(InvalidInput, match="not known before the first step"):
            reader.position(0)
        with pytest.raises(StopAsyncIteration):
            await anext(reader)
        assert reader.position(1) == 0
        with pytest.raises(InvalidInput, match="does not read partition 2"):
            reader.position(2)
