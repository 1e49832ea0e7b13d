"""`pipeline.audit` finds what was planted in a store and nothing else, and `fix=True` ends what it may."""

import asyncio
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import cordwood
from cordwood import Batch, Conflict, Event, InvalidInput, NotFound, Unavailable, pipeline
from cordwood.journal.action import Append
from cordwood.journal.header import encode_header
from cordwood.journal.value import encode_value
from cordwood.pipeline.auditing.findings import KINDS, in_words
from cordwood.store import open_store
from cordwood.testing.kafka import Broker
from cordwood.wal.formats.cordwood.data_record import encode_payloads, encode_write
from tests.support.pipeline.histories import History

# The first job of a session is slow where many processes share the cores.
pytestmark = pytest.mark.timeout(600)

EVENT = (
    "topic, id, seq_nr, timestamp, segment, partition, offset, origin, version, meta_record_id, metadata, payload_type"
)
HEAD = "topic, segment, partition, offset, segment_size, seq_nr, created, updated, record_id, append_id"


def kinds_of(frame: DataFrame) -> set[tuple[str, str | None]]:
    return {(row.what, row.key) for row in frame.collect()}


def lease(store: str, seconds: float) -> None:
    async def take() -> None:
        async with await open_store(store) as opened:
            assert await opened.take_leases("orders", [2], "another process", seconds) == {2}

    asyncio.run(take())


def plant(store: Path, *statements: str) -> None:
    with closing(sqlite3.connect(store)) as db, db:
        for statement in statements:
            db.execute(statement)
        # A row without a checksum is one of an older version: what a replicator wrote, and no damage of the disk.
        for table in ("journal", "metajournal", "pointer2", "cordwood_dead_letter"):
            db.execute(f"UPDATE {table} SET crc = NULL")


def fill(cw: cordwood.sync.Client, keys: int) -> None:
    """Journals of four events, of which the first is deleted, and a loser of k9; all replicated."""
    with cw.journal("orders", partitions=1, replicate=False) as journal:
        for number in range(keys):
            for event in range(4):
                journal.append(f"k{number}", [Event.json({"n": event})])
            journal.delete(f"k{number}", through=1)
        payload_type, value = encode_value([Event.json("lost")], 3, None, None)
        loser = encode_header(Append(3, 3, payload_type, id="loser", expected=2))
        for key, header, body in (
            (b"k9", loser, value),
            (b"k10", b"{", None),
            (b"k11", b"{", None),
            (b"k12", b"{", None),
        ):
            cw.log("orders").append(Batch.of([body or b""], keys=[key], headers=[[("journal.action", header)]]))
        journal.catch_up()


