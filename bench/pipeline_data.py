"""Data of journals in bulk on Spark: events, archive and audit, each against the least that must be done for it."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import cordwood
from bench.measure import Row, median, ratio, timed
from bench.spark import SETTINGS, to_noop
from cordwood import Batch, Client, pipeline
from cordwood.journal.action import Append
from cordwood.journal.event import Event
from cordwood.journal.header import encode_header
from cordwood.journal.value import encode_value
from cordwood.log.partitioning import partition_of
from cordwood.pipeline.blocking import run
from cordwood.pipeline.places import LogPlace
from cordwood.pipeline.scanning.rows import STORED_SCHEMA, event_batch
from cordwood.pipeline.scanning.source import iterate
from cordwood.pipeline.source.ranges import Ranges, read_ranges
from cordwood.store import ScanPart
from cordwood.store.opening import open_store

TOPIC = "orders"
EVENTS = 300_000
HEAD = 100_000
KEYS = 20_000
_PARTITIONS = 4
_PAYLOAD = 1000
_PARTS = 8
_BATCH = 1_000
_ROUNDS = 3


class BareScan(DataSource):
    """All rows of the store, and no look at their heads: what any scan of it costs."""

    @classmethod
    def name(cls) -> str:
        return "bare-scan"

    def schema(self) -> StructType:
        return STORED_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return BareScanReader(self.options["store"])


class BareScanReader(DataSourceReader):
    def __init__(self, store: str) -> None:
        self._store = store

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(part) for part in run(self._parts())]

    async def _parts(self) -> list[ScanPart]:
        async with await open_store(self._store, read_only=True) as store:
            return await store.parts(TOPIC, _PARTS)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        async def pages() -> AsyncIterator[pa.RecordBatch]:
            async with await open_store(self._store, read_only=True) as store:
                async for page in store.scan_events(TOPIC, partition.value):
                    ids, rows = zip(*page, strict=True)
                    yield event_batch(TOPIC, ids, rows)

        return iterate(pages())


def data(folder: Path) -> list[Row]:
    """Events, archive and audit of one topic, in one session."""
    place, store = folder / "data", f"sqlite:{folder / 'store.db'}"
    asyncio.run(_fill(place, store))
    spark = pipeline.session("local[2]", {**SETTINGS, "spark.sql.shuffle.partitions": str(_PARTS)})
    try:
        spark.dataSource.register(BareScan)
        rows = [
            _events(spark, place, store),
            _archive(spark, place, folder),
            _audit(spark, place, store),
        ]
        asyncio.run(_grow(place, EVENTS, HEAD))
        return [*rows, _events_with_head(spark, place, store)]
    finally:
        spark.stop()


def _events(spark: SparkSession, place: Path, store: str) -> Row:
    ours, peers = _by_turns(
        lambda: to_noop(pipeline.events(spark, place, TOPIC, store)),
        lambda: to_noop(spark.read.format("bare-scan").option("store", store).load()),
    )
    what = f"events of 1 KiB, empty head, {KEYS:,} journals, vs. the bare scan of the store"
    return _row(what, EVENTS, ours, peers, 0.7)


def _events_with_head(spark: SparkSession, place: Path, store: str) -> Row:
    """The journals grow: the same store, and more records that it does not have."""
    ours, peers = _by_turns(
        lambda: to_noop(pipeline.events(spark, place, TOPIC, store)),
        lambda: to_noop(spark.read.format("bare-scan").option("store", store).load()),
    )
    what = f"events with {HEAD:,} records in the head vs. the bare scan of the store: times as long"
    slower = ratio(ours, peers)
    return Row(what, f"{median(ours):.2f} s", f"{median(peers):.2f} s", slower, 1.5, at_most=True)


def _archive(spark: SparkSession, place: Path, folder: Path) -> Row:
    places = count()
    ours, peers = _by_turns(
        lambda: timed(lambda: pipeline.archive(spark, place, TOPIC, folder / f"archive-{next(places)}")),
        lambda: timed(
            lambda: pipeline.read(spark, place, TOPIC, includeHeaders=True).write.parquet(
                str(folder / f"bare-{next(places)}")
            )
        ),
    )
    return _row("archive of 1 KiB records, verified, vs. bare write.parquet", EVENTS, ours, peers, 0.4)


def _audit(spark: SparkSession, place: Path, store: str) -> Row:
    info = run(_topic(place))
    log = LogPlace.of(place, {})
    ranges = Ranges(TOPIC, info[0], info[1])

    def both() -> float:
        return to_noop(read_ranges(spark, log, ranges)) + to_noop(
            spark.read.format("bare-scan").option("store", store).load()
        )

    ours, peers = _by_turns(lambda: timed(lambda: pipeline.audit(spark, place, TOPIC, store).collect()), both)
    return _row("audit, nothing found, vs. log and store to a noop sink", EVENTS, ours, peers, 0.25)


async def _topic(place: Path) -> tuple[str, dict[int, tuple[int, int]]]:
    async with cordwood.connect(place, read_only=True) as client:
        info = await client.topic(TOPIC)
        bounds = {each: await client.log(TOPIC, each).bounds() for each in range(info.partitions)}
    return info.id, bounds


async def _fill(place: Path, store: str) -> None:
    async with cordwood.connect(place) as client:
        await client.create_topic(TOPIC, partitions=_PARTITIONS)
        await _append(client, 0, EVENTS)
        async with client.journal(TOPIC, store=store, replicate=False) as journal:
            await journal.catch_up()


async def _grow(place: Path, start: int, number: int) -> None:
    async with cordwood.connect(place) as client:
        await _append(client, start, start + number)


async def _append(client: Client, start: int, stop: int) -> None:
    """Events of all journals in turn, as their writers append them."""
    chance = random.Random(1)
    text = f'{{"text":"{"x" * _PAYLOAD}"}}'
    waiting: dict[int, list[tuple[bytes, bytes, bytes]]] = {}
    for event in range(start, stop):
        number, key = 1 + event // KEYS, f"order-{event % KEYS}".encode()
        payload_type, value = encode_value([Event.text(text)], number, None, None)
        id = f"{chance.getrandbits(64):x}"
        header = encode_header(Append(number, number, payload_type, id=id, expected=number - 1))
        partition = partition_of(key, _PARTITIONS)
        rows = waiting.setdefault(partition, [])
        rows.append((key, header, value))
        if len(rows) == _BATCH:
            await _send(client, partition, waiting.pop(partition))
    for partition, rows in waiting.items():
        await _send(client, partition, rows)


async def _send(client: Client, partition: int, rows: list[tuple[bytes, bytes, bytes]]) -> None:
    headers = [[("journal.action", header)] for _, header, _ in rows]
    batch = Batch.of([value for *_, value in rows], keys=[key for key, *_ in rows], headers=headers)
    await client.log(TOPIC, partition).append(batch)


def _by_turns(ours: Callable[[], float], peer: Callable[[], float]) -> tuple[list[float], list[float]]:
    """Seconds for either in each round; the first one only warms up."""
    both = [(ours(), peer()) for _ in range(_ROUNDS + 1)][1:]
    return [own for own, _ in both], [other for _, other in both]


def _row(what: str, number: int, ours: list[float], peers: list[float], asked: float) -> Row:
    return Row(
        what,
        f"{number / median(ours):,.0f}/s",
        f"{number / median(peers):,.0f}/s",
        ratio(peers, ours),
        asked,
    )
