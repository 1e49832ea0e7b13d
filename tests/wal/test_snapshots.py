"""Snapshots: when they are made, what an open reads, and what it does when logs are cut."""

import asyncio
from typing import Any

import pytest

import cordwood
from cordwood import Batch, Client, Corrupt, Log, Timeout
from cordwood.log import Follow
from cordwood.simulation.faulty_log import FaultyEngine, FaultyLog
from cordwood.wal.formats.cordwood import snapshot, snapshot_policy
from cordwood.wal.formats.cordwood.meta_record import MetaOwner, MetaRecord, SnapshotPart
from tests.support.wal.region_contents import by_table, meta_records, snapshots
from tests.support.wal.region_internals import data_of, meta_writer_of


async def data_end(cw: Client) -> int:
    return (await cw.log("metrics_data_7").bounds())[1]


class Counted(FaultyEngine):
    """An engine that counts the reads of data logs."""

    def __init__(self, cw: Client) -> None:
        super().__init__(cw, 0, 0)
        self.read_from: list[int | None] = []

    def log(self, topic: str, partition: int, *, timeout: float) -> Log:
        log = super().log(topic, partition, timeout=timeout)
        if isinstance(log, FaultyLog):
            read = log.read

            def counted(
                start: int | None = None, stop: int | None = None, follow: Follow = False, topic_id: str | None = None
            ) -> Any:
                self.read_from.append(start)
                return read(start, stop, follow, topic_id)

            log.read = counted  # type: ignore[method-assign]
        return log


