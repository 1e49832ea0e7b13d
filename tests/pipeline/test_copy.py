"""`pipeline.copy`: the same records in a new topic, in the order of each key, and journals with their lives."""

import random
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

import cordwood
from cordwood import Batch, Client, Conflict, Corrupt, Event, InvalidInput, NotFound, Trimmed, pipeline
from cordwood.journal.action import Append, Delete, Purge
from cordwood.journal.header import decode_header, encode_header
from cordwood.pipeline.copying import run as run_module
from cordwood.pipeline.copying.records import named_header
from cordwood.store import HeadRow
from cordwood.store.opening import open_store
from cordwood.testing.kafka import Broker
from tests.support.pipeline.histories import History
from tests.support.pipeline.holding import writer_of

# The first job of a session is slow where many processes share the cores.
pytestmark = pytest.mark.timeout(600)

LIFE = "00000000-0000-5000-8000-00000000beef"

Content = tuple[bytes | None, object, object]


async def contents(client: Client, topic: str) -> dict[bytes | None, list[Content]]:
    """The records of each key, in their order."""
    found: dict[bytes | None, list[Content]] = {}
    info = await client.topic(topic)
    for partition in range(info.partitions):
        async with client.log(topic, partition).read() as reader:
            async for batch in reader:
                for record in batch:
                    found.setdefault(record.key, []).append((record.value, record.headers, record.timestamp))
    return found


async def fill(client: Client, topic: str, count: int, partitions: int = 3) -> None:
    await client.create_topic(topic, partitions=partitions)
    keys = [b"k%d" % (number % 17) for number in range(count)]
    headers = [[("h", b"%d" % number)] if number % 3 else [] for number in range(count)]
    batch = Batch.of([b"v%d" % number for number in range(count)], keys=keys, headers=headers)
    await client.append(topic, batch)
    await client.log(topic, 1).append(Batch.of([b"without a key"] * 5))


async def heads_of(url: str, client: Client, topic: str, keys: Iterable[str]) -> Mapping[str, HeadRow]:
    """The head rows of a new store."""
    async with client.journal(topic, store=url, replicate=False, keep=None) as journal:
        await journal.catch_up()
    async with await open_store(url) as store:
        return await store.heads(topic, list(keys))


def without_places(heads: Mapping[str, HeadRow]) -> dict[str, tuple[object, ...]]:
    return {id: (head.seq_nr, head.delete_to, head.life, head.append_id, head.expire_on) for id, head in heads.items()}


@pytest.mark.parametrize("partitions", [None, 5])
async def test_a_copy_has_the_records_of_each_key_in_their_order(
    spark: SparkSession, folder: Path, partitions: int | None
) -> None:
    async with cordwood.connect(folder) as client:
        await fill(client, "events", 300)
        expected = await contents(client, "events")
    report = pipeline.copy(spark, folder, "events", folder.parent / "other", "copied", partitions=partitions)
    assert (report.records, report.partitions) == (305, partitions or 3)
    async with cordwood.connect(folder.parent / "other") as client:
        assert await contents(client, "copied") == expected
        assert await client.topics() == ["copied"]
    with pytest.raises(Conflict, match="topic 'copied' exists"):
        pipeline.copy(spark, folder, "events", folder.parent / "other", "copied")


async def test_copy_keeps_lives(spark: SparkSession, folder: Path) -> None:
    async with cordwood.connect(folder) as client:
        info = await client.create_topic("orders", partitions=2)
        history = History(info.id, 2, random.Random(4))
        history.grow(250)
        await history.append_to(client._engine, "orders")
        expected = await heads_of(f"sqlite:{folder.parent / 'first.db'}", client, "orders", history.keys)
    assert len(expected) > 3
    pipeline.copy(spark, folder, "orders", folder.parent / "other", "copied", partitions=3)
    pipeline.copy(spark, folder.parent / "other", "copied", folder.parent / "other", "again", partitions=1)
    async with cordwood.connect(folder.parent / "other") as client:
        for topic in ("copied", "again"):
            found = await heads_of(f"sqlite:{folder.parent / topic}.db", client, topic, history.keys)
            assert without_places(found) == without_places(expected)


@given(
    append=st.builds(
        Append,
        st.just(1),
        st.just(3),
        id=st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
        expected=st.none() | st.just(0),
        metadata=st.none() | st.just(b'{"a":{}}'),
    ),
    unknown=st.booleans(),
)
def test_only_an_append_gets_a_name_and_nothing_else_changes(append: Append, unknown: bool) -> None:
    header = encode_header(append)
    if unknown:
        header = header[:-2] + b',"later":[{}]}}'
    named = named_header(header, LIFE)
    assert named.replace(b',"named":"%b"' % LIFE.encode(), b"") == header
    found = decode_header(named)
    assert isinstance(found, Append)
    assert found.named == LIFE
    assert named_header(named, "00000000-0000-5000-8000-00000000dead") == named
    for other in (encode_header(Delete(3)), encode_header(Purge()), b"{", b"", b'{"rename":{}}'):
        assert named_header(other, LIFE) == other
    reordered = b'{"append":{"range":{"from":1,"to":3},"payloadType":"json"},"later":{}}'
    found = decode_header(named_header(reordered, LIFE))
    assert isinstance(found, Append)
    assert found.named == LIFE


