"""Journals are replicated by Spark: the store's pointer decides where, whatever the checkpoint says."""

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

import cordwood
from cordwood import Batch, Conflict, Corrupt, Event, InvalidInput, NotFound, Trimmed, Unavailable, pipeline
from cordwood.pipeline.replicating import job
from cordwood.store import Lease
from cordwood.store.opening import open_store
from cordwood.sync import Client, Journal
from cordwood.testing.kafka import Broker
from tests.support.kafka.bare_client import widen
from tests.support.pipeline.replicating import TOPIC, behind, play, pointers, rows, wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@pytest.fixture(autouse=True)
def no_query_is_left(spark: "SparkSession") -> Iterator[None]:
    yield
    for query in spark.streams.active:
        query.stop()


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'store.db'}"


@pytest.fixture
def journal(cw: Client, store: str) -> Journal:
    return cw.journal(TOPIC, store=store, replicate=False, partitions=3)


@dataclass(frozen=True)
class Log:
    """A log of one kind, with a topic that no other test has."""

    url: str
    client: Client
    topic: str


@pytest.fixture(params=["folder", "Kafka"])
def log(request: pytest.FixtureRequest, folder: Path) -> Iterator[Log]:
    url = f"file:{folder}"
    if request.param == "Kafka":
        kafka: Broker = request.getfixturevalue("kafka")
        url = kafka.url
    with cordwood.sync.connect(url) as client:
        topic = f"orders-{uuid4().hex}"
        yield Log(url, client, topic)
        if topic in client.topics():
            client.delete_topic(topic)


@contextmanager
def replicating(spark: "SparkSession", *arguments: Any, **options: Any) -> "Iterator[StreamingQuery]":
    """A query that is stopped at the end, and must not have failed."""
    query = pipeline.replicate(spark, *arguments, **options)
    try:
        yield query
    finally:
        query.stop()
    assert query.exception() is None


def failed(query: "StreamingQuery") -> cordwood.CordwoodError:
    """The error that ends a query."""
    wait_for(lambda: not query.isActive, "the query does not fail")
    error = pipeline.failure_of(query)
    assert error is not None, query.exception()
    return error


def rebuilt(cw: Client, topic: str, folder: Path) -> list[str]:
    """The rows of a new store, by the replicator of the journal itself."""
    store = f"sqlite:{folder / 'rebuilt.db'}"
    partitions = cw.topic(topic).partitions
    with cw.journal(topic, store=store, replicate=False, partitions=partitions) as journal:
        journal.catch_up()
    return rows(store, topic)


def test_spark_writes_what_the_replicator_of_the_journal_writes(
    spark: "SparkSession", log: Log, store: str, tmp_path: Path
) -> None:
    journal = log.client.journal(log.topic, store=store, replicate=False, partitions=3)
    for part in range(3):
        play(journal, part, steps=30)
        report = pipeline.catch_up(spark, log.url, [log.topic], store)
        assert report.records > 0
        assert report.dead == 0
    assert rows(store, log.topic) == rebuilt(log.client, log.topic, tmp_path)
    again = pipeline.catch_up(spark, log.url, [log.topic], store)
    assert (again.records, again.events) == (0, 0)


def test_a_query_replicates_until_it_is_stopped(spark: "SparkSession", log: Log, store: str, tmp_path: Path) -> None:
    journal = log.client.journal(log.topic, store=store, replicate=False, partitions=3)
    play(journal, 1)
    with replicating(spark, log.url, f"{log.topic}|{log.topic}-new", store, max_records=20):
        wait_for(lambda: behind(log.url, store, [log.topic]) == 0, "it does not catch up")
        done = journal.append("late", [Event.json("after the start")])
        journal.wait_replicated(done, timeout=60)
        new = log.client.journal(f"{log.topic}-new", store=store, replicate=False)
        new.wait_replicated(new.append("A", [Event.json(1)]), timeout=60)
    assert rows(store, log.topic) == rebuilt(log.client, log.topic, tmp_path)
    log.client.delete_topic(f"{log.topic}-new")


def run_to_the_end(spark: "SparkSession", folder: Path, store: str, checkpoint: Path) -> None:
    with replicating(spark, folder, [TOPIC], store, checkpoint=checkpoint):
        wait_for(lambda: behind(folder, store) == 0, "it does not catch up")


