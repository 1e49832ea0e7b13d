"""The data source that scans a store: one task for each part of its journals.

A task gives the rows with offsets at or below the pointer that the plan has. All of them were in the store before the
scan began, because the pointer moves last (R24). The scan may therefore read head rows after event rows: what changes
meanwhile can only take rows away, and it belongs to actions after the pointer.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from cordwood.journal.fold import exists
from cordwood.journal.reader import sound_rows
from cordwood.pipeline.blocking import run
from cordwood.pipeline.places import StorePlace, places_of
from cordwood.store import EventRow, EventStore, HeadRow, ScanPart

from .look import Planned
from .rows import STORED_SCHEMA, EventBatches, error_batch

T = TypeVar("T")

PARTS_MAX = 64
"""Into how many parts a store is cut at most: tasks of equal numbers of journals."""
KEYS_PER_PART = 1000


class Scan(msgspec.Struct, frozen=True):
    """What is scanned, as Spark carries it to its processes."""

    planned: Planned
    keys: Sequence[str] | None
    """None: all journals."""
    parts: int
    """Into how many parts the store is cut, if there are as many journals."""

    def text(self) -> str:
        """As an option."""
        return msgspec.json.encode(self).decode()


@dataclass(frozen=True)
class Piece:
    """The journals of one task: a part of the store, or some ids; or the closed keys, as rows with an error."""

    part: ScanPart | None = None
    ids: Sequence[str] | None = None


def part_count(spark: SparkSession) -> int:
    """As many parts as a shuffle of this session has, which its owner chose for the machines."""
    return min(int(spark.conf.get("spark.sql.shuffle.partitions") or 1), PARTS_MAX)


class StoreSource(DataSource):
    """The event rows of a topic in its store, as of the pointers of a plan."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "cordwood-store"

    def schema(self) -> StructType:
        """The columns of events, with the life and the error of a row."""
        return STORED_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """The object that plans the scan, and that its tasks run."""
        given, _, store = places_of(self.options, ("scan",))
        assert store is not None
        return StoreReader(store, msgspec.json.decode(given["scan"], type=Scan))


class StoreReader(DataSourceReader):
    """One scan. `partitions` runs once, when Spark plans; `read` in a worker, on a copy of this object."""

    def __init__(self, store: StorePlace, scan: Scan) -> None:
        self._store = store
        self._scan = scan

    def partitions(self) -> list[InputPartition]:
        """One partition for each part of the store."""
        keys, planned = self._scan.keys, self._scan.planned
        if keys is None:
            pieces = [Piece(part) for part in run(self._parts())]
            closed: Sequence[str] = list(planned.closed)
        else:
            pieces = [Piece(ids=keys[at : at + KEYS_PER_PART]) for at in range(0, len(keys), KEYS_PER_PART)]
            closed = [id for id in keys if id in planned.closed]
        if closed:
            pieces.append(Piece())
        return [InputPartition(piece) for piece in pieces]

    async def _parts(self) -> list[ScanPart]:
        async with await self._store.open() as store:
            return await store.parts(self._scan.planned.topic, self._scan.parts)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part, as Arrow batches."""
        piece: Piece | None = partition.value
        if piece is None:
            # Spark passes None for a read without any task.
            return
        planned, keys = self._scan.planned, self._scan.keys
        if piece.part is None and piece.ids is None:
            wanted = planned.closed.keys() if keys is None else planned.closed.keys() & set(keys)
            yield error_batch([(id, planned.closed[id]) for id in sorted(wanted)])
            return
        yield from iterate(self._batches(piece))

    async def _batches(self, piece: Piece) -> AsyncIterator[pa.RecordBatch]:
        planned = self._scan.planned
        async with await self._store.open() as store:
            batches = EventBatches(planned.topic)
            pages = _pages_of_ids(store, planned.topic, piece.ids or ()) if piece.part is None else None
            if piece.part is not None:
                pages = _pages_of_part(store, planned.topic, piece.part)
            assert pages is not None
            async for heads, rows in pages:
                for id, some in groupby(rows, itemgetter(0)):
                    head = heads.get(id)
                    if head is None or not exists(head) or id in planned.closed:
                        continue
                    for batch in batches.add(id, live_rows([row for _, row in some], head, planned.pointers)):
                        yield batch
            for batch in batches.rest():
                yield batch


def live_rows(rows: Sequence[EventRow], head: HeadRow, pointers: Mapping[int, int]) -> list[EventRow]:
    """R25: the rows of the life of the head row that are not deleted, as of the pointers."""
    sound = sound_rows(rows, head.life, (head.delete_to or 0) + 1)
    return [row for row in sound if row.offset <= pointers.get(row.partition, -1)]


_Pages = AsyncIterator[tuple[Mapping[str, HeadRow], Sequence[tuple[str, EventRow]]]]


async def _pages_of_part(store: EventStore, topic: str, part: ScanPart) -> _Pages:
    async for page in store.scan_events(topic, part):
        yield await store.heads(topic, list(dict.fromkeys(id for id, _ in page))), page


async def _pages_of_ids(store: EventStore, topic: str, ids: Sequence[str]) -> _Pages:
    heads = await store.heads(topic, ids)
    for id, head in heads.items():
        start: int | None = (head.delete_to or 0) + 1
        while start is not None and start <= head.seq_nr:
            page = await store.events(topic, id, head, start, head.seq_nr + 1)
            start = page.next
            yield heads, [(id, row) for row in page.rows]


def iterate(items: AsyncIterator[T]) -> Iterator[T]:
    """The items, for a worker, which has no event loop."""
    loop = asyncio.new_event_loop()
    try:
        while True:
            try:
                item = loop.run_until_complete(anext(items))
            except StopAsyncIteration:
                return
            yield item
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
