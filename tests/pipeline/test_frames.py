"""Stored records as rows: each record once, whatever its bytes are."""

import random
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import cordwood
from cordwood import Batch, Event, InvalidInput, pipeline
from cordwood.testing.kafka import Broker
from cordwood.wal.formats.cordwood.data_record import encode_owner, encode_payloads, encode_write
from cordwood.wal.record import NOBODY, OwnerRecord
from tests.support.wal.horaedb_region import log_key

OWNER = encode_owner(7, OwnerRecord(NOBODY, 0, 1, "here:1"))


def write(table: int, first: int, payloads: list[bytes], *, region: int = 7) -> bytes:
    return encode_write(region, 0, 0, table, first, len(payloads), encode_payloads(payloads))


def wal_rows(frame: DataFrame, codec: str = "cordwood") -> list[tuple[object, ...]]:
    found = pipeline.wal_records(frame, codec).orderBy("place").collect()
    return [
        (
            row.owner,
            row.table,
            row.first,
            row["count"],
            None if row.payloads is None else list(map(bytes, row.payloads)),
            tuple(row.place),
            row.error,
        )
        for row in found
    ]


def test_wal_records_are_the_writes_as_they_are_stored(
    spark: SparkSession, cw: cordwood.sync.Client, folder: Path
) -> None:
    chance = random.Random(1)
    cw.create_topic("log")
    writes = [
        (table, 1 + 10 * at, [chance.randbytes(chance.choice((0, 1, 7, 8, 100))) for _ in range(chance.randint(1, 9))])
        for at in range(50)
        for table in (3, 2**63 - 1)
    ]
    cw.log("log").append(Batch.of([write(*each) for each in writes]))
    assert wal_rows(pipeline.read(spark, folder, "log")) == [
        (0, table, first, len(payloads), payloads, ("log", 0, at), None)
        for at, (table, first, payloads) in enumerate(writes)
    ]


def test_wal_records_that_cannot_be_decoded_have_an_error(
    spark: SparkSession, cw: cordwood.sync.Client, folder: Path
) -> None:
    cw.create_topic("log")
    flipped = bytearray(write(3, 1, [b"a", b"b"]))
    flipped[70] ^= 1
    bad_bounds = encode_write(7, 0, 0, 3, 1, 1, b"\0\0\0\0\xff\xff\xff\x7f")
    values = [OWNER, write(3, 1, [b"a"]), bytes(flipped), None, b"short", bad_bounds, write(4, 1, [b"b"], region=8)]
    cw.log("log").append(Batch.of(values))
    found = wal_rows(pipeline.read(spark, folder, "log"))
    assert [row[:5] for row in found] == [
        (0, None, None, None, None),
        (0, 3, 1, 1, [b"a"]),
        *[(None,) * 5] * 4,
        (0, 4, 1, 1, [b"b"]),
    ]
    errors = [row[6] for row in found]
    assert [error is None for error in errors] == [True, True, False, False, False, False, True]
    for error, text in zip(errors[2:6], ("CRC", "0 bytes", "version 115", "bounds"), strict=True):
        assert text in str(error)
        assert str(error).startswith("log/0 at offset")


@pytest.mark.parametrize("codec", ["rfc", "horaedb"])
def test_wal_records_of_other_codecs(spark: SparkSession, cw: cordwood.sync.Client, folder: Path, codec: str) -> None:
    cw.create_topic("log")
    if codec == "rfc":
        keys = [bytes.fromhex("0000000007000000000000000101"), b"bad", bytes.fromhex("0000000007000000000000000200")]
    else:
        keys = [log_key(9, 7, 1), b"bad", log_key(8, 7, 2)]
    cw.log("log").append(Batch.of([b"\0one", b"\0x", b"\0"], keys=keys))
    first, bad, second = wal_rows(pipeline.read(spark, folder, "log"), codec)
    assert first == (None, 7, 1, 1, [b"one"], ("log", 0, 0), None)
    assert second == (None, 7, 2, 1, [b""], ("log", 0, 2), None)
    assert bad[:5] == (None,) * 5
    assert "a key of 3 bytes" in str(bad[6])


