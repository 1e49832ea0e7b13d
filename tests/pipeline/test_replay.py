"""`pipeline.replay` gives what `region.recover` gives, row for row, however the region is divided."""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import cordwood
from cordwood import Batch, Client, Corrupt, InvalidInput, NotFound, TableEntries, pipeline
from cordwood.pipeline.replaying import ranges
from cordwood.pipeline.replaying.options import ReplayOptions, Wanted
from cordwood.pipeline.replaying.rows import entries_of_rows
from cordwood.pipeline.replaying.source import RegionReader
from cordwood.testing.kafka import Broker
from cordwood.url import parse_url
from cordwood.wal.formats.cordwood.data_log import DataLog
from cordwood.wal.formats.cordwood.data_record import encode_owner, encode_payloads, encode_write
from cordwood.wal.record import NOBODY, OwnerRecord
from tests.support.wal.horaedb_region import HoraeDb, entry

Row = tuple[int, int, bytes, int]

KINDS = [
    ("cordwood", "two-topics"),
    ("cordwood", "one-topic"),
    ("rfc", "two-topics"),
    ("rfc", "one-topic"),
    ("horaedb", "two-topics"),
]


async def make_history(folder: Path, codec: str, layout: str, seed: int) -> None:
    """A region with several owners, marks, drops, and records of owners that were fenced."""
    chance = random.Random(seed)
    async with cordwood.connect(folder) as cw:
        if codec == "horaedb":
            await make_horaedb(cw, chance)
            return
        fenced: list[int] = []
        for _ in range(3):
            wal = cw.wal("metrics", codec=codec, layout=layout, clean_every=None)
            async with wal.region(7) as region:
                for step in range(30):
                    table = chance.choice((0, 1, 5, 2**32 - 1))
                    size = chance.choice((0, 5, 300))
                    numbers = await region.write(table, [chance.randbytes(size) for _ in range(chance.randint(1, 5))])
                    if step % 7 == 3:
                        await region.mark_deleted(table, through=chance.randint(0, numbers[-1]))
                    if step % 9 == 8 and fenced:
                        await append_zombies(cw, layout, fenced, chance)
                    if step == 20 and chance.random() < 0.5:
                        await region.snapshot()
                await region.drop_table(5)
                if isinstance(region._data, DataLog):
                    fenced.append(region._data.owner)


async def append_zombies(cw: Client, layout: str, fenced: list[int], chance: random.Random) -> None:
    """Late records of earlier owners, with counts that may well be the next ones."""
    log = cw.log("metrics_data_7" if layout == "two-topics" else "metrics_region_7")
    column = encode_payloads([b"zombie"])
    late = [encode_write(7, owner, chance.randint(0, 300), 1, 1000, 1, column) for owner in fenced]
    await log.append(Batch.of(late))


