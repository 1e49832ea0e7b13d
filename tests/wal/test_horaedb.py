"""Reading the regions of HoraeDB: the bytes, the marks, and the cases in which the original goes wrong."""

from collections.abc import Awaitable, Callable
from struct import pack
from typing import Any

import pytest

import cordwood
from cordwood import Batch, Client, Corrupt, InvalidInput, NotFound, Region, TableEntries, Wal
from cordwood.wal.formats.entrywise.codec import Known
from cordwood.wal.formats.entrywise.horaedb import HoraeDbCodec
from tests.support.wal.horaedb_region import HoraeDb, entry, log_key, snapshot
from tests.support.wal.region_contents import by_table, taken

KEY = bytes.fromhex("01 00000000 0000002a 00000000 00000007 00000000 00000001 00")
SNAPSHOT_KEY = bytes.fromhex("00 00 00000000 0000002a")
SNAPSHOT = bytes.fromhex("00 12 0a 08 07 10 05 18 02 20 20 28 10")
CODEC = HoraeDbCodec()


def wal(cw: Client) -> Wal:
    return cw.wal("metrics", codec="horaedb")


@pytest.fixture
async def horaedb(cw: Client) -> HoraeDb:
    region = HoraeDb(cw, "metrics", 7)
    await region.create()
    return region


def test_the_original_s_bytes() -> None:
    assert CODEC.decode_key(KEY, 42, "log", 0) == (7, 1, False)
    assert log_key(42, 7, 1) == KEY
    assert bytes(CODEC.decode_payload(b"\0payload", "log", 0)) == b"payload"
    known = [Known(table=7, next_sequence=5, deleted_through=1, high_watermark=32, oldest=16)]
    assert list(CODEC.decode_meta(SNAPSHOT_KEY, SNAPSHOT, 42, "log", 0)) == known
    assert snapshot([entry(7, 5, 2, 32, 16)]) == SNAPSHOT


def test_numbers_of_many_bytes_and_fields_of_later_versions_are_read() -> None:
    large = entry(2**63, 2**40, 2**40, 300, None)
    later = b"\x31" + bytes(8) + b"\x3d" + bytes(4) + b"\x42\x02hi" + b"\x48\x96\x01"  # fields 6 to 9, one of each kind
    value = snapshot([large + later, entry(0, 1, 1, 0, 0)]) + b"\x18\x01"
    assert list(CODEC.decode_meta(SNAPSHOT_KEY, value, 42, "log", 0)) == [
        Known(2**63, 2**40, 2**40 - 1, 300, None),
        Known(0, 1, 0, 0, 0),
    ]


async def test_tables_logs_and_recovery_are_those_of_any_region(cw: Client, horaedb: HoraeDb) -> None:
    await horaedb.write(42, 1, [b"a", b"b", b""])
    await horaedb.write(43, 1, [b"c"])
    await horaedb.write(42, 4, [b"d"])
    async with wal(cw).region(7) as region:
        assert await by_table(region) == {42: {1: b"a", 2: b"b", 3: b"", 4: b"d"}, 43: {1: b"c"}}
        assert await taken(region.read(42, start=2, stop=4)) == [(42, range(2, 3), [b"b"]), (42, range(3, 4), [b""])]
        assert await taken(region.read(42, start=5)) == await taken(region.read(44)) == []
        assert {table: meta.next_sequence for table, meta in region.tables().items()} == {42: 5, 43: 2}
        assert region.tables()[42].high_watermark == 5
        assert region.tables()[43].mapping == {1: 3}
        found: dict[int, list[bytes | None]] = {}

        async def apply(table: int, entries: TableEntries) -> None:
            found.setdefault(table, []).extend(entries.payloads)

        report = await region.recover(apply)
        assert (report.applied, report.failed) == (5, {})
        assert found == {42: [b"a", b"b", b"", b"d"], 43: [b"c"]}
        assert region.stats().next_offset == 5
    assert await wal(cw).regions() == [7]


async def test_the_mark_is_the_first_log_that_is_kept(cw: Client, horaedb: HoraeDb) -> None:
    await horaedb.write(42, 1, [b"a", b"b", b"c"])
    await horaedb.write(43, 1, [b"d", b"e"])
    await horaedb.snapshot(entry(42, 4, 3, 3, 2), entry(43, 3, 3, 5, None))
    await horaedb.write(42, 4, [b"f"])
    async with wal(cw).region(7) as region:
        assert await by_table(region) == {42: {3: b"c", 4: b"f"}}
        tables = region.tables()
        assert (tables[42].deleted_through, tables[42].next_sequence) == (2, 5)
        assert (tables[43].deleted_through, tables[43].next_sequence, tables[43].high_watermark) == (2, 3, 5)
        assert region.stats().oldest_offset == 2


