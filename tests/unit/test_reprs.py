"""What public calls return tells what it is."""

from pathlib import Path

import cordwood
from cordwood import Batch


async def test_the_readers_of_a_log_and_a_region_tell_what_they_read(tmp_path: Path) -> None:
    async with cordwood.connect(tmp_path) as cw:
        await cw.create_topic("events")
        reader = cw.log("events").read()
        assert repr(reader) == "<cordwood.Reader of events/0>"
        await reader.close()
        assert repr(reader) == "<cordwood.Reader of events/0 closed>"
        async with cw.wal("metrics").region(7) as region:
            await region.write(42, [b"entry"])
            assert repr(region.replay()) == "<cordwood.RegionReader of metrics_data_7/0 at offset 1>"
            assert repr(region.read(42)) == "<cordwood.RegionReader of table 42>"


def test_a_blocking_reader_tells_the_same(tmp_path: Path) -> None:
    with cordwood.sync.connect(tmp_path) as cw:
        cw.create_topic("events")
        assert repr(cw.log("events").read()) == "<blocking <cordwood.Reader of events/0>>"
        with cw.wal("metrics").region(7) as region:
            region.write(42, [b"entry"])
            assert repr(region.replay()) == "<blocking <cordwood.RegionReader of metrics_data_7/0 at offset 1>>"


async def test_records_reports_and_stats_show_their_values(tmp_path: Path) -> None:
    async with cordwood.connect(tmp_path) as cw:
        await cw.create_topic("events")
        await cw.log("events").append(Batch.of([b"value"], timestamps=[5]))
        async for batch in cw.log("events").read():
            (record,) = batch
            assert isinstance(record, cordwood.StoredRecord)
            assert "offset=0" in repr(record)
            assert "b'value'" in repr(record)

        async def apply(table: int, entries: cordwood.TableEntries) -> None:
            assert "table=42" in repr(entries)

        async with cw.wal("metrics").region(7) as region:
            await region.write(42, [b"entry"])
            report = await region.recover(apply)
            assert isinstance(report, cordwood.RecoveryReport)
            assert repr(report) == "RecoveryReport(applied=1, skipped=0, bytes=5, failed={})"
            assert isinstance(region.stats(), cordwood.RegionStats)
            assert "RegionStats(" in repr(region.stats())