async def make_horaedb(cw: Client, chance: random.Random) -> None:
    region = HoraeDb(cw, "metrics", 7)
    await region.create()
    nexts = dict.fromkeys((1, 2, 9), 1)
    offsets: Sequence[int] = ()
    for _ in range(40):
        table = chance.choice((1, 2, 9))
        payloads = [chance.randbytes(20) for _ in range(chance.randint(1, 4))]
        offsets = await region.write(table, nexts[table], payloads)
        nexts[table] += len(payloads)
    await region.snapshot(entry(1, nexts[1], nexts[1] // 2, offsets[-1] + 1, 0))
    await region.write(2, nexts[2] - 1, [b"written again", b"and more"])


async def recovered(folder: Path, codec: str, layout: str) -> list[Row]:
    rows: list[Row] = []

    async def apply(table: int, entries: TableEntries) -> None:
        rows.extend(
            (table, sequence, payload or b"", entries.offset)
            for sequence, payload in zip(entries.sequences, entries.payloads, strict=True)
        )

    async with cordwood.connect(folder, read_only=True) as cw:
        region = await cw.wal("metrics", codec=codec, layout=layout).region(7, create=False)
        assert (await region.recover(apply)).failed == {}
    return sorted(rows)


def reader_of(
    folder: Path, codec: str, layout: str, *, buckets: int = 0, permissive: bool = False, tables: frozenset[int] | None
) -> RegionReader:
    wanted = Wanted("metrics", 7, codec, layout, permissive, tables, buckets)
    return RegionReader(ReplayOptions(parse_url(folder), wanted))


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    names = ("table", "sequence", "payload", "offset")
    return [row for batch in batches for row in zip(*(batch.column(name).to_pylist() for name in names), strict=True)]


@pytest.mark.parametrize(("codec", "layout"), KINDS)
@pytest.mark.parametrize("seed", range(4))
async def test_however_a_region_is_divided_its_entries_are_those_of_recover(
    folder: Path, monkeypatch: pytest.MonkeyPatch, codec: str, layout: str, seed: int
) -> None:
    await make_history(folder, codec, layout, seed)
    expected = await recovered(folder, codec, layout)
    assert expected
    for task_bytes in (1, 1000, 1 << 30):
        monkeypatch.setattr(ranges, "TASK_BYTES", task_bytes)
        reader = reader_of(folder, codec, layout, tables=None)
        parts = reader.partitions()
        assert (len(parts) == 1) == (task_bytes == 1 << 30)
        found = [row for part in parts for row in rows_of(reader.read(part))]
        assert sorted(found) == expected
        assert [row[3] for row in found] == sorted(row[3] for row in found), "in the order of the log"


@pytest.mark.parametrize(("codec", "layout"), KINDS)
async def test_buckets_in_their_order_have_all_entries_in_order(
    folder: Path, monkeypatch: pytest.MonkeyPatch, codec: str, layout: str
) -> None:
    monkeypatch.setattr(ranges, "TASK_BYTES", 1000)
    await make_history(folder, codec, layout, 1)
    expected = await recovered(folder, codec, layout)
    reader = reader_of(folder, codec, layout, buckets=5, tables=None)
    writes = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    bare = codec != "cordwood"
    sizes = [0] * 5
    for write in writes:
        sizes[write["bucket"]] += write["count"]
    assert min(sizes) > 0
    assert max(sizes) < len(expected) / 2
    found: list[Row] = []
    for bucket in range(5):
        found += sorted(
            row
            for part in reader.partitions()
            for batch in reader.read(part)
            for row in rows_of(entries_of_rows(batch.filter(pc.equal(batch["bucket"], bucket)), bare, errors=False))
        )
    assert found == expected


async def test_only_the_tables_that_are_asked_for(folder: Path) -> None:
    await make_history(folder, "cordwood", "two-topics", 2)
    expected = [row for row in await recovered(folder, "cordwood", "two-topics") if row[0] in (1, 3)]
    reader = reader_of(folder, "cordwood", "two-topics", tables=frozenset((1, 3)))
    assert sorted(row for part in reader.partitions() for row in rows_of(reader.read(part))) == expected


async def test_r16_a_trim_between_plan_and_read_is_no_loss(folder: Path) -> None:
    async with cordwood.connect(folder) as cw, cw.wal("metrics", clean_every=None).region(7) as region:
        for step in range(20):
            await region.write(step % 2, [b"%d" % step])
        reader = reader_of(folder, "cordwood", "two-topics", tables=None)
        (part,) = reader.partitions()
        await region.mark_deleted(0, through=8)
        await region.mark_deleted(1, through=7)
        await region.clean()
        found = rows_of(reader.read(part))
        assert [row[:2] for row in found] == [(1, 8), (0, 9), (1, 9), (0, 10), (1, 10)]
        await cw.log("metrics_data_7").trim(20)
        with pytest.raises(cordwood.Trimmed):
            list(reader.read(part))


BAD = b"no record"


def owner(renews: int = NOBODY, running_count: int = 0) -> bytes:
    return encode_owner(7, OwnerRecord(renews, running_count, 1, "here:1"))


def write(of: int, running_count: int, table: int, first: int, *payloads: bytes) -> bytes:
    return encode_write(7, of, running_count, table, first, len(payloads), encode_payloads(list(payloads)))


def make_log(cw: cordwood.sync.Client, *records: bytes) -> None:
    for topic in ("metrics_meta_7", "metrics_data_7"):
        cw.create_topic(topic)
    cw.log("metrics_data_7").append(Batch.of(records))


@pytest.mark.parametrize("ordered", [True, False])
def test_r45_after_a_bad_record_its_owner_s_next_write_counts(
    spark: SparkSession, cw: cordwood.sync.Client, folder: Path, ordered: bool
) -> None:
    make_log(
        cw,
        owner(),
        write(0, 0, 1, 1, b"a"),
        BAD,
        write(0, 0, 1, 1, b"again"),  # it comes twice
        write(0, 3, 1, 4, b"d"),
        write(0, 5, 1, 6, b"after a gap that no bad record explains"),
        BAD,  # an owner record, as the next write shows
        write(6, 4, 2, 1, b"e"),
        write(0, 5, 2, 2, b"zombie"),
        BAD,
    )
    with pytest.raises(
        Corrupt, match=r"metrics_data_7/0 at offset 2: .* \(the region was read with codec='cordwood'\)"
    ):
        pipeline.replay(spark, folder, "metrics", region=7, ordered=ordered)
    rows = pipeline.replay(spark, folder, "metrics", region=7, ordered=ordered, mode="PERMISSIVE").collect()
    good = [(row.table, row.sequence, bytes(row.payload), row.offset) for row in rows if row.error is None]
    assert good == [(1, 1, b"a", 1), (1, 4, b"d", 4), (2, 1, b"e", 7)]
    bad = {row.offset: row.error for row in rows if row.error is not None}
    assert list(bad) == [2, 6, 9]
    assert bad[2].endswith("; entries 2 to 3 in the region's count are missing")
    assert "missing" not in bad[6] + bad[9]


@pytest.mark.parametrize(("codec", "layout"), [("cordwood", "one-topic"), ("rfc", "two-topics")])
async def test_replay_with_zombie_records(spark: SparkSession, folder: Path, codec: str, layout: str) -> None:
    await make_history(folder, codec, layout, 3)
    expected = await recovered(folder, codec, layout)
    replay = pipeline.replay(spark, folder, "metrics", region=7, codec=codec, layout=layout)
    assert [(row.table, row.sequence, bytes(row.payload), row.offset) for row in replay.collect()] == expected
    logwise = pipeline.replay(spark, folder, "metrics", region=7, codec=codec, layout=layout, ordered=False)
    found = [(row.table, row.sequence, bytes(row.payload), row.offset) for row in logwise.collect()]
    assert found == sorted(expected, key=lambda row: (row[3], row[1]))


async def test_replay_from_kafka(spark: SparkSession, kafka: Broker) -> None:
    expected: list[Row] = []

    async def apply(table: int, entries: TableEntries) -> None:
        for sequence, payload in zip(entries.sequences, entries.payloads, strict=True):
            expected.append((table, sequence, payload or b"", entries.offset))

    async with cordwood.connect(kafka.url) as cw, cw.wal("replayed", clean_every=None).region(7) as region:
        for step in range(40):
            await region.write(step % 3, [b"%d.%d" % (step, at) for at in range(1 + step % 4)])
        await region.mark_deleted(1, through=4)
        await region.recover(apply)
    config = {"client.id": "replay"}
    for ordered in (True, False):
        replay = pipeline.replay(spark, kafka.url, "replayed", region=7, ordered=ordered, config=config)
        found = [(row.table, row.sequence, bytes(row.payload), row.offset) for row in replay.collect()]
        assert found == sorted(expected, key=lambda row: row[:2] if ordered else (row[3], row[1]))
    with pytest.raises(NotFound, match="'replayed' has no region 8"):
        pipeline.replay(spark, kafka.url, "replayed", region=8)


def test_parquet_gets_one_file_per_table_and_task(
    spark: SparkSession, cw: cordwood.sync.Client, folder: Path, tmp_path: Path
) -> None:
    with cw.wal("metrics").region(7) as region:
        for step in range(30):
            region.write(step % 3, [b"%d" % step])
        entries = pipeline.replay(spark, folder, "metrics", region=7)
        entries.write.partitionBy("table").parquet(str(tmp_path / "lake"))
        files = [path.parent.name for path in (tmp_path / "lake").glob("*/*.parquet")]
        assert sorted(files) == ["table=0", "table=1", "table=2"]
        region.write(0, [b"later"])
        assert entries.count() == 30, "a snapshot of its first action"
        assert pipeline.replay(spark, folder, "metrics", region=7).count() == 31


def test_bad_input_is_told_when_it_is_called(spark: SparkSession, cw: cordwood.sync.Client, folder: Path) -> None:
    with cw.wal("metrics").region(7):
        assert pipeline.replay(spark, folder, "metrics", region=7).collect() == []
    for arguments, kind, text in (
        ({"namespace": "other"}, NotFound, "'other' has no region 7"),
        ({"region": 8}, NotFound, "'metrics' has no region 8"),
        ({"layout": "one-topic"}, NotFound, "no region 7 in one-topic"),
        ({"layout": "flat"}, InvalidInput, "layout is 'flat'"),
        ({"codec": "json"}, InvalidInput, "codec is 'json'"),
        ({"codec": "rfc"}, Corrupt, "codec='rfc'"),
        ({"mode": "DROPMALFORMED"}, InvalidInput, "it is one of 'FAILFAST', 'PERMISSIVE'"),
        ({"tables": [-1]}, InvalidInput, "table -1"),
        ({"region": -1}, InvalidInput, "region -1"),
    ):
        with pytest.raises(kind, match=text):
            pipeline.replay(spark, folder, **{"namespace": "metrics", "region": 7, **arguments})  # type: ignore[arg-type]


def test_a_log_without_an_owner_is_no_region(spark: SparkSession, cw: cordwood.sync.Client, folder: Path) -> None:
    make_log(cw, write(0, 0, 1, 1, b"a"))
    with pytest.raises(Corrupt, match=r"no owner record and no snapshot: .* name its own with codec="):
        pipeline.replay(spark, folder, "metrics", region=7)
