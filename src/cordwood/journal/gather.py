"""Gathering the batches of a reader: those that wait are replicated together.

A log has small batches where its writer waited for each ack. One transaction for each of them would take as long as
the writer did, so a replicator that lags would never catch up.
"""

import asyncio
from collections.abc import Iterable
from itertools import chain
from types import TracebackType
from typing import Self

from cordwood.log.interface import PartitionsReader
from cordwood.records import StoredBatch
from cordwood.records.headers import HeaderColumn


class Gatherer:
    """Reads ahead of its user, within a limit on bytes, and gives all that waits, one batch for each partition.

    ```python
    async with Gatherer(reader, 4 << 20) as gatherer:
        while batches := await gatherer.take():
            ...
    ```
    """

    def __init__(self, reader: PartitionsReader, bytes_max: int) -> None:
        self._reader = reader
        self._bytes_max = bytes_max
        self._waiting: list[StoredBatch] = []
        self._bytes = 0
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None

    async def take(self) -> list[StoredBatch]:
        """All records that wait, at least one; none at the reader's end. Raises the error that ended the reader."""
        assert self._reading is not None, "enter the gatherer first"
        while not self._waiting:
            if self._reading.done():
                self._reading.result()
                return []
            self._changed.clear()
            await self._changed.wait()
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        self._room.set()
        by_partition: dict[int | None, list[StoredBatch]] = {}
        for batch in waiting:
            by_partition.setdefault(batch.partition, []).append(batch)
        return [merged(batches) for batches in by_partition.values()]

    async def __aenter__(self) -> Self:
        await self._reader.__aenter__()
        self._reading = asyncio.create_task(self._read())
        self._reading.add_done_callback(lambda _: self._changed.set())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._reading is not None
        self._reading.cancel()
        await asyncio.wait([self._reading])
        await self._reader.__aexit__(kind, error, traceback)

    async def _read(self) -> None:
        async for batch in self._reader:
            while self._bytes >= self._bytes_max:
                self._room.clear()
                await self._room.wait()
            self._waiting.append(batch)
            self._bytes += batch.weight
            self._changed.set()


def merged(batches: list[StoredBatch]) -> StoredBatch:
    """One batch with the records of several batches of a partition.

    >>> one, two = (StoredBatch.from_rows([at], [b"a"], timestamps=[at]) for at in (3, 7))
    >>> [record.offset for record in merged([one, two])]
    [3, 7]
    """
    if len(batches) == 1:
        return batches[0]
    rows = [batch.rows() for batch in batches]
    whole = StoredBatch.from_rows(
        list(chain.from_iterable(batch.offsets for batch in batches)),
        _joined(values for values, _, _, _ in rows),
        keys=_joined(
            keys if keys is not None else [None] * len(batch)
            for (_, keys, _, _), batch in zip(rows, batches, strict=True)
        ),
        headers=HeaderColumn.joined([batch.headers for batch in batches]),
        timestamps=list(chain.from_iterable(batch.timestamps for batch in batches)),
    )
    whole.partition = batches[0].partition
    return whole


def _joined(parts: Iterable[Iterable[bytes | None]]) -> list[bytes | None]:
    return list(chain.from_iterable(parts))