def test_audit_finds_planted_faults(spark: SparkSession, cw: cordwood.sync.Client, folder: Path) -> None:
    store = folder / "store.db"
    url = f"sqlite:{store}"
    fill(cw, 20)
    sound = {("closed key", f"k{number}") for number in (10, 11, 12)}
    assert kinds_of(pipeline.audit(spark, folder, "orders", url)) == sound
    with cw.journal("orders", replicate=False) as journal:
        letter = next(letter for letter in journal.dead_letters() if letter.id == "k12")
        journal.skip(partition=0, offset=letter.offset)
    # Numbers 2 to 4 of each journal live.
    of = "topic = 'orders' AND id ="
    plant(
        store,
        f"DELETE FROM journal WHERE {of} 'k0' AND seq_nr = 3",
        f"INSERT INTO journal ({EVENT}) SELECT {EVENT.replace('seq_nr', '9')} FROM journal"
        f" WHERE {of} 'k1' AND seq_nr = 4",
        f"UPDATE metajournal SET seq_nr = 9 WHERE {of} 'k1'",
        f"UPDATE journal SET payload_txt = '9' WHERE {of} 'k2' AND seq_nr = 3",
        f"INSERT INTO journal ({EVENT}) SELECT {EVENT.replace('timestamp', 'timestamp + 1')} FROM journal"
        f" WHERE {of} 'k3' AND seq_nr = 3",
        f"DELETE FROM metajournal WHERE {of} 'k4'",
        f"UPDATE journal SET meta_record_id = 'another' WHERE {of} 'k5' AND seq_nr = 3",
        f"DELETE FROM journal WHERE {of} 'k6'",
        f"INSERT INTO metajournal (id, {HEAD}) SELECT 'ghost', {HEAD} FROM metajournal WHERE {of} 'k7'",
        f"UPDATE metajournal SET updated = updated + 1 WHERE {of} 'k8'",
        f"UPDATE journal SET payload_txt = '\"lost\"', offset = (SELECT max(offset) - 3 FROM cordwood_dead_letter) + 0"
        f" WHERE {of} 'k9' AND seq_nr = 3",
        "DELETE FROM cordwood_dead_letter WHERE id = 'k11'",
        "INSERT INTO cordwood_dead_letter (topic, partition, offset, id, reason, timestamp)"
        " VALUES ('orders', 0, 5, 'k13', 'planted', 0)",
        "INSERT INTO cordwood_dead_letter (topic, partition, offset, through, reason, timestamp)"
        " VALUES ('orders', 0, 6, 8, 'planted', 0)",
        f"INSERT INTO journal ({EVENT}) SELECT {EVENT.replace('seq_nr', '1')} FROM journal"
        f" WHERE {of} 'k14' AND seq_nr = 4",
    )
    expected = {
        ("missing event", "k0"),
        ("extra event", "k1"),
        ("different head row", "k1"),
        ("different event", "k2"),
        ("duplicate event", "k3"),
        ("orphan event", "k4"),
        ("missing journal", "k4"),
        ("event of another life", "k5"),
        ("missing event", "k5"),
        ("head row without events", "k6"),
        ("extra journal", "ghost"),
        ("different head row", "k8"),
        ("stored loser", "k9"),
        ("closed key", "k10"),
        ("closed key", "k11"),
        ("missing dead letter", "k11"),
        ("skipped record", "k12"),
        ("extra dead letter", "k13"),
        ("lost range", None),
        ("extra event", "k14"),
    }
    found = pipeline.audit(spark, folder, "orders", url).collect()
    assert {(row.what, row.key) for row in found} == expected
    assert len({what for what, _ in expected}) >= 12
    assert all(row.severity == KINDS[row.what][0] for row in found)
    by_kind = {(row.what, row.key): row for row in found}
    assert by_kind["missing event", "k0"].numbers == "3"
    assert by_kind["head row without events", "k6"].numbers == "2-4"
    assert by_kind["lost range", None].numbers == "6-8"
    assert tuple(by_kind["different event", "k2"].place)[:2] == ("orders", 0)
    unfixable = {(row.what, row.key) for row in found if not row.fixable}
    assert {what for what, _ in unfixable} == {
        *("closed key", "missing dead letter", "skipped record", "extra dead letter", "lost range"),
    }
    assert kinds_of(pipeline.audit(spark, folder, "orders", url, fix=True)) == expected
    assert kinds_of(pipeline.audit(spark, folder, "orders", url)) == unfixable
    with cw.journal("orders", replicate=False) as journal:
        for number in (0, 1, 4, 9):
            assert [event.payload for event in journal.read(f"k{number}")] == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_a_trimmed_log_is_unknown_unless_the_archive_has_it(
    spark: SparkSession, cw: cordwood.sync.Client, folder: Path
) -> None:
    store, path = folder / "store.db", folder.parent / "archive"
    url = f"sqlite:{store}"
    fill(cw, 3)
    pipeline.archive(spark, folder, "orders", path)
    cw.log("orders").trim(8)
    closed = {("closed key", f"k{number}") for number in (10, 11, 12)}
    assert kinds_of(pipeline.audit(spark, folder, "orders", url)) == {*closed, ("unknown history", None)}
    assert kinds_of(pipeline.audit(spark, folder, "orders", url, archive=path)) == closed
    plant(
        store,
        "DELETE FROM journal WHERE id = 'k0' AND seq_nr = 3",
        "DELETE FROM journal WHERE id = 'k1'",
        "UPDATE journal SET payload_txt = '9' WHERE id = 'k2' AND seq_nr = 3",
    )
    found = pipeline.audit(spark, folder, "orders", url, fix=True).collect()
    assert {(row.what, row.key) for row in found} == {
        *closed,
        ("unknown history", None),
        ("gap", "k0"),
        ("head row without events", "k1"),
    }
    assert not any(row.fixable for row in found)
    assert {row.severity for row in found if row.what == "unknown history"} == {"unknown"}
    found = pipeline.audit(spark, folder, "orders", url, archive=path, fix=True).collect()
    assert {(row.what, row.key) for row in found if row.fixable} == {
        ("missing event", "k0"),
        ("head row without events", "k1"),
        ("different event", "k2"),
    }
    assert kinds_of(pipeline.audit(spark, folder, "orders", url, archive=path)) == closed


def test_wrong_pointers_are_found(spark: SparkSession, cw: cordwood.sync.Client, folder: Path) -> None:
    store = folder / "store.db"
    url = f"sqlite:{store}"
    with cw.journal("orders", partitions=1, replicate=False) as journal:
        for number in range(3):
            journal.append("a", [Event.json(number)])
        journal.catch_up()
    assert kinds_of(pipeline.audit(spark, folder, "orders", url)) == set()
    plant(store, "UPDATE pointer2 SET offset = 100")
    assert kinds_of(pipeline.audit(spark, folder, "orders", url)) == {("pointer beyond the end", None)}
    plant(store, "DELETE FROM pointer2")
    assert kinds_of(pipeline.audit(spark, folder, "orders", url)) == {("row without a pointer", "a")}
    cw.log("orders").trim(2)
    assert ("lost records", None) in kinds_of(pipeline.audit(spark, folder, "orders", url))


