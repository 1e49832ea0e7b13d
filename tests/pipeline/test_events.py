"""`pipeline.events` gives what `journal.read` gives for every journal, wherever the replicator is."""

import json
import random
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition

import cordwood
from cordwood import Client, Conflict, Corrupt, Event, InvalidInput, NotFound, Trimmed, pipeline
from cordwood.journal.action import Append, Purge
from cordwood.journal.fold import Topic, life_of
from cordwood.journal.header import encode_header
from cordwood.journal.value import encode_value
from cordwood.log.partitioning import partition_of
from cordwood.pipeline.places import LogPlace, StorePlace
from cordwood.pipeline.scanning import head as head_module
from cordwood.pipeline.scanning.head import INPUT, HeadFold
from cordwood.pipeline.scanning.look import Planned, look
from cordwood.pipeline.scanning.source import Scan, StoreReader
from cordwood.pipeline.source.ranges import RangesReader, RangesSource
from cordwood.store.opening import open_store
from cordwood.testing.kafka import Broker
from tests.support.pipeline.histories import History, replicate_through

# The first job of a session is slow where many processes share the cores.
pytestmark = pytest.mark.timeout(600)

OF_SPARK = (PySparkException, Py4JJavaError)
"""Spark plans the two sides of a frame at once, and does not translate the error of the one that is second."""
Row = tuple[Any, ...]
"""The id, the number, and everything else that a program sees of an event."""


async def read_all(client: Client, store: str, keys: Iterable[str], topic: str = "orders") -> list[Row]:
    """What the journal returns for every key; the id alone for a key that is closed."""
    # The histories have records of Scala programs.
    journal = client.journal(topic, store=store, replicate=False, keep=None, single_writer=True)
    found: list[Row] = []
    for key in keys:
        try:
            async with journal.read(key) as reader:
                events = [event async for event in reader]
        except Corrupt:
            found.append((key, None))
            continue
        for event in events:
            data = None if event.metadata is None else json.dumps(event.metadata, separators=(",", ":"))
            payload = None if event.kind is None else event.raw
            place = (event.partition, event.offset)
            row = (key, event.seq_nr, event.kind, payload, sorted(event.tags), event.timestamp, data)
            found.append((*row, event.headers, *place))
    await journal.close()
    return sorted(found, key=order)


def order(row: Row) -> tuple[str, int]:
    return row[0], row[1] or 0


def row_of(values: Mapping[str, Any]) -> Row:
    """A row of `events` in the form of `read_all`."""
    if values["seq_nr"] is None:
        return values["id"], None
    payload = None if values["payload"] is None else bytes(values["payload"])
    time = values["timestamp"]
    time = time.replace(tzinfo=UTC) if time.tzinfo is None else time
    names = ("metadata", "headers", "partition", "offset")
    row = (values["id"], values["seq_nr"], values["kind"], payload, sorted(values["tags"]), time)
    return (*row, *(dict(values[name]) if name == "headers" else values[name] for name in names))


def rows_of(frame: DataFrame) -> list[Row]:
    return sorted((row_of(row.asDict()) for row in frame.collect()), key=order)


@asynccontextmanager
async def history_of(folder: Path, seed: int, *, foreign: bool = False, poison: bool = False) -> Any:
    """A topic with a random history: the connection, the history, and its keys."""
    async with cordwood.connect(folder) as client:
        info = await client.create_topic("orders", partitions=2)
        history = History(info.id, 2, random.Random(seed), foreign=foreign, poison=poison)
        yield client, history


async def replicate(client: Client, store: str, history: History, offsets: Mapping[int, int]) -> None:
    async with await open_store(store) as events:
        for partition, offset in offsets.items():
            topic = Topic(history.topic_id, partition, 10_000)
            await replicate_through(client._engine, events, topic, "orders", offset)


