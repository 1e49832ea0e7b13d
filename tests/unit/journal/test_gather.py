"""Gathering: the batches that wait come together, in order, within a limit."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from cordwood.journal.gather import Gatherer, merged
from cordwood.records import StoredBatch
from cordwood.records.headers import HeaderColumn


def stored(partition: int, offset: int, **columns: Any) -> StoredBatch:
    batch = StoredBatch.from_rows([offset], [b"v%d" % offset], timestamps=[offset], **columns)
    batch.partition = partition
    return batch


class ScriptedReader:
    """Gives batches, and then an error or the end; `taken` has how many it gave."""

    def __init__(self, batches: Sequence[StoredBatch], error: Exception | None = None) -> None:
        self._batches = list(batches)
        self._error = error
        self.taken = 0
        self.closed = False

    def __aiter__(self) -> "ScriptedReader":
        return self

    async def __anext__(self) -> StoredBatch:
        if self.taken < len(self._batches):
            self.taken += 1
            return self._batches[self.taken - 1]
        if self._error is not None:
            raise self._error
        raise StopAsyncIteration

    async def __aenter__(self) -> "ScriptedReader":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.closed = True


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_batches_that_wait_come_as_one_for_each_partition() -> None:
    reader = ScriptedReader([stored(at % 2, at) for at in range(10)])
    async with Gatherer(reader, 1 << 20) as gatherer:  # type: ignore[arg-type]
        await settle()
        even, odd = await gatherer.take()
        assert (even.partition, list(even.offsets)) == (0, [0, 2, 4, 6, 8])
        assert (odd.partition, list(odd.offsets)) == (1, [1, 3, 5, 7, 9])
        assert [record.value for record in odd] == [b"v1", b"v3", b"v5", b"v7", b"v9"]
        assert await gatherer.take() == []
    assert reader.closed


async def test_it_reads_no_further_ahead_than_its_limit() -> None:
    batches = [stored(0, at) for at in range(100)]
    reader = ScriptedReader(batches)
    async with Gatherer(reader, 3 * batches[0].weight) as gatherer:  # type: ignore[arg-type]
        await settle()
        assert reader.taken == 4  # the last one waits for room
        found: list[int] = []
        while taken := await gatherer.take():
            found += [offset for batch in taken for offset in batch.offsets]
    assert found == list(range(100))


async def test_the_readers_error_comes_after_its_batches() -> None:
    reader = ScriptedReader([stored(0, 0)], error=ValueError("lost"))
    async with Gatherer(reader, 1 << 20) as gatherer:  # type: ignore[arg-type]
        await settle()
        assert [list(batch.offsets) for batch in await gatherer.take()] == [[0]]
        with pytest.raises(ValueError, match="lost"):
            await gatherer.take()


def test_a_merged_batch_has_every_column() -> None:
    one = stored(3, 5, keys=[b"k"], headers=HeaderColumn.of([[("h", b"1")]]))
    two = stored(3, 9)
    whole = merged([one, two])
    assert list(whole) == [*one, *two]
    assert whole.partition == 3