async def test_opening_leaves_no_trace_and_everything_that_writes_is_refused(cw: Client, horaedb: HoraeDb) -> None:
    await horaedb.write(42, 1, [b"a"])
    await horaedb.snapshot(entry(42, 2, 1, 1, 0))
    before = await horaedb.data.bounds(), await horaedb.meta.bounds()
    async with wal(cw).region(7) as region:
        calls: list[Callable[[Region], Awaitable[Any]]] = [
            lambda region: region.write(42, [b"b"]),
            lambda region: region.write_many({42: [b"b"]}),
            lambda region: region.mark_deleted(42, through=1),
            lambda region: region.drop_table(42),
            lambda region: region.snapshot(),
            lambda region: region.clean(),
        ]
        for call in calls:
            with pytest.raises(InvalidInput, match="region 7 of 'metrics' has the codec 'horaedb', which only reads"):
                await call(region)
    assert (await horaedb.data.bounds(), await horaedb.meta.bounds()) == before
    topics = await cw.topics()
    with pytest.raises(NotFound, match=r"has no region 8$"):
        await wal(cw).region(8)
    assert await cw.topics() == topics


async def test_a_meta_topic_that_retention_emptied_is_no_error(
    cw: Client, horaedb: HoraeDb, caplog: pytest.LogCaptureFixture
) -> None:
    await horaedb.write(42, 1, [b"a"])
    await horaedb.snapshot(entry(42, 2, 2, 1, None))
    await horaedb.meta.trim((await horaedb.meta.bounds())[1])
    async with wal(cw).region(7) as region:
        assert await by_table(region) == {42: {1: b"a"}}
    assert "metrics_meta_7/0 was emptied" in caplog.text
    await cw.delete_topic("metrics_meta_7")
    async with wal(cw).region(7) as region:
        assert await by_table(region) == {42: {1: b"a"}}


async def test_a_region_all_of_which_is_deleted_is_opened(cw: Client, horaedb: HoraeDb) -> None:
    offsets = await horaedb.write(42, 1, [b"a", b"b"])
    await horaedb.snapshot(entry(42, 3, 3, 2, None))
    await horaedb.data.trim(offsets[-1] + 1)
    async with wal(cw).region(7) as region:
        assert await by_table(region) == {}
        assert region.tables()[42].next_sequence == 3


async def test_of_a_number_used_again_after_a_failed_write_the_later_one_counts(cw: Client, horaedb: HoraeDb) -> None:
    await horaedb.write(42, 1, [b"a"])
    await horaedb.write(42, 2, [b"no answer", b"no answer"])
    await horaedb.write(43, 1, [b"c"])
    await horaedb.write(42, 2, [b"b", b"d"])
    await horaedb.write(42, 4, [b"e"])
    async with wal(cw).region(7) as region:
        assert await by_table(region) == {42: {1: b"a", 2: b"b", 3: b"d", 4: b"e"}, 43: {1: b"c"}}
        assert await taken(region.read(42, start=2, stop=3)) == [(42, range(2, 3), [b"b"])]
        assert region.tables()[42].next_sequence == 5


async def test_a_record_that_arrives_late_hides_no_other_number(cw: Client, horaedb: HoraeDb) -> None:
    await horaedb.write(42, 1, [b"a"])
    await horaedb.write(42, 3, [b"c"])
    await horaedb.write(42, 2, [b"late"])
    async with wal(cw).region(7) as region:
        order = [numbers.start for _, numbers, _ in await taken(region.replay())]
        assert order == [1, 3, 2], "in log order"
        assert await taken(region.read(42, start=2, stop=3)) == [(42, range(2, 3), [b"late"])]


async def test_what_is_written_after_the_opening_is_read_by_the_next_one(cw: Client, horaedb: HoraeDb) -> None:
    await horaedb.write(42, 1, [b"a"])
    async with wal(cw).region(7) as region:
        await horaedb.write(42, 1, [b"again"])
        assert await by_table(region) == {42: {1: b"a"}}
    async with wal(cw).region(7) as region:
        assert await by_table(region) == {42: {1: b"again"}}