class ByHand:
    """The jobs of a frame without Spark, one step after the other: a test moves the store in between."""

    def __init__(self, folder: Path, store: str, planned: Planned, *, permissive: bool = True) -> None:
        self._log, self._store = LogPlace.of(folder, {}), StorePlace.of(store, {})
        self._planned = planned
        self._reader = StoreReader(self._store, Scan(planned, None, 3))
        self._parts: list[InputPartition] = self._reader.partitions()
        self._fold = HeadFold(self._store, planned, permissive)

    def stored(self) -> list[Row]:
        """The rows of the scan."""
        return [row for part in self._parts for batch in self._reader.read(part) for row in batch.to_pylist()]

    def verdicts(self) -> dict[str, Mapping[str, Any]]:
        batches = self._fold.verdicts(iter(self._records()))
        return {row["verdict_id"]: row for batch in batches for row in batch.to_pylist()}

    def events(self) -> list[Any]:
        return [row for batch in self._fold.events(iter(self._records())) for row in batch.to_pylist()]

    def _records(self) -> list[pa.RecordBatch]:
        """As Spark's shuffle brings them: by key, then by offset, in small batches."""
        options = {**self._log.texts(), "ranges": json.dumps(_ranges(self._planned))}
        reader = RangesSource(options).reader(RangesSource(options).schema())
        assert isinstance(reader, RangesReader)
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        if not batches:
            return []
        table = (
            pa.Table.from_batches(batches).select(list(INPUT)).sort_by([("key", "ascending"), ("offset", "ascending")])
        )
        return list(table.to_batches(max_chunksize=7))


def _ranges(planned: Planned) -> Mapping[str, Any]:
    return {"topic": planned.topic, "topic_id": planned.topic_id, "by_partition": planned.head, "uncommitted": True}


def joined(stored: list[Any], verdicts: Mapping[str, Mapping[str, Any]], events: list[Any]) -> list[Row]:
    """What the join of the frame makes of them."""

    def lives(row: Mapping[str, Any]) -> bool:
        verdict = verdicts.get(row["id"])
        if verdict is None:
            return True
        if verdict["gone"] or row["seq_nr"] is None or row["seq_nr"] <= verdict["deleted_through"]:
            return False
        return None in (row["life"], verdict["verdict_life"]) or row["life"] == verdict["verdict_life"]

    return sorted((row_of(row) for row in [*filter(lives, stored), *events]), key=order)