@pytest.mark.parametrize("when", ["before the records", "after the records"])
async def test_copy_interrupted(spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    other = folder.parent / "other"
    async with cordwood.connect(folder) as client:
        await fill(client, "events", 50)
        expected = await contents(client, "events")

    def break_off(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "_write" if when == "before the records" else "keyed_digest", break_off)
        with pytest.raises(KeyboardInterrupt):
            pipeline.copy(spark, folder, "events", other, "copied", partitions=2)
    async with cordwood.connect(folder) as client:
        await client.log("events", 0).append(Batch.of([b"later"]))
        await fill(client, "others", 5)
    with pytest.raises(Conflict, match="is half of a copy of topic 'events'"):
        pipeline.copy(spark, folder, "others", other, "copied", partitions=2)
    assert pipeline.copy(spark, folder, "events", other, "copied", partitions=2).records == 55
    async with cordwood.connect(other) as client:
        assert await contents(client, "copied") == expected
        assert await client.topics() == ["copied"]


async def test_a_copy_that_differs_is_told(spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with cordwood.connect(folder) as client:
        await fill(client, "events", 20)
    write = run_module._write

    def write_in_another_order(records: DataFrame, *arguments: object) -> None:
        write(records.sort("offset", ascending=False), *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(run_module, "_write", write_in_another_order)
    with pytest.raises(Corrupt, match=r"has 25 records, and not the 25 of 'events', those of each key in their order"):
        pipeline.copy(spark, folder, "events", folder.parent / "other", "copied", partitions=2)


async def test_a_journal_is_copied_with_its_whole_history_or_not(spark: SparkSession, folder: Path) -> None:
    path, other = folder.parent / "archive", folder.parent / "other"
    async with cordwood.connect(folder) as client, client.journal("orders", partitions=1, keep=None) as journal:
        for number in range(5):
            await journal.append("a", [Event.json(number)])
        pipeline.archive(spark, folder, "orders", path)
        await journal.append("a", [Event.json(5)])
        await client.log("orders").trim(3)
        with pytest.raises(Trimmed, match="orders/0 starts at 3: a copy of journals needs their whole history"):
            pipeline.copy(spark, folder, "orders", other, "copied")
        position = await journal.position("a")
    assert pipeline.copy(spark, folder, "orders", other, "copied", partitions=2, archive=path).records == 6
    async with cordwood.connect(other) as client, client.journal("copied") as journal:
        async with journal.read("a") as reader:
            assert [event.payload async for event in reader] == list(range(6))
        assert await journal.position("a") == position


@pytest.mark.processes
def test_bad_input_of_copy_is_told_at_the_call(spark: SparkSession, folder: Path) -> None:
    other = folder.parent / "other"
    with cordwood.sync.connect(folder) as cw:
        cw.create_topic("events")
        with cw.wal("metrics").region(7) as region:
            region.write(1, [b"a"])
    for arguments, kind, text in (
        ({"topic": "nothing"}, NotFound, "'nothing'"),
        ({"topic": "metrics_data_7"}, InvalidInput, "is a region's"),
        ({"to_topic": "a/b"}, InvalidInput, "a/b"),
        ({"to_topic": "a" * 245}, InvalidInput, "keeps its note"),
        ({"partitions": 0}, InvalidInput, "0 partitions"),
    ):
        with pytest.raises(kind, match=text):
            pipeline.copy(spark, folder, **{"topic": "events", "to_url": other, "to_topic": "copied", **arguments})  # type: ignore[arg-type]
    with writer_of(folder) as pid, pytest.raises(cordwood.Unavailable) as caught:
        pipeline.copy(spark, folder, "events", folder, "copied")
    assert (caught.value.reason, caught.value.pid) == ("busy", pid)
    assert pipeline.copy(spark, folder, "events", folder, "copied").records == 0


async def test_a_copy_into_kafka_starts_again(
    spark: SparkSession, folder: Path, kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cordwood.connect(folder) as client:
        await fill(client, "events", 300)
        expected = await contents(client, "events")

    def break_off(frame: DataFrame) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "keyed_digest", break_off)
        with pytest.raises(KeyboardInterrupt):
            pipeline.copy(spark, folder, "events", kafka.url, "copied-here", partitions=2)
    async with cordwood.connect(kafka.url) as client:
        await client.log("copied-here").append(Batch.of([b"half of it"]))
    assert pipeline.copy(spark, folder, "events", kafka.url, "copied-here", partitions=2).records == 305
    async with cordwood.connect(kafka.url) as client:
        assert await contents(client, "copied-here") == expected