async def test_a_reader_goes_on_behind_what_its_cleaner_trims(cw: Client, horaedb: HoraeDb) -> None:
    await horaedb.write(42, 1, [b"a", b"b"])
    await horaedb.write(43, 1, [b"c"])
    async with wal(cw).region(7) as region:
        await horaedb.snapshot(entry(42, 3, 3, 2, None), entry(43, 2, 1, 3, 2))
        await horaedb.data.trim(2)
        assert await by_table(region) == {43: {1: b"c"}}


async def test_logs_that_retention_took_are_said_by_table_and_number(cw: Client, horaedb: HoraeDb) -> None:
    await horaedb.write(42, 1, [b"a", b"b", b"c"])
    await horaedb.write(43, 1, [b"d"])
    await horaedb.snapshot(entry(42, 4, 2, 3, 1), entry(43, 2, 1, 4, 3))
    await horaedb.data.trim(2)
    async with wal(cw).region(7) as region:
        assert region.stats().lost == {42: range(2, 3)}
        assert await by_table(region) == {42: {3: b"c"}, 43: {1: b"d"}}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (log_key(7, 42, 1)[:25], b"\0a", "a key of 25 bytes: a key of this format has 26"),
        (None, b"\0a", "a key of 0 bytes"),
        (log_key(8, 42, 1), b"\0a", "a record of region 8 in the log of region 7"),
        (log_key(7, 42, 1, version=1), b"\0a", "version 1 of a key; this Cordwood knows version 0"),
        (log_key(7, 42, 1, namespace=0), b"\0a", "a key of namespace 0"),
        (log_key(7, 42, 1), b"\x05a", "version 5 of a value; this Cordwood knows version 0"),
        (log_key(7, 42, 1), None, "a record without a value"),
    ],
)
async def test_what_is_no_record_is_damage_with_its_place(
    cw: Client, horaedb: HoraeDb, key: bytes | None, value: bytes | None, said: str
) -> None:
    await horaedb.write(42, 1, [b"a"])
    await horaedb.data.append(Batch.of([value], keys=[key]))
    with pytest.raises(Corrupt, match=f"metrics_data_7/0 at offset 1: {said}"):
        async with wal(cw).region(7) as region:
            await by_table(region)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (pack(">BBQ", 0, 0, 8), SNAPSHOT, "a record of region 8"),
        (pack(">BBQ", 0, 2, 7), SNAPSHOT, "version 2 of a key"),
        (pack(">BBQ", 0, 0, 7), b"\1" + SNAPSHOT[1:], "version 1 of a value"),
        (pack(">BBQ", 0, 0, 7), SNAPSHOT[:-1], "a snapshot that is no protobuf message"),
        (pack(">BBQ", 0, 0, 7), b"\0\x13", "a snapshot that is no protobuf message"),
        (pack(">BBQ", 0, 0, 7), b"\0\x10" + b"\xff" * 11, "a snapshot that is no protobuf message"),
        (b"\0", SNAPSHOT, "a key of 1 bytes: a key of this format has 10"),
    ],
)
@pytest.mark.parametrize("engine", ["embedded"])
async def test_what_is_no_snapshot_is_damage_with_its_place(
    cw: Client, horaedb: HoraeDb, key: bytes, value: bytes, said: str
) -> None:
    await horaedb.meta.append(Batch.of([value], keys=[key]))
    with pytest.raises(Corrupt, match=f"metrics_meta_7/0 at offset 0: {said}"):
        await wal(cw).region(7)


@pytest.mark.parametrize("engine", ["embedded"])
async def test_another_codec_is_refused_by_name(cw: Client) -> None:
    with pytest.raises(InvalidInput, match="codec is 'ceresdb': it is one of 'cordwood', "):
        cw.wal("metrics", codec="ceresdb")


async def test_the_blocking_twin_reads_it_too(cw: Client, horaedb: HoraeDb, url: str) -> None:
    await horaedb.write(42, 1, [b"a", b"b"])
    with cordwood.sync.connect(url, read_only=True) as blocking:
        region = blocking.wal("metrics", codec="horaedb").region(7)
        assert [bytes(entries.payloads[0] or b"") for entries in region.replay()] == [b"a", b"b"]
        with pytest.raises(InvalidInput, match="only reads"):
            region.write(42, [b"c"])