@pytest.mark.parametrize("checkpoint", ["stale", "ahead", "half done", "lost"])
def test_the_pointer_decides_and_not_the_checkpoint(
    spark: "SparkSession", cw: Client, journal: Journal, folder: Path, store: str, tmp_path: Path, checkpoint: str
) -> None:
    place, path = tmp_path / "checkpoint", Path(store.removeprefix("sqlite:"))
    play(journal, 2, steps=20)
    run_to_the_end(spark, folder, store, place)
    if checkpoint == "stale":
        shutil.copytree(place, tmp_path / "old")
    play(journal, 3, steps=5)
    run_to_the_end(spark, folder, store, place)
    if checkpoint == "stale":
        # The store has what the checkpoint wants to read, and the log has not.
        for partition in range(3):
            cw.log(TOPIC, partition).trim(before=cw.log(TOPIC, partition).bounds()[1])
        place = tmp_path / "old"
    elif checkpoint == "ahead":
        # A store that is restored from a backup: this one is empty.
        with closing(sqlite3.connect(path)) as db:
            for table in ("journal", "metajournal", "pointer2"):
                db.execute(f"DELETE FROM {table}")
            db.commit()
    elif checkpoint == "half done":
        # A query that is stopped in time has no commit of its last micro-batch anyway.
        for commit in (place / "commits").glob("[0-9]*"):
            commit.unlink()
    else:
        shutil.rmtree(place)
    journal.append("last", [Event.json("at the end")])
    run_to_the_end(spark, folder, store, place)
    with cw.journal(TOPIC, store=store, replicate=False, partitions=3) as again:
        assert [event.payload for event in again.read("last")] == ["at the end"]
    if checkpoint != "stale":
        assert rows(store) == rebuilt(cw, TOPIC, tmp_path)


def test_two_drivers_at_once_do_no_harm(
    spark: "SparkSession", cw: Client, journal: Journal, folder: Path, store: str, tmp_path: Path
) -> None:
    play(journal, 7, steps=5)
    with (
        replicating(spark, folder, [TOPIC], store, max_records=7),
        replicating(spark, folder, [TOPIC], store, max_records=11),
    ):
        for seed in range(3):
            play(journal, seed, steps=20)
        wait_for(lambda: behind(folder, store) == 0, "they do not catch up")
    assert rows(store) == rebuilt(cw, TOPIC, tmp_path)


def test_a_query_holds_the_leases_while_it_runs(
    spark: "SparkSession", journal: Journal, folder: Path, store: str
) -> None:
    """A replicator in a service need not do the same work."""
    journal.append("A", [Event.json(1)])

    def leased() -> set[int]:
        return set(asyncio.run(leases(store)))

    with replicating(spark, folder, [TOPIC], store):
        wait_for(lambda: leased() == {0, 1, 2}, "it takes none")
    # Spark may kill the process before it has released them: then they end by themselves.
    wait_for(lambda: leased() == set(), "it keeps them")


async def leases(store: str) -> dict[int, Lease]:
    async with await open_store(store, read_only=True) as opened:
        return await opened.leases(TOPIC)


def test_a_run_with_too_many_dead_letters_fails_before_its_pointer(
    spark: "SparkSession", cw: Client, journal: Journal, folder: Path, store: str
) -> None:
    journal.append("A", [Event.json(1)])
    poison = Batch.of([b"x"] * 5, keys=[b"A"] * 5, headers=[[("journal.action", b"no JSON")]] * 5)
    cw.log(TOPIC, 1).append(poison)
    with pytest.raises(Corrupt, match="5 records since offset 0 cannot be decoded, over max_dead_letters=4"):
        pipeline.catch_up(spark, folder, [TOPIC], store, max_dead_letters=4)
    assert pointers(store).get(1, -1) < 1
    query = pipeline.replicate(spark, folder, [TOPIC], store, max_dead_letters=4)
    assert isinstance(failed(query), Corrupt)
    assert pipeline.catch_up(spark, folder, [TOPIC], store, max_dead_letters=5).dead == 5
    letters = pipeline.dead_letters(spark, store, TOPIC)
    assert [(row.partition, row.offset, row.id) for row in letters.orderBy("offset").collect()] == [
        (1, offset, "A") for offset in range(1, 6)
    ]


def test_lost_records_are_refused_or_given_up(
    spark: "SparkSession", cw: Client, journal: Journal, folder: Path, store: str
) -> None:
    for number in range(5):
        journal.append("A", [Event.json(number)])
    (partition,) = (row.partition for row in pipeline.lag(folder, [TOPIC], store) if row.records)
    cw.log(TOPIC, partition).trim(before=2)
    with pytest.raises(Trimmed, match=f"{TOPIC}/{partition} starts at 2") as caught:
        pipeline.catch_up(spark, folder, [TOPIC], store)
    assert caught.value.start == 2
    error = failed(pipeline.replicate(spark, folder, [TOPIC], store))
    assert isinstance(error, Trimmed)
    assert error.start == 2
    report = pipeline.catch_up(spark, folder, [TOPIC], store, accept_loss=True)
    assert report.records == 3
    (letter,) = pipeline.dead_letters(spark, store, TOPIC).collect()
    assert (letter.offset, letter.through, letter.timestamp) == (0, 1, None)