@pytest.mark.parametrize("seed", range(12))
async def test_events_are_those_of_read_wherever_the_replicator_is_meanwhile(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(head_module, "_CHUNK_BYTES", 600 if seed % 2 else 1 << 20)
    monkeypatch.setattr(head_module, "_SPOOL_BYTES", 900 if seed % 3 else 1 << 20)
    chance = random.Random(seed)
    store = f"sqlite:{tmp_path / 'store.db'}"
    async with history_of(folder, seed, poison=seed % 2 == 0, foreign=seed % 3 == 0) as (client, history):
        history.grow(120)
        ends = await history.append_to(client._engine, "orders")
        expected = await read_all(client, f"sqlite:{tmp_path / 'empty.db'}", history.keys)
        # Where the replicator is when the job is planned, and before each of its three steps.
        steps = [sorted(chance.choices(range(-1, ends[partition]), k=4)) for partition in (0, 1)]
        async with await open_store(store):
            pass

        async def move(step: int) -> None:
            await replicate(client, store, history, {partition: steps[partition][step] for partition in (0, 1)})

        await move(0)
        planned = await look(LogPlace.of(folder, {}), StorePlace.of(store, {}), "orders")
        assert dict(planned.ends) == ends
        job = ByHand(folder, store, planned, permissive=seed % 2 == 0)
        await move(1)
        stored = list(_in_thread(job.stored))
        await move(2)
        verdicts = dict(_in_thread(job.verdicts))
        await move(3)
        assert joined(stored, verdicts, _in_thread(job.events)) == expected


def _in_thread(function: Any) -> Any:
    """A worker of Spark has no event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(function).result()


@pytest.mark.parametrize("seed", range(6))
async def test_what_is_deleted_meanwhile_may_be_missing_and_nothing_comes_twice(
    folder: Path, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    store = f"sqlite:{tmp_path / 'store.db'}"
    async with history_of(folder, seed) as (client, history):
        history.grow(80)
        ends = await history.append_to(client._engine, "orders")
        expected = await read_all(client, f"sqlite:{tmp_path / 'empty.db'}", history.keys)
        async with await open_store(store):
            pass
        await replicate(client, store, history, {0: ends[0] // 2, 1: ends[1] - 1})
        planned = await look(LogPlace.of(folder, {}), StorePlace.of(store, {}), "orders")
        job = ByHand(folder, store, planned)
        history.grow(80)
        later = await history.append_to(client._engine, "orders")
        alive = await read_all(client, f"sqlite:{tmp_path / 'empty.db'}", history.keys)
        steps = [sorted(chance.choices(range(ends[partition] // 2, later[partition]), k=3)) for partition in (0, 1)]
        found: list[Any] = []
        for step, part in enumerate((job.stored, job.verdicts, job.events)):
            await replicate(client, store, history, {partition: steps[partition][step] for partition in (0, 1)})
            found.append(_in_thread(part))
        rows = joined(*found)
        assert len({row[:2] for row in rows}) == len(rows)
        assert all(row in expected for row in rows)
        assert [row for row in expected if row in alive and row not in rows] == []


async def test_a_purge_that_is_replicated_meanwhile_revives_no_loser(folder: Path, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'store.db'}"
    async with history_of(folder, 0) as (client, history):
        key, partition = "a", partition_of(b"a", 2)
        life = life_of(history.topic_id, partition, 0)
        payload_type, value = encode_value([Event.json(1)], 1, None, None)
        append = Append(1, 1, payload_type, id="first", expected=0)
        loser = Append(1, 1, payload_type, id="second", expected=0)
        for action, what in ((append, value), (loser, value), (Purge(life=life), None)):
            history.records.setdefault(partition, []).append((key.encode(), encode_header(action), what, {}))
        await history.append_to(client._engine, "orders")
        async with await open_store(store):
            pass
        await replicate(client, store, history, {partition: 0})
        planned = await look(LogPlace.of(folder, {}), StorePlace.of(store, {}), "orders")
        job = ByHand(folder, store, planned)
        stored = _in_thread(job.stored)
        assert len(stored) == 1
        await replicate(client, store, history, {partition: 2})
        assert joined(stored, _in_thread(job.verdicts), _in_thread(job.events)) == []


@pytest.mark.parametrize("replicated", ["half", "all"])
async def test_on_spark_they_are_those_of_read(
    spark: SparkSession, folder: Path, tmp_path: Path, replicated: str
) -> None:
    store = f"sqlite:{tmp_path / 'store.db'}"
    async with history_of(folder, 3, foreign=True) as (client, history):
        history.grow(150)
        ends = await history.append_to(client._engine, "orders")
        expected = await read_all(client, f"sqlite:{tmp_path / 'empty.db'}", history.keys)
        share = {"half": 0.5, "all": 1.0}[replicated]
        async with await open_store(store):
            pass
        through = {partition: int(end * share) - 1 for partition, end in ends.items()}
        await replicate(client, store, history, through)
        frame = pipeline.events(spark, folder, "orders", store)
        assert rows_of(frame) == expected
        some = ["a", "order-2", "nobody"]
        frame = pipeline.events(spark, folder, "orders", store, keys=some)
        assert rows_of(frame) == [row for row in expected if row[0] in some]


def test_a_frame_beside_a_replicator_has_each_event_once(
    spark: SparkSession, cw: cordwood.sync.Client, folder: Path
) -> None:
    store = f"sqlite:{folder / 'store.db'}"
    with cw.journal("orders") as journal:
        for number in range(300):
            journal.append(f"order-{number % 40}", [Event.json({"n": number})])
            if number % 100 == 50:
                rows = rows_of(pipeline.events(spark, folder, "orders", store))
                assert sorted(json.loads(row[3])["n"] for row in rows) == list(range(number + 1))


def test_a_closed_key_raises_or_is_one_row(spark: SparkSession, cw: cordwood.sync.Client, folder: Path) -> None:
    store = f"sqlite:{folder / 'store.db'}"
    bad = cordwood.Batch.of([b""], keys=[b"bad"], headers=[[("journal.action", b"{")]])
    with cw.journal("orders", partitions=1, replicate=False) as journal:
        journal.append("good", [Event.json(1)])
        journal.append("bad", [Event.json(2)])
        journal.catch_up()
        cw.log("orders").append(bad)
        with pytest.raises(OF_SPARK, match="'bad' of 'orders' is closed: the record at orders/0, offset 2"):
            pipeline.events(spark, folder, "orders", store).collect()
        for _ in range(2):
            frame = pipeline.events(spark, folder, "orders", store, mode="PERMISSIVE")
            rows = {row.id: row for row in frame.collect()}
            assert (rows["good"].seq_nr, rows["good"].error) == (1, None)
            assert rows["bad"].seq_nr is None
            assert "offset 2, cannot be decoded" in rows["bad"].error
            journal.catch_up()
        with pytest.raises(Corrupt, match="'bad' of 'orders' is closed: the record at orders/0, offset 2"):
            pipeline.events(spark, folder, "orders", store)
        assert [row[0] for row in rows_of(pipeline.events(spark, folder, "orders", store, keys=["good"]))] == ["good"]
        journal.append("good", [Event.json(2)])
        with pytest.raises(OF_SPARK, match="'bad' of 'orders' is closed"):
            pipeline.events(spark, folder, "orders", store).collect()
        journal.purge("bad")
        assert [row[:2] for row in rows_of(pipeline.events(spark, folder, "orders", store))] == [
            ("good", 1),
            ("good", 2),
        ]


def test_records_that_were_trimmed_before_their_replication_are_named(
    spark: SparkSession, cw: cordwood.sync.Client, folder: Path
) -> None:
    store = f"sqlite:{folder / 'store.db'}"
    with cw.journal("orders", partitions=1, replicate=False) as journal:
        for number in range(5):
            journal.append("a", [Event.json(number)])
        journal.catch_up()
        journal.append("a", [Event.json(5)])
        frame = pipeline.events(spark, folder, "orders", store)
        cw.log("orders").trim(5)
        assert frame.count() == 6, "the store has what was trimmed"
        frame = pipeline.events(spark, folder, "orders", store)
        cw.log("orders").trim(6)
        with pytest.raises(OF_SPARK, match="Trimmed"):
            frame.count()
        with pytest.raises(Trimmed, match="records 5 to 5 were never replicated"):
            pipeline.events(spark, folder, "orders", store)


def test_a_topic_that_was_created_again_is_refused(spark: SparkSession, cw: cordwood.sync.Client, folder: Path) -> None:
    store = f"sqlite:{folder / 'store.db'}"
    with cw.journal("orders") as journal:
        journal.append("a", [Event.json(1)])
        journal.catch_up()
    cw.delete_topic("orders")
    cw.create_topic("orders", partitions=4)
    with pytest.raises(Conflict, match="topic 'orders' was created again"):
        pipeline.events(spark, folder, "orders", store)


def test_bad_input_of_events_is_told_at_the_call(spark: SparkSession, cw: cordwood.sync.Client, folder: Path) -> None:
    store = f"sqlite:{folder / 'store.db'}"
    with cw.journal("orders") as journal:
        journal.append("a", [Event.json(1)])
    for change, kind, text in (
        ({"topic": "other"}, NotFound, "'other'"),
        ({"topic": "a/b"}, InvalidInput, "a/b"),
        ({"store_url": "sqlite:/nowhere/store.db"}, NotFound, "/nowhere/store.db"),
        ({"store_url": "postgres:x"}, InvalidInput, "'postgres'"),
        ({"mode": "DROPMALFORMED"}, InvalidInput, "it is one of 'FAILFAST', 'PERMISSIVE'"),
        ({"keys": [""]}, InvalidInput, "0 bytes"),
        ({"keys": "a"}, TypeError, "write"),
    ):
        with pytest.raises(kind, match=text):
            pipeline.events(spark, folder, **{"topic": "orders", "store_url": store, **change})  # type: ignore[arg-type]


async def test_events_of_a_topic_on_kafka(spark: SparkSession, kafka: Broker, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'store.db'}"
    async with cordwood.connect(kafka.url) as client:
        info = await client.create_topic("events-on-kafka", partitions=2)
        history = History(info.id, 2, random.Random(5))
        history.grow(60)
        await history.append_to(client._engine, "events-on-kafka")
        journal = client.journal("events-on-kafka", store=store)
        await journal.catch_up()
        history.grow(60)
        await history.append_to(client._engine, "events-on-kafka")
        expected = await read_all(client, f"sqlite:{tmp_path / 'empty.db'}", history.keys, "events-on-kafka")
        url = f"{kafka.url}?isolation.level=read_committed"
        assert rows_of(pipeline.events(spark, url, "events-on-kafka", store)) == expected
