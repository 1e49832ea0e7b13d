import asyncio
import gc
import signal
import threading
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

import pytest

from cordwood import log, sync
from cordwood.errors import Trimmed
from cordwood.records import BinaryColumn, StoredBatch
from cordwood.sync import reader as module
from cordwood.sync.portal import portal

T = TypeVar("T")


def batch_at(offset: int, size: int = 1) -> StoredBatch:
    return StoredBatch.from_columns(range(offset, offset + 1), BinaryColumn.of([bytes(size)]), timestamps=0)


class Script(log.Reader):
    """Gives out batches as they are put in; an exception is raised at its place, None is the end."""

    def __init__(self, *items: StoredBatch | Exception | None) -> None:
        self.items = list(items)
        self.taken = 0
        self.closed = threading.Event()
        self.news = asyncio.Event()

    async def __anext__(self) -> StoredBatch:
        while self.taken == len(self.items):
            if self.closed.is_set():
                raise StopAsyncIteration
            self.news.clear()
            await self.news.wait()
        item = self.items[self.taken]
        self.taken += 1
        if item is None:
            raise StopAsyncIteration
        if isinstance(item, Exception):
            raise item
        return item

    async def close(self) -> None:
        self.closed.set()
        self.items = self.items[: self.taken]
        self.news.set()

    def put(self, item: StoredBatch | None) -> None:
        async def put() -> None:
            self.items.append(item)
            self.news.set()

        portal().call(put)


@pytest.fixture
def hops(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls that crossed to the loop's thread."""
    seen: list[str] = []
    through = portal()
    call = through.call

    def counted(function: Callable[..., T]) -> T:
        seen.append(function.__name__)
        return call(function)  # type: ignore[arg-type]  # passed on as it came

    monkeypatch.setattr(through, "call", counted)
    return seen


def offsets(batches: list[StoredBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.offsets]


def test_many_batches_cross_with_few_hops(hops: list[str]) -> None:
    reader = sync.Reader(Script(*map(batch_at, range(1000)), None), portal())
    assert offsets(list(reader)) == list(range(1000))
    assert len(hops) <= 1000 // module.CHUNK_BATCHES_MAX + 2


def test_it_reads_ahead_no_further_than_a_chunk_of_batches() -> None:
    script = Script(*map(batch_at, range(1000)), None)
    reader = sync.Reader(script, portal())
    next(reader)
    time.sleep(0.05)
    assert script.taken == module.CHUNK_BATCHES_MAX


def test_it_reads_ahead_no_further_than_a_chunk_of_bytes() -> None:
    size = module.CHUNK_BYTES_MAX // 3
    script = Script(*(batch_at(offset, size) for offset in range(20)), None)
    reader = sync.Reader(script, portal())
    next(reader)
    time.sleep(0.05)
    assert script.taken == 3


def test_a_batch_that_is_there_is_given_out_before_the_next_one_comes() -> None:
    script = Script()
    with sync.Reader(script, portal()) as reader:
        for offset in range(5):
            script.put(batch_at(offset))
            assert offsets([next(reader)]) == [offset]


def test_an_error_comes_after_the_batches_before_it() -> None:
    script = Script(batch_at(0), batch_at(1), Trimmed("gone", start=9), batch_at(9), None)
    reader = sync.Reader(script, portal())
    assert offsets([next(reader), next(reader)]) == [0, 1]
    with pytest.raises(Trimmed):
        next(reader)
    assert offsets(list(reader)) == [9]


def test_an_ended_reader_stays_at_its_end() -> None:
    reader = sync.Reader(Script(batch_at(0), None, batch_at(1)), portal())
    assert offsets(list(reader)) == [0]
    assert list(reader) == []


def test_what_was_read_ahead_is_not_given_out_after_closing() -> None:
    script = Script(*map(batch_at, range(10)), None)
    with sync.Reader(script, portal()) as reader:
        next(reader)
    assert script.closed.is_set()
    assert list(reader) == []
    reader.close()


def test_closing_in_another_thread_ends_a_wait() -> None:
    reader = sync.Reader(Script(), portal())
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(list, reader)
        time.sleep(0.05)
        assert not waiting.done()
        reader.close()
        assert waiting.result(10) == []


def test_an_interrupted_wait_loses_no_batch() -> None:
    script = Script()
    reader = sync.Reader(script, portal())
    main = threading.main_thread().ident
    assert main is not None
    for offset in range(5):
        threading.Timer(0.03, signal.pthread_kill, (main, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            next(reader)
        script.put(batch_at(offset))
        assert offsets([next(reader)]) == [offset]
    reader.close()


def test_an_interrupted_wait_loses_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    through = portal()
    call = through.call

    def interrupted(function: Callable[..., T]) -> T:
        with suppress(Trimmed):
            call(function)  # type: ignore[arg-type]  # passed on as it came
        raise KeyboardInterrupt

    reader = sync.Reader(Script(Trimmed("gone", start=9), batch_at(9), None), through)
    with monkeypatch.context() as patched:
        # The interrupt comes when the loop is done with the call, and before its caller is.
        patched.setattr(through, "call", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(reader)
    with pytest.raises(Trimmed):
        next(reader)
    assert offsets(list(reader)) == [9]


def test_threads_that_share_a_reader_get_each_batch_once() -> None:
    reader = sync.Reader(Script(*map(batch_at, range(500)), None), portal())
    with ThreadPoolExecutor(8) as threads:
        parts = [offsets(part) for part in threads.map(lambda _: list(reader), range(8))]
    assert sorted(offset for part in parts for offset in part) == list(range(500))
    assert all(part == sorted(part) for part in parts)


def test_threads_that_wait_together_do_not_end_each_other() -> None:
    script = Script()
    with sync.Reader(script, portal()) as reader, ThreadPoolExecutor(3) as threads:
        waiting = [threads.submit(next, reader) for _ in range(3)]
        for offset in range(3):
            time.sleep(0.03)
            script.put(batch_at(offset))
        assert sorted(offsets([each.result(10) for each in waiting])) == [0, 1, 2]


def test_a_reader_that_nobody_has_any_more_is_closed() -> None:
    script = Script(batch_at(0))
    reader = sync.Reader(script, portal())
    next(reader)
    del reader
    gc.collect()
    assert script.closed.wait(10)


async def test_a_close_ends_a_step_of_a_generator_that_waits() -> None:
    left = asyncio.Event()

    async def wait() -> AsyncGenerator[int, None]:
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            left.set()

    reader = module.GeneratorReader(wait())
    assert await reader.__anext__() == 1
    step = asyncio.ensure_future(reader.__anext__())
    await asyncio.sleep(0)
    await reader.close()
    assert left.is_set()
    assert step.cancelled()
    await reader.close()