def test_a_topic_that_is_made_anew_ends_the_query(
    spark: "SparkSession", cw: Client, journal: Journal, folder: Path, store: str
) -> None:
    journal.append("A", [Event.json(1)])
    query = pipeline.replicate(spark, folder, [TOPIC], store)
    wait_for(lambda: behind(folder, store) == 0, "it does not catch up")
    journal.close()
    cw.delete_topic(TOPIC)
    cw.create_topic(TOPIC, partitions=3)
    error = failed(query)
    # Between the two there was no topic.
    assert isinstance(error, NotFound) or "the topic's id is" in str(error)
    with pytest.raises(Conflict, match="the topic's id is"):
        pipeline.catch_up(spark, folder, [TOPIC], store)
    with pytest.raises(Conflict, match="the topic's id is"):
        pipeline.replicate(spark, folder, [TOPIC], store)


def test_partitions_that_are_added_end_the_query(spark: "SparkSession", kafka: Broker, store: str) -> None:
    topic = f"orders-{uuid4().hex}"
    with cordwood.sync.connect(kafka.url) as cw:
        journal = cw.journal(topic, store=store, replicate=False, partitions=1)
        journal.append("A", [Event.json(1)])
        query = pipeline.replicate(spark, kafka.url, [topic], store)
        wait_for(lambda: behind(kafka.url, store, [topic]) == 0, "it does not catch up")
        widen(kafka.bootstrap, topic, 2)
        error = failed(query)
        assert isinstance(error, Conflict)
        assert "the number of partitions is 1 there, not 2" in str(error)
        with pytest.raises(Conflict, match="the number of partitions"):
            pipeline.catch_up(spark, kafka.url, [topic], store)
        cw.delete_topic(topic)


def test_open_transactions_of_other_programs_do_not_stop_it(spark: "SparkSession", kafka: Broker, store: str) -> None:
    """R21: whatever the url says."""
    from confluent_kafka import Producer

    topic = f"orders-{uuid4().hex}"
    url = f"{kafka.url}?isolation.level=read_committed"
    with cordwood.sync.connect(kafka.url) as cw:
        journal = cw.journal(topic, store=store, replicate=False, partitions=1)
        journal.append("A", [Event.json(1)])
        foreign = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic})
        foreign.init_transactions(30)
        foreign.begin_transaction()
        foreign.produce(topic, b"none of a journal's", partition=0)
        foreign.flush(30)
        cw.log(topic).append(Batch.of([b"after it"]))
        assert behind(url, store, [topic]) == 3
        pipeline.catch_up(spark, url, [topic], store)
        assert pointers(store, topic) == {0: 2}
        foreign.abort_transaction(30)
        cw.delete_topic(topic)


def test_a_store_that_is_away_is_tried_again_and_then_ends_the_query(
    spark: "SparkSession", cw: Client, journal: Journal, folder: Path, store: str, tmp_path: Path
) -> None:
    play(journal, 5, steps=10)
    with closing(sqlite3.connect(store.removeprefix("sqlite:"), isolation_level=None, check_same_thread=False)) as db:
        query = pipeline.replicate(spark, folder, [TOPIC], store, store_timeout=20)
        db.execute("BEGIN IMMEDIATE")
        released = threading.Timer(2, lambda: db.execute("ROLLBACK"))
        released.start()
        wait_for(lambda: behind(folder, store) == 0, "it does not continue")
        released.join()
        query.stop()
        play(journal, 6, steps=10)
        query = pipeline.replicate(spark, folder, [TOPIC], store, store_timeout=1)
        db.execute("BEGIN IMMEDIATE")
        before = behind(folder, store)
        if before:  # it may have been faster than this test
            error = failed(query)
            assert isinstance(error, Unavailable)
            assert error.reason == "busy"
        db.execute("ROLLBACK")
        query.stop()
    pipeline.catch_up(spark, folder, [TOPIC], store)
    assert rows(store) == rebuilt(cw, TOPIC, tmp_path)


