"""`pipeline.purge_expired`: finds the journals whose expiry has come, and purges them as a journal does (R22)."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from cordwood.client import Client, connect
from cordwood.errors import CordwoodError, InvalidInput
from cordwood.journal.fold import seq_nr_of
from cordwood.journal.journal import Journal, purge_if_unchanged
from cordwood.log.topics import checked_topic_name
from cordwood.pipeline.blocking import run
from cordwood.pipeline.places import TIMEOUT_SECONDS, LogPlace, StorePlace
from cordwood.store import Binding, EventStore, HeadRow, ScanPart

_PARTS = 32
_AT_ONCE = 64
"""So many journals are looked at together: they share their read fences."""
_PER_TASK = 1000
_ROUND = 100_000
"""So many journals are found before some of them are purged."""
_ERRORS_MAX = 100


@dataclass(frozen=True)
class PurgeCounts:
    """What `pipeline.purge_expired` has done.

    >>> PurgeCounts(3, 0, 0).purged
    3
    """

    purged: int
    refused: int
    """They got events or another expiry meanwhile."""
    failed: int
    errors: Mapping[str, str] = field(default_factory=dict)
    """Why, by id: the first hundred."""

    def __add__(self, other: "PurgeCounts") -> "PurgeCounts":
        errors = dict([*self.errors.items(), *other.errors.items()][:_ERRORS_MAX])
        return PurgeCounts(self.purged + other.purged, self.refused + other.refused, self.failed + other.failed, errors)


_NONE = PurgeCounts(0, 0, 0)


class Expired(NamedTuple):
    """A journal as the job saw it."""

    id: str
    life: str | None
    seq_nr: int


class Work(msgspec.Struct, frozen=True):
    """What one task purges: these journals, or those of a part of the store that have expired."""

    expired: Sequence[Expired] = ()
    part: ScanPart | None = None


@dataclass(frozen=True)
class Purger:
    """Purges journals of one topic, in any process."""

    log: LogPlace
    store: StorePlace
    topic: str
    single_writer: bool
    segment_size: int
    day: date

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row of counts for each piece of work; runs in a worker."""
        for batch in batches:
            works = [msgspec.json.decode(text, type=Work) for text in batch.column("work").to_pylist()]
            counts = [msgspec.json.encode(each).decode() for each in asyncio.run(self._all(works))]
            yield pa.RecordBatch.from_arrays([pa.array(counts, pa.string())], names=["counts"])

    async def _all(self, works: Iterable[Work]) -> list[PurgeCounts]:
        async with connect(self.log.url, config=self.log.config, timeout=TIMEOUT_SECONDS) as client:
            return [await self.purge(client, work) for work in works]

    async def purge(self, client: Client, work: Work) -> PurgeCounts:
        """Purge the journals that have not changed since they were found."""
        counts = _NONE
        async with self.journal(client) as journal:
            if work.part is None:
                return counts + await _purge(journal, work.expired)
            async with await self.store.open() as store:
                async for page in store.scan_heads(self.topic, work.part):
                    counts += await _purge(journal, _expired(page, self.day))
        return counts

    def journal(self, client: Client) -> Journal:
        """The journal, as the topic is bound."""
        return client.journal(
            self.topic,
            store=self.store.url,
            store_config=self.store.config,
            replicate=False,
            keep=None,
            single_writer=self.single_writer,
            segment_size=self.segment_size,
        )


def purge_expired(
    spark: SparkSession,
    log_url: str | os.PathLike[str],
    topic: str,
    store_url: str,
    on: date | None,
    full: bool,
    config: Mapping[str, str],
    store_config: Mapping[str, str],
) -> PurgeCounts:
    """Purge the journals of a topic whose expiry has come."""
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    day = yesterday if on is None else on
    if type(day) is not date:
        raise TypeError(f"on is a date, not {type(day).__name__}")
    if day > yesterday:
        raise InvalidInput(f"on is {day}: the last day that is over is {yesterday}, UTC", outcome="not_written")
    log, store = LogPlace.of(log_url, config), StorePlace.of(store_url, store_config)
    job = _Job(spark, log, store, checked_topic_name(topic), day, full, on is not None)
    return run(job.run())


@dataclass(frozen=True)
class _Job:
    spark: SparkSession
    log: LogPlace
    store: StorePlace
    topic: str
    day: date
    full: bool
    from_the_beginning: bool

    async def run(self) -> PurgeCounts:
        """Catch up, since an expiry may be in the head; then find what has expired, and purge it."""
        counts = _NONE
        async with (
            await self.store.open() as store,
            connect(self.log.url, config=self.log.config, timeout=TIMEOUT_SECONDS) as client,
        ):
            await client.topic(self.topic)
            purger = self._purger(await store.binding(self.topic))
            async with purger.journal(client) as journal:
                await journal.catch_up()
            async for works in self._works(store):
                if self.log.is_folder:
                    # A folder has one writer, and that is this process.
                    for work in works:
                        counts += await purger.purge(client, work)
                else:
                    counts += await asyncio.to_thread(self._on_spark, purger, works)
        if not counts.failed and not counts.refused:  # a journal that was refused may keep its expiry
            async with await self.store.open(read_only=False) as writable:
                await writable.set_expired_through(self.topic, self.day)
        return counts

    def _purger(self, binding: Binding | None) -> Purger:
        single = binding is not None and binding.single_writer
        size = 10_000 if binding is None else binding.segment_size
        return Purger(self.log, self.store, self.topic, single, size, self.day)

    async def _works(self, store: EventStore) -> AsyncIterator[list[Work]]:
        if self.full:
            yield [Work(part=part) for part in await store.parts(self.topic, _PARTS)]
            return
        complete = None if self.from_the_beginning else await store.expired_through(self.topic)
        found: list[Expired] = []
        async for page in store.expired(self.topic, complete, self.day):
            found += _expired(page, self.day)
            if len(found) >= _ROUND:
                yield _pieces(found)
                found = []
        yield _pieces(found)

    def _on_spark(self, purger: Purger, works: list[Work]) -> PurgeCounts:
        if not works:
            return _NONE
        rows = [(msgspec.json.encode(work).decode(),) for work in works]
        frame = self.spark.createDataFrame(rows, "work string").repartition(min(len(rows), _PARTS))
        counts = _NONE
        for row in frame.mapInArrow(purger, "counts string").collect():
            counts += msgspec.json.decode(row.counts, type=PurgeCounts)
        return counts


def _pieces(found: Sequence[Expired]) -> list[Work]:
    return [Work(found[at : at + _PER_TASK]) for at in range(0, len(found), _PER_TASK)]


def _expired(page: Iterable[tuple[str, HeadRow]], day: date) -> list[Expired]:
    return [
        Expired(id, row.life, seq_nr_of(row)) for id, row in page if row.expire_on is not None and row.expire_on <= day
    ]


async def _purge(journal: Journal, expired: Sequence[Expired]) -> PurgeCounts:
    counts = _NONE
    for at in range(0, len(expired), _AT_ONCE):
        some = expired[at : at + _AT_ONCE]
        done = await asyncio.gather(*(_purge_one(journal, each) for each in some))
        for each, result in zip(some, done, strict=True):
            if isinstance(result, str):
                counts += PurgeCounts(0, 0, 1, {each.id: result})
            else:
                counts += PurgeCounts(int(result), int(not result), 0)
    return counts


async def _purge_one(journal: Journal, each: Expired) -> bool | str:
    try:
        return await purge_if_unchanged(journal, each.id, each.life, each.seq_nr)
    except CordwoodError as error:
        return str(error)
