"""Journals replicated by Spark into SQLite: against the replicator in the process, and against a bare micro-batch."""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession

import cordwood
from bench.measure import Row, median, ratio, timed
from bench.spark import SETTINGS
from cordwood import Event, Journal, pipeline

_TOPIC = "orders"
_PARTITIONS = 4
_APPENDS = 40_000
_EVENTS = [Event.binary(bytes(256)) for _ in range(4)]
_IN_FLIGHT = 256
_ROUNDS = 3
_LOOKS = 40
_REPLICATED = "SELECT 1 FROM pointer2 WHERE topic = ? AND partition = ? AND offset >= ?"


def replicate(folder: Path) -> Row:
    """All events of a topic into a new store, by turns."""
    data = folder / "data"
    asyncio.run(_fill(data))
    stores = (f"sqlite:{folder / f'store{number}.db'}" for number in count())
    spark = pipeline.session("local[2]", SETTINGS)
    try:
        rounds = [(_by_spark(spark, data, next(stores)), _in_process(data, next(stores))) for _ in range(_ROUNDS + 1)]
    finally:
        spark.stop()
    own, peer = [ours for ours, _ in rounds[1:]], [theirs for _, theirs in rounds[1:]]
    events = _APPENDS * len(_EVENTS)
    return Row(
        f"replicate {events:,} events of 256 B into SQLite, the job's start included, vs. the in-process replicator",
        f"{events / median(own):,.0f} events/s",
        f"{events / median(peer):,.0f} events/s",
        ratio(peer, own),
        0.7,
    )


def visible(folder: Path) -> Row:
    """From the ack of an append until its event is in the store, against one micro-batch of our source to noop."""
    data, store = folder / "data", f"sqlite:{folder / 'store.db'}"
    spark = pipeline.session("local[2]", SETTINGS)
    try:
        with cordwood.sync.connect(data) as cw, cw.journal(_TOPIC, store=store, replicate=False) as journal:
            journal.append("first", _EVENTS)
            query = pipeline.replicate(spark, data, [_TOPIC], store)
            own = [_until_visible(journal, folder / "store.db", turn) for turn in range(_LOOKS)][5:]
            query.stop()
            frame = pipeline.read_stream(spark, data, _TOPIC)
            writer = frame.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
            query = writer.start()
            done = 0
            while done < _LOOKS:
                journal.append("bare", _EVENTS)
                while len(query.recentProgress) <= done:
                    time.sleep(0.01)
                done = len(query.recentProgress)
            bare = [batch.durationMs["triggerExecution"] / 1000 for batch in query.recentProgress if batch.numInputRows]
            query.stop()
    finally:
        spark.stop()
    return Row(
        "ack → visible in SQLite, p50, vs. a micro-batch of our source to noop",
        f"{1000 * median(own):,.0f} ms",
        f"{1000 * median(bare):,.0f} ms",
        median(own) / median(bare),
        2.5,
        at_most=True,
    )


def _until_visible(journal: cordwood.sync.Journal, path: Path, turn: int) -> float:
    with closing(sqlite3.connect(path)) as db:
        done = journal.append(f"key-{turn}", _EVENTS)
        begun = time.perf_counter()
        while not db.execute(_REPLICATED, (_TOPIC, done.partition, done.offset)).fetchall():
            time.sleep(0.002)
        return time.perf_counter() - begun


def _by_spark(spark: SparkSession, data: Path, store: str) -> float:
    return timed(lambda: pipeline.catch_up(spark, data, [_TOPIC], store))


def _in_process(data: Path, store: str) -> float:
    async def run() -> float:
        async with cordwood.connect(data) as cw:
            journal = cw.journal(_TOPIC, store=store, replicate=False, partitions=_PARTITIONS)
            begun = time.perf_counter()
            await journal.catch_up()
            return time.perf_counter() - begun

    return asyncio.run(run())


async def _fill(folder: Path) -> None:
    async with cordwood.connect(folder) as cw:
        journal = cw.journal(_TOPIC, partitions=_PARTITIONS, replicate=False)
        numbers = iter(range(_APPENDS))
        await asyncio.gather(*(_append(journal, numbers) for _ in range(_IN_FLIGHT)))


async def _append(journal: Journal, numbers: Iterator[int]) -> None:
    for number in numbers:
        await journal.append(f"key-{number % 500}", _EVENTS)