def test_actions_are_what_the_journal_was_asked_for(
    spark: SparkSession, cw: cordwood.sync.Client, folder: Path
) -> None:
    with cw.journal("orders", partitions=1) as journal:
        journal.append(
            "a",
            [Event.json({"n": 1}), Event.binary(b"\xff"), Event.text("é", tags={"paid"}), Event.empty()],
            expire_after=timedelta(days=2),
            metadata={"by": "me"},
        )
        journal.append("b", [Event.json(1)], expected=0, id="one")
        journal.delete("a", through=2)
        journal.purge("b")
    records = pipeline.read(spark, folder, "orders", includeHeaders=True)
    rows = pipeline.actions(records).orderBy("place.offset").collect()
    first, second = rows[0], rows[1]
    assert [(row.id, row.action, row["from"], row.to, row.error) for row in rows] == [
        ("a", "append", 1, 4, None),
        ("b", "append", 1, 1, None),
        ("a", "delete", None, 2, None),
        ("b", "purge", None, None, None),
    ]
    assert [
        (event.seq_nr, event.kind, event.payload and bytes(event.payload), event.tags) for event in first.events
    ] == [
        (1, "json", b'{"n":1}', []),
        (2, "binary", b"\xff", []),
        (3, "text", "é".encode(), ["paid"]),
        (4, None, None, []),
    ]
    assert (first.metadata, first.expire_after, first.expected) == ('{"by":"me"}', timedelta(days=2), 0)
    assert (second.metadata, second.expire_after, second.expected) == (None, None, 0)
    assert (rows[2].events, tuple(rows[2].place)) == (None, ("orders", 0, 2))


def test_actions_that_cannot_be_decoded_have_an_error(
    spark: SparkSession, cw: cordwood.sync.Client, folder: Path
) -> None:
    cw.create_topic("orders")
    append = b'{"append":{"range":{"from":1,"to":1},"payloadType":"json","metadata":{}}}'
    value = b'{"events":[{"seqNr":1,"tags":[]}],"metadata":{}}'
    cases: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
        (b"k", b"x", []),
        (b"k", b"x", [("journal.action", b"{")]),
        (b"k", b"x", [("journal.action", b'{"rename":{}}')]),
        (b"k", b"{", [("other", b""), ("journal.action", append)]),
        (b"k", None, [("journal.action", append)]),
        (b"\xff", value, [("journal.action", append)]),
        (None, value, [("journal.action", append)]),
        (b"k", value, [("journal.action", append), ("journal.action", b"{")]),
    ]
    keys, values, headers = zip(*cases, strict=True)
    cw.log("orders").append(Batch.of(values, keys=keys, headers=headers))
    records = pipeline.read(spark, folder, "orders", includeHeaders=True)
    rows = pipeline.actions(records).orderBy("place.offset").collect()
    assert [row.action for row in rows] == [None, None, None, "append", None, "append", "append", "append"]
    assert [row.error is None for row in rows] == [True, False, True, False, True, False, False, True]
    assert [len(row.events or ()) for row in rows] == [0, 0, 0, 0, 0, 0, 0, 1]


def test_a_stream_has_the_same_rows(spark: SparkSession, cw: cordwood.sync.Client, folder: Path) -> None:
    cw.create_topic("log")
    cw.log("log").append(Batch.of([OWNER, write(3, 1, [b"a"])]))
    stream = pipeline.wal_records(pipeline.read_stream(spark, folder, "log", startingOffsets="earliest"))
    query = stream.writeStream.format("memory").queryName("frames").trigger(availableNow=True).start()
    query.awaitTermination()
    assert [row.table for row in spark.table("frames").orderBy("place").collect()] == [None, 3]


def test_sparks_own_kafka_source_feeds_the_frames(spark: SparkSession, kafka: Broker, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'store.db'}"
    with cordwood.sync.connect(kafka.url) as client, client.journal("frames", store=store) as journal:
        journal.append("a", [Event.json({"n": 1})])
        client.create_topic("frames-log")
        client.log("frames-log").append(Batch.of([OWNER, write(3, 1, [b"a", b"b"])]))
    servers = kafka.url.removeprefix("kafka://")

    def own(topic: str) -> DataFrame:
        options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "includeHeaders": "true"}
        return spark.read.format("kafka").options(**options).load()

    theirs, ours = (
        pipeline.actions(own("frames")),
        pipeline.actions(pipeline.read(spark, kafka.url, "frames", includeHeaders=True)),
    )
    assert [row.action for row in theirs.collect() if row.action == "append"] == ["append"]
    assert sorted(theirs.collect(), key=str) == sorted(ours.collect(), key=str)
    assert wal_rows(own("frames-log")) == wal_rows(pipeline.read(spark, kafka.url, "frames-log"))


def test_bad_input_is_refused_before_a_job(spark: SparkSession, cw: cordwood.sync.Client, folder: Path) -> None:
    cw.create_topic("orders")
    records = pipeline.read(spark, folder, "orders")
    with pytest.raises(InvalidInput, match="no headers: read it with includeHeaders=true"):
        pipeline.actions(records)
    with pytest.raises(InvalidInput, match="no key, value"):
        pipeline.wal_records(records.select("topic", "partition", "offset"))
    with pytest.raises(InvalidInput, match="codec is 'json': it is one of 'cordwood', 'rfc', 'horaedb'"):
        pipeline.wal_records(records, codec="json")