def test_a_store_on_another_machine_is_refused(
    spark: "SparkSession", journal: Journal, folder: Path, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append("A", [Event.json(1)])
    (tmp_path / "boot_id").write_text("the driver's")
    monkeypatch.setattr(job, "_BOOT_ID", tmp_path / "boot_id")
    with pytest.raises(InvalidInput, match="is a file of the driver's machine, and this task runs on another one"):
        pipeline.catch_up(spark, folder, [TOPIC], store)


def test_no_secret_is_shown_by_spark(
    spark: "SparkSession", kafka: Broker, store: str, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    topic, secret = f"orders-{uuid4().hex}", "hunter2hunter2"
    place = tmp_path / "checkpoint"
    # Settings of every kind of name; a broker without a login ignores them.
    config = {"sasl.password": secret, "sasl.oauthbearer.config": f"principal={secret}", "client.id": secret}
    with cordwood.sync.connect(kafka.url) as cw:
        journal = cw.journal(topic, store=store, replicate=False, partitions=1)
        journal.append("A", [Event.json(1)])
        with replicating(spark, kafka.url, [topic], store, checkpoint=place, config=config) as query:
            wait_for(lambda: behind(kafka.url, store, [topic]) == 0, "it does not catch up")
            wait_for(lambda: bool(query.recentProgress), "no progress")
            query.explain(extended=True)
            shown = [str(progress.json) for progress in query.recentProgress]
        cw.log(topic).trim(before=1)
        with closing(sqlite3.connect(store.removeprefix("sqlite:"))) as db:
            db.execute("DELETE FROM pointer2")
            db.commit()
        query = pipeline.replicate(spark, kafka.url, [topic], store, config=config)
        assert isinstance(failed(query), Trimmed)
        shown.append(str(query.exception()))
        with pytest.raises(Trimmed) as caught:
            pipeline.catch_up(spark, kafka.url, [topic], store, config=config)
        shown += [str(caught.value), str(caught.value.__cause__)]
        cw.delete_topic(topic)
    shown += [path.read_text(errors="replace") for path in place.rglob("*") if path.is_file()]
    shown += [f"{name}={value}" for name, value in spark.sparkContext.getConf().getAll()]
    shown += list(capfd.readouterr())
    assert "cordwood-replicate" in "".join(shown)
    assert [text for text in shown if secret in text] == []


def test_bad_input_is_refused_before_a_job_starts(
    spark: "SparkSession", cw: Client, journal: Journal, folder: Path, store: str, tmp_path: Path
) -> None:
    journal.append("A", [Event.json(1)])
    missing = f"sqlite:{tmp_path / 'missing.db'}"
    with pytest.raises(NotFound, match="none"):
        pipeline.catch_up(spark, folder, ["none"], missing)
    assert not (tmp_path / "missing.db").exists()
    with pytest.raises(InvalidInput, match="topics is empty"):
        pipeline.replicate(spark, folder, [], store)
    with pytest.raises(InvalidInput, match=r"a pattern: .*; a single topic is a list"):
        pipeline.replicate(spark, folder, "orders(", store)
    for name in ("max_records", "max_dead_letters", "store_timeout"):
        with pytest.raises(InvalidInput, match=f"{name} is 0: it is at least 1"):
            pipeline.replicate(spark, folder, [TOPIC], store, **{name: 0})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="trigger is 'soon'"):
        pipeline.replicate(spark, folder, [TOPIC], store, trigger="soon")
    with pytest.raises(InvalidInput, match="is no store"):
        pipeline.catch_up(spark, folder, [TOPIC], "store.db")
    with pytest.raises(NotFound):
        pipeline.lag(folder, [TOPIC], missing)
    with pytest.raises(NotFound, match="the folder"):
        pipeline.catch_up(spark, folder, [TOPIC], f"sqlite:{tmp_path}/no/folder/store.db")
    with pytest.raises(Unavailable):
        pipeline.catch_up(spark, tmp_path / "no folder", [TOPIC], store)


def test_the_checkpoint_of_another_query_is_refused(
    spark: "SparkSession", cw: Client, journal: Journal, folder: Path, store: str, tmp_path: Path
) -> None:
    journal.append("A", [Event.json(1)])
    frame = pipeline.read_stream(spark, folder, TOPIC, startingOffsets="earliest")
    other = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "other"))
    other.trigger(availableNow=True).start().awaitTermination(60)
    with pytest.raises(InvalidInput, match="is that of another query"):
        pipeline.replicate(spark, folder, [TOPIC], store, checkpoint=tmp_path / "other")
    # By a url this process cannot look.
    error = failed(pipeline.replicate(spark, folder, [TOPIC], store, checkpoint=f"file:{tmp_path / 'other'}"))
    assert isinstance(error, InvalidInput)
    assert "the checkpoint is that of another query" in str(error)