@pytest.mark.parametrize("seed", range(3))
async def test_a_store_that_was_replicated_is_sound(
    spark: SparkSession, folder: Path, tmp_path: Path, seed: int
) -> None:
    store = f"sqlite:{tmp_path / 'store.db'}"
    async with cordwood.connect(folder) as client:
        info = await client.create_topic("orders", partitions=2)
        history = History(info.id, 2, random.Random(seed), foreign=True, poison=seed == 2)
        history.grow(150)
        await history.append_to(client._engine, "orders")
        async with client.journal("orders", store=store, replicate=False, keep=None, single_writer=True) as journal:
            await journal.catch_up()
            letters = {letter.id for letter in await journal.dead_letters()}
        history.grow(40)
        await history.append_to(client._engine, "orders")
        found = pipeline.audit(spark, folder, "orders", store).collect()
        assert {row.what for row in found} <= {"closed key"}
        assert {row.key for row in found} <= letters


def test_an_audit_beside_a_replicator_finds_nothing(
    spark: SparkSession, cw: cordwood.sync.Client, folder: Path
) -> None:
    url = f"sqlite:{folder / 'store.db'}"
    with cw.journal("orders") as journal:
        for number in range(200):
            journal.append(f"order-{number % 20}", [Event.json({"n": number})])
            if number % 100 == 60:
                found = kinds_of(pipeline.audit(spark, folder, "orders", url))
                assert {what for what, _ in found} <= {"changed meanwhile"}


async def test_audit_of_a_topic_on_kafka(spark: SparkSession, kafka: Broker, tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    async with (
        cordwood.connect(kafka.url) as client,
        client.journal("audited", store=f"sqlite:{store}", partitions=2) as journal,
    ):
        for number in range(20):
            await journal.append(f"k{number % 5}", [Event.json(number)])
        await journal.catch_up()
    assert kinds_of(pipeline.audit(spark, kafka.url, "audited", f"sqlite:{store}")) == set()
    plant(store, "DELETE FROM journal WHERE id = 'k3' AND seq_nr = 2")
    assert kinds_of(pipeline.audit(spark, kafka.url, "audited", f"sqlite:{store}")) == {("missing event", "k3")}


def test_bad_input_of_audit_is_told_at_the_call(spark: SparkSession, cw: cordwood.sync.Client, folder: Path) -> None:
    store = f"sqlite:{folder / 'store.db'}"
    with cw.journal("orders") as journal:
        journal.append("a", [Event.json(1)])
        journal.catch_up()
    with pytest.raises(NotFound, match="'nothing'"):
        pipeline.audit(spark, folder, "nothing", store)
    with pytest.raises(NotFound):
        pipeline.audit(spark, folder, "orders", f"sqlite:{folder / 'no store.db'}")
    with pytest.raises(InvalidInput, match="a/b"):
        pipeline.audit(spark, folder, "a/b", store)
    lease(store, 60)
    with pytest.raises(Unavailable, match="another process replicates orders/2: stop it") as caught:
        pipeline.audit(spark, folder, "orders", store, fix=True)
    assert caught.value.reason == "busy"
    cw.delete_topic("orders")
    cw.create_topic("orders", partitions=4)
    with pytest.raises(Conflict, match="was created again"):
        pipeline.audit(spark, folder, "orders", store)
    with pytest.raises(NotFound, match="no region 7"):
        pipeline.audit_region(spark, folder, "metrics", region=7)


def test_numbers_are_shown_as_ranges() -> None:
    assert in_words([]) == ""
    assert in_words([4, 9, 5, 7, 6]) == "4-7, 9"


def test_audit_region_finds_what_is_wrong_with_a_region(
    spark: SparkSession, cw: cordwood.sync.Client, folder: Path
) -> None:
    with cw.wal("metrics", clean_every=None).region(7) as region:
        for step in range(30):
            region.write(step % 3, [b"a", b"b"])
        region.mark_deleted(0, through=19)
    (row,) = pipeline.audit_region(spark, folder, "metrics", region=7).collect()
    assert (row.severity, row.what, row.key) == ("info", "holds the region back", "1")
    # An owner that was fenced, and a record that is none.
    zombie = encode_write(7, 0, 60, 1, 21, 1, encode_payloads([b"zombie"]))
    with cw.wal("metrics", clean_every=None).region(7) as region:
        region.write(2, [b"c"])
        cw.log("metrics_data_7").append(Batch.of([zombie, b"bad"]))
    found = {
        (row.what, row.key, row.numbers) for row in pipeline.audit_region(spark, folder, "metrics", region=7).collect()
    }
    assert {what for what, *_ in found} == {"holds the region back", "refused record", "record that cannot be decoded"}
    assert ("refused record", "1", "21-21") in found