async def test_a_close_leaves_one_snapshot_and_nothing_before_it(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        await region.write_many({42: [b"a", b"b"], 43: [b"c"]})
        await region.mark_deleted(42, through=1)
        before = region.tables()
    (left,) = await meta_records(cw)
    assert isinstance(left, SnapshotPart)
    assert left.high_watermark == await data_end(cw)
    assert (left.tables, left.next_sequences, left.deleted_through) == ([42, 43], [3, 2], [1, 0])
    async with cw.wal("metrics").region(7) as region:
        assert region.tables() == before


async def test_an_open_reads_only_what_was_written_since_the_snapshot(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        await region.write(1, [b"idle, from the start, never marked"])
        for n in range(100):
            await region.write(2, [b"%d" % n])
        await region.snapshot()
        at = await data_end(cw)
        await region.write(2, [b"later"])
        tables = region.tables()
        # It is not closed: an open now has the snapshot and one write.
        engine = Counted(cw)
        again = await engine.wal("metrics").region(7)
        assert again.tables() == tables
        assert engine.read_from[0] == at
        assert min(start for start in engine.read_from if start is not None) == at
        assert len((await by_table(again))[2]) == 101, "and all of it is there"


async def test_r13_a_snapshot_has_seen_what_is_applied_not_what_is_under_way(cw: Client) -> None:
    engine = FaultyEngine(cw, 0, 0, ["late"])
    region = await engine.wal("metrics").region(7)
    await region.write(42, [b"a"])
    at = await data_end(cw)
    writes = [asyncio.create_task(region.write(42, [b"%d" % n])) for n in range(20)]
    await asyncio.sleep(0)
    await region.snapshot()
    marks = (await snapshots(cw))[-1].high_watermark
    assert at <= marks <= data_of(region).state.next_offset
    await asyncio.gather(*writes)
    assert len((await by_table(await cw.wal("metrics").region(7)))[42]) == 21


async def test_r13_a_late_copy_of_a_snapshot_undoes_no_mark(cw: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FaultyEngine(cw, 0, 0, ["lost"], part="_meta_")
    region = await engine.wal("metrics").region(7)
    await region.write(42, [b"a", b"b"])
    await region.write(42, [b"c"])
    (log,) = engine.logs
    append = log.append
    late: list[Batch] = []

    async def noted(batch: Batch, **settings: Any) -> Any:
        late.append(batch)
        if len(late) == 1:
            raise Timeout("no answer", outcome="unknown")
        return await append(batch, **settings)

    monkeypatch.setattr(log, "append", noted)
    await region.snapshot()
    assert len(late) == 2, "the second attempt is there, the first one is still on its way"
    await region.mark_deleted(42, through=2)
    await region.clean()
    await cw.log("metrics_meta_7").append(late[0])
    async with cw.wal("metrics").region(7) as again:
        assert again.tables()[42].deleted_through == 2
        assert (await by_table(again), again.stats().lost) == ({42: {3: b"c"}}, {})


@pytest.mark.parametrize(("name", "limit"), [("SNAPSHOT_WRITES", 10), ("SNAPSHOT_BYTES", 2000), ("SNAPSHOT_MARKS", 5)])
async def test_r14_a_snapshot_is_made_by_itself_so_that_no_open_reads_more(
    cw: Client, monkeypatch: pytest.MonkeyPatch, name: str, limit: int
) -> None:
    monkeypatch.setattr(snapshot_policy, name, limit)
    region = await cw.wal("metrics").region(7)
    seen: set[int] = set()
    for n in range(1, 41):
        await region.write(42, [b"x" * 100])
        if name == "SNAPSHOT_MARKS":
            await region.mark_deleted(42, through=n)
        task = meta_writer_of(region)._task
        if task is not None:
            await asyncio.wait([task])
        found = await snapshots(cw)
        seen.update(part.high_watermark for part in found)
        assert len(await meta_records(cw)) <= limit + 3, "the meta log stays small"
        if name == "SNAPSHOT_WRITES":
            assert region.stats().snapshot_lag <= limit + 1
    assert 3 <= len(seen) <= 10
    assert region.tables() == (await cw.wal("metrics").region(7)).tables()


@pytest.mark.parametrize("name", ["SNAPSHOT_WRITES", "SNAPSHOT_MARKS"])
async def test_r14_a_region_of_many_tables_makes_few_snapshots(
    cw: Client, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(snapshot_policy, name, 5)
    region = await cw.wal("metrics").region(7)
    await region.write_many({table: [b"x"] * 10 for table in range(100)})
    await region.snapshot()
    number = meta_writer_of(region)._number
    for n in range(1, 251):
        if name == "SNAPSHOT_WRITES":
            await region.write(n % 100, [b"x"])
        else:
            await region.mark_deleted(n % 100, through=1 + n // 100)
        task = meta_writer_of(region)._task
        if task is not None:
            await asyncio.wait([task])
    assert meta_writer_of(region)._number - number == 2


async def test_r14_what_an_open_has_read_counts_towards_the_next_snapshot(
    cw: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Owners that die early, one after the other, must not make the part without a snapshot grow for ever.
    region = await cw.wal("metrics").region(7)
    for _ in range(30):
        await region.write(42, [b"x"])
    monkeypatch.setattr(snapshot_policy, "SNAPSHOT_WRITES", 20)
    again = await cw.wal("metrics").region(7)
    task = meta_writer_of(again)._task
    assert task is not None
    await task
    assert again.stats().snapshot_lag == 0


async def test_marks_without_end_do_not_keep_a_snapshot_waiting(cw: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async with cw.wal("metrics").region(7) as region:
        await region.write_many({table: [b"x"] * 20_000 for table in (1, 2)})
        own = meta_writer_of(region)
        append, under_way = own._append, asyncio.Event()

        async def noted(record: MetaRecord) -> int:
            under_way.set()
            return await append(record)

        monkeypatch.setattr(own, "_append", noted)

        async def mark_on(table: int) -> None:
            for number in range(1, 20_001):
                await region.mark_deleted(table, through=number)

        # By turns: while the mark of one is appended, that of the other waits.
        first = asyncio.create_task(mark_on(1))
        await under_way.wait()
        second = asyncio.create_task(mark_on(2))
        await region.snapshot()
        assert not first.done()
        assert not second.done()
        first.cancel()
        second.cancel()


async def test_a_drop_makes_a_snapshot_and_many_of_them_make_few(cw: Client) -> None:
    region = await cw.wal("metrics").region(7)
    await region.write_many({table: [b"a"] for table in range(300)})
    for table in range(100):
        await region.drop_table(table)
    assert meta_writer_of(region)._number < 50
    assert len((await cw.wal("metrics").region(7)).tables()) == 200


async def test_r14_a_large_region_is_split_into_parts_of_which_all_are_needed(
    cw: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "PART_BYTES_MAX", 500)
    async with cw.wal("metrics").region(7) as region:
        await region.write_many({table: [b"a"] for table in range(50)})
        await region.snapshot()
        first = await snapshots(cw)
        assert len(first) > 3
        assert [part.part for part in first] == list(range(len(first)))
        tables = region.tables()
    async with cw.wal("metrics").region(7) as region:
        assert region.tables() == tables


@pytest.mark.parametrize("lost", [0, 1, 2])
async def test_r14_an_unfinished_snapshot_does_not_count_and_the_last_one_does(
    cw: Client, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    monkeypatch.setattr(snapshot, "PART_BYTES_MAX", 500)
    async with cw.wal("metrics").region(7) as region:
        await region.write_many({table: [b"a"] for table in range(30)})
    engine = FaultyEngine(cw, 0, 0, ["refused"], part="_meta_")
    region = await engine.wal("metrics").region(7)
    await region.write_many({table: [b"b"] for table in range(30)})
    await region.mark_deleted(3, through=1)
    (log,) = engine.logs
    parts = 0
    append = log.append

    async def some(batch: Batch, **settings: Any) -> Any:
        nonlocal parts
        parts += 1
        log.odds = 1 if parts > lost else 0
        return await append(batch, **settings)

    monkeypatch.setattr(log, "append", some)
    with pytest.raises(Exception, match="the disk is full"):
        await region.snapshot()
    assert region.stats().failure is not None
    again = await cw.wal("metrics").region(7)
    assert again.tables() == region.tables()
    assert again.tables()[3].deleted_through == 1


async def test_a_meta_log_that_was_emptied_is_rebuilt_with_a_warning(
    cw: Client, caplog: pytest.LogCaptureFixture
) -> None:
    async with cw.wal("metrics").region(7) as region:
        await region.write_many({42: [b"a", b"b"], 43: [b"c"]})
        await region.mark_deleted(42, through=1)
    log = cw.log("metrics_meta_7")
    await log.trim(before=(await log.bounds())[1])
    async with cw.wal("metrics").region(7) as region:
        assert "metrics_meta_7/0 was cut before offset" in caplog.text
        assert {table: list(entries) for table, entries in (await by_table(region)).items()} == {42: [1, 2], 43: [1]}
        assert await region.write(42, [b"d"]) == range(3, 4)
        task = meta_writer_of(region)._task
        if task is not None:
            await task
        assert len(await snapshots(cw)) == 1, "made at once: the next open finds it"
    caplog.clear()
    async with cw.wal("metrics").region(7) as region:
        assert caplog.text == ""


async def test_r15_a_rebuild_after_a_clean_gives_no_number_out_again(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        await region.write_many({42: [b"a"] * 9, 43: [b"b"] * 5})
        await region.drop_table(42)
        await region.mark_deleted(43, through=5)
        await region.clean()
    log = cw.log("metrics_meta_7")
    await log.trim(before=(await log.bounds())[1])
    async with cw.wal("metrics").region(7) as region:
        assert (await region.write(42, [b"c"])).start > 9
        assert (await region.write(43, [b"d"])).start > 5
    async with cw.wal("metrics").region(7) as region:
        assert (await region.write(44, [b"e"])).start > 9, "a table that may have been there"


async def test_a_loss_behind_the_snapshot_is_told_as_far_as_later_records_tell(
    cw: Client, caplog: pytest.LogCaptureFixture
) -> None:
    region = await cw.wal("metrics").region(7)
    await region.write_many({42: [b"a"] * 3, 43: [b"b"] * 3, 46: [b"c"]})
    await region.mark_deleted(43, through=2)
    await region.mark_deleted(46, through=1)
    await region.snapshot()
    await region.write_many({42: [b"d"] * 2, 44: [b"e"] * 4, 43: [b"f"]})  # lost, and no snapshot knows of them
    cut = await data_end(cw)
    await region.write_many({42: [b"g"], 44: [b"h"]})
    await cw.log("metrics_data_7").trim(before=cut)
    async with cw.wal("metrics").region(7) as again:
        assert again.stats().lost == {42: range(1, 6), 43: range(3, 4), 44: range(1, 5)}
        for told in ("table 42: 1 to 5", "table 43: 3 to 3", "table 44: 1 to 4"):
            assert told in caplog.text
        assert {table: list(entries) for table, entries in (await by_table(again)).items()} == {42: [6], 44: [5]}
        assert (await again.write(43, [b"i"])).start > 4, "it had 4 logs, though nobody knows that any more"
        assert (await again.write(46, [b"j"])).start > 1
        assert (await again.write(45, [b"k"])).start > 1, "there may have been such a table"
    caplog.clear()
    async with cw.wal("metrics").region(7) as again:
        assert (caplog.text, again.stats().lost) == ("", {}), "it is told once"


async def test_a_data_log_that_lost_its_end_opens_and_reports_the_loss(
    cw: Client, caplog: pytest.LogCaptureFixture
) -> None:
    region = await cw.wal("metrics").region(7)
    for _ in range(30):
        await region.write_many({42: [b"a"], 43: [b"b"] * 2})
    region = await cw.wal("metrics").region(7)  # its id is higher than any that the new log will have for a while
    await region.mark_deleted(42, through=10)
    await region.drop_table(43)
    await region.close()
    await cw.delete_topic("metrics_data_7")
    await cw.create_topic("metrics_data_7")
    for life in range(3):
        async with cw.wal("metrics").region(7) as region:
            assert region.stats().lost == ({42: range(11, 31)} if life == 0 else {})
            assert list(region.tables()) == [42] if life == 0 else [42, 43]
            assert await region.write(42, [b"new"]) == range(31 + life, 32 + life)
            assert await region.write(43, [b"new"]) == range(61 + life, 62 + life)
            assert len((await by_table(region))[42]) == life + 1
            await region.mark_deleted(42, through=10)
    assert "metrics_data_7/0 lost its end, and these entries are lost: table 42: 11 to 30" in caplog.text
    async with cw.wal("metrics").region(7) as region:
        await region.mark_deleted(42, through=32)
        await region.clean()
        assert {table: list(entries) for table, entries in (await by_table(region)).items()} == {
            42: [33],
            43: [61, 62, 63],
        }


async def test_what_is_no_record_of_the_meta_log_is_damage_with_its_place(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        await region.write(42, [b"a"])
    log = cw.log("metrics_meta_7")
    (offset,) = await log.append(Batch.of([b"not ours"]))
    with pytest.raises(Corrupt, match=rf"metrics_meta_7/0 at offset {offset}: version 110 of a record"):
        await cw.wal("metrics").region(7)


async def test_every_open_writes_its_record_to_the_meta_log_before_it_reads_it(cw: Client) -> None:
    await cw.wal("metrics").region(7)
    region = await cw.wal("metrics").region(7)
    owners = [record.owner for record in await meta_records(cw) if isinstance(record, MetaOwner)]
    assert owners == sorted(owners)
    assert owners[-1] == data_of(region).owner


async def test_a_meta_topic_that_is_missing_is_made_anew(
    cw: Client, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with cw.wal("metrics").region(7) as region:
        await region.write(1, [b"a", b"b"])
        await region.mark_deleted(1, through=1)
    await cw.delete_topic("metrics_meta_7")
    async with cordwood.connect(url, read_only=True) as reading, reading.wal("metrics").region(7) as region:
        assert region.tables()[1].deleted_through == 0
    async with cw.wal("metrics").region(7) as region:
        assert await region.write(1, [b"c"]) == range(3, 4)
        await region.mark_deleted(1, through=2)
    assert "metrics_meta_7 is missing" in caplog.text
    async with cw.wal("metrics").region(7) as region:
        assert region.tables()[1].deleted_through == 2
