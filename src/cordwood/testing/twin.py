"""The blocking twin, alongside the async client and alone."""

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from cordwood import sync
from cordwood.client import Client
from cordwood.errors import Conflict, InvalidInput, NotFound, TooLarge, Trimmed, Unavailable
from cordwood.log import Log
from cordwood.records import Batch
from cordwood.testing.under_test import UnderTest, numbered, values_of

SOON = 0.1


def values_in(log: sync.Log, start: int | None = None, stop: int | None = None) -> list[bytes | None]:
    """The values of [start, stop)."""
    return [value for batch in log.read(start, stop) for value in batch.values]


class Twin(UnderTest):
    """`cordwood.sync` does the same as the async client."""

    @pytest.fixture
    def blocking(self, url: str) -> Iterator[sync.Client]:
        """A blocking connection."""
        with self.connect_blocking(url) as cw:
            yield cw

    @pytest.fixture
    def blocking_log(self, blocking: sync.Client, topic: str) -> sync.Log:
        """The only log of a new topic, blocking."""
        blocking.create_topic(topic)
        return blocking.log(topic)

    def test_blocking_calls_do_what_the_async_ones_do(self, blocking: sync.Client, topic: str) -> None:
        info = blocking.create_topic(topic, partitions=2)
        assert blocking.topic(topic) == info
        assert blocking.topics(prefix=topic) == [topic]
        assert blocking.alter_topic(topic, retention_bytes=1 << 40).retention_bytes == 1 << 40
        log = blocking.log(topic, 1)
        assert (log.topic, log.partition, log.name) == (topic, 1, f"{topic}/1")
        self.check_offsets(log.append(Batch.of(numbered(4), timestamps=[1000, 2000, 3000, 4000])), 0, 4)
        start, stop = log.bounds()
        assert log.offset_at(datetime.fromtimestamp(3, UTC)) == start + 2 or not self.dense
        assert values_in(log) == numbered(4)
        with log.read(stop, stop + 2, follow="wait", topic_id=info.id) as reader:
            log.append(Batch.of(numbered(2)))
            assert [value for batch in reader for value in batch.values] == numbered(2)
        with pytest.raises(Conflict), log.read(topic_id=f"{info.id}0") as reader:
            next(reader)
        stop = log.bounds()[1]
        log.trim(before=stop)
        assert log.bounds() == (stop, stop)
        written = blocking.append(topic, Batch.of([b"x"], keys=[b"k"]))
        assert [len(offsets) for offsets in written.values()] == [1]
        blocking.delete_topic(topic)
        assert blocking.topics(prefix=topic) == []

    def test_blocking_calls_raise_what_the_async_ones_raise(
        self, blocking: sync.Client, blocking_log: sync.Log
    ) -> None:
        log = blocking_log
        offsets = log.append(Batch.of(numbered(3)))
        log.trim(before=offsets[1])
        with pytest.raises(Conflict):
            blocking.create_topic(log.topic)
        with pytest.raises(NotFound):
            blocking.log(f"{log.topic}.missing").bounds()
        with pytest.raises(InvalidInput):
            log.append(Batch.of([]))
        with pytest.raises(TooLarge) as too_large:
            log.append(Batch.of([bytes(self.batch_bytes_max + 1)]))
        assert too_large.value.outcome == "not_written"
        with pytest.raises(Trimmed) as trimmed:
            next(log.read(offsets[0]))
        assert trimmed.value.start == offsets[1]
        with pytest.raises(TypeError):
            log.append(b"x")  # type: ignore[arg-type]  # tested on purpose

    def test_a_blocking_connection_is_closed_as_the_async_one(self, url: str, blocking_log: sync.Log) -> None:
        with self.connect_blocking(url) as cw:
            log = cw.log(blocking_log.topic)
            log.append(Batch.of([b"x"]))
            reader = log.read(follow=True)
            next(reader)
        cw.close()
        for call in (cw.topics, log.bounds, lambda: log.append(Batch.of([b"y"])), lambda: cw.log(log.topic)):
            with pytest.raises(Unavailable):
                call()
        with pytest.raises((StopIteration, Unavailable)):
            next(reader)
        assert values_in(blocking_log) == [b"x"]

    def test_a_blocking_read_of_many_batches_is_whole_and_in_order(self, blocking_log: sync.Log) -> None:
        for value in numbered(300):
            blocking_log.append(Batch.of([value]))
        assert values_in(blocking_log) == numbered(300)
        with blocking_log.read() as reader:
            for batch in reader:
                assert batch.values[0] == b"0"
                break
        assert list(reader) == []
        reader.close()

    def test_a_blocking_follower_gets_each_batch_at_once(self, blocking_log: sync.Log) -> None:
        with blocking_log.read(follow=True) as reader:
            for value in numbered(10):
                blocking_log.append(Batch.of([value]))
                assert list(next(reader).values) == [value]

    def test_a_blocking_follower_waits_and_ends_when_closed_elsewhere(self, blocking_log: sync.Log) -> None:
        reader = blocking_log.read(follow=True)
        with ThreadPoolExecutor(1) as thread:
            read = thread.submit(lambda: [value for batch in reader for value in batch.values])
            time.sleep(SOON)
            blocking_log.append(Batch.of([b"news"]))
            time.sleep(SOON)
            assert not read.done()
            reader.close()
            assert read.result(10) == [b"news"]

    def test_many_threads_append_through_one_connection(self, blocking_log: sync.Log) -> None:
        def append(name: int) -> dict[int, bytes]:
            return {
                blocking_log.append(Batch.of([b"%d.%d" % (name, turn)]))[0]: b"%d.%d" % (name, turn)
                for turn in range(20)
            }

        with ThreadPoolExecutor(8) as threads:
            parts = list(threads.map(append, range(8)))
        found = {record.offset: record.value for batch in blocking_log.read() for record in batch}
        assert found == {offset: value for part in parts for offset, value in part.items()}
        assert len(found) == 160

    async def test_both_twins_work_on_one_log(self, url: str, cw: Client, log: Log) -> None:
        def blocking_part(asked: threading.Event) -> list[bytes | None]:
            with self.connect_blocking(url) as twin:
                same = twin.log(log.topic)
                with same.read(follow=True) as reader:
                    first = list(next(reader).values)
                    same.append(Batch.of([b"blocking"]))
                    asked.set()
                    return first + list(next(reader).values)

        asked = threading.Event()
        beside = asyncio.ensure_future(asyncio.to_thread(blocking_part, asked))
        await log.append(Batch.of([b"async"]))
        async with log.read(follow=True) as reader:
            read: list[bytes | None] = []
            while len(read) < 2:
                read += (await anext(reader)).values
        assert read == await beside == [b"async", b"blocking"]

    async def test_a_blocking_call_on_a_thread_with_a_running_loop_just_blocks(
        self, url: str, cw: Client, log: Log
    ) -> None:
        with self.connect_blocking(url) as twin:
            twin.log(log.topic).append(Batch.of([b"x"]))
            assert values_in(twin.log(log.topic)) == [b"x"]
        assert await values_of(log) == [b"x"]

    def test_a_blocking_read_of_several_partitions_is_that_of_the_async_one(
        self, blocking: sync.Client, topic: str
    ) -> None:
        info = blocking.create_topic(topic, partitions=3)
        offsets = {
            partition: list(blocking.log(topic, partition).append(Batch.of(numbered(50, f"{partition}-"))))
            for partition in range(3)
        }
        found: dict[int, list[bytes | None]] = {partition: [] for partition in range(3)}
        with blocking.read(topic, topic_id=info.id) as reader:
            for batch in reader:
                assert batch.partition is not None
                found[batch.partition] += batch.values
                assert reader.position(batch.partition) == batch.offsets[-1] + 1
        assert found == {partition: numbered(50, f"{partition}-") for partition in range(3)}
        starts = {0: offsets[0][-1], 1: offsets[1][0]}
        with blocking.read(topic, starts, {0: offsets[0][-1] + 1, 1: offsets[1][2]}, follow="wait") as reader:
            read = sorted((batch.partition or 0, value) for batch in reader for value in batch.values)
        assert read == [(0, b"0-49"), (1, b"1-0"), (1, b"1-1")]
        with pytest.raises(Conflict), blocking.read(topic, topic_id=f"{info.id}0") as reader:
            next(reader)
        with pytest.raises(InvalidInput):
            blocking.read(topic, "last")  # type: ignore[arg-type]  # tested on purpose

    def test_a_blocking_reader_of_several_takes_and_drops_partitions(self, blocking: sync.Client, topic: str) -> None:
        blocking.create_topic(topic, partitions=2)
        log = blocking.log(topic, 1)
        with blocking.read(topic, {0: 0}, follow=True) as reader:
            assert reader.position(0) == 0
            offsets = log.append(Batch.of(numbered(3)))
            reader.add(1, offsets[1])
            assert next(reader).values[0] == b"1"
            reader.drop(1)
            log.append(Batch.of([b"of no interest"]))
            blocking.log(topic, 0).append(Batch.of([b"news"]))
            assert list(next(reader).values) == [b"news"]

    def test_a_blocking_fetch_gives_known_records(self, blocking_log: sync.Log) -> None:
        offsets = blocking_log.append(Batch.of(numbered(10)))
        assert [record.value for record in blocking_log.fetch([offsets[2], offsets[9]])] == [b"2", b"9"]
