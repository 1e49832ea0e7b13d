"""`pipeline.archive`: what a run has verified counts, whatever interrupts the next one; R46: trimming follows proof."""

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import DataFrame, SparkSession

import cordwood
from cordwood import Batch, Conflict, Corrupt, Event, InvalidInput, NotFound, Trimmed, Unavailable, pipeline
from cordwood.pipeline.archiving.coverage import Piece, pieces
from cordwood.pipeline.archiving.folder import ArchiveFolder
from cordwood.pipeline.archiving.manifest import ArchivedRange, Manifest
from cordwood.testing.kafka import Broker
from tests.support.pipeline.holding import writer_of
from tests.support.spark.queries import SETTINGS

# The first job of a session is slow where many processes share the cores.
pytestmark = pytest.mark.timeout(600)

OLD_MS = 1_600_000_000_000


def fill(cw: cordwood.sync.Client, count: int, topic: str = "events", partitions: int = 2) -> None:
    """Records with and without keys, headers and values, of an old time."""
    cw.create_topic(topic, partitions=partitions, exist_ok=True)
    for partition in range(partitions):
        _, end = cw.log(topic, partition).bounds()
        numbers = range(end, end + count)
        batch = Batch.of(
            [None if number % 7 == 6 else b"v%d" % number for number in numbers],
            keys=[None if number % 3 == 0 else b"k%d" % number for number in numbers],
            headers=[[("h", None), ("h", b"%d" % number)] if number % 2 else [] for number in numbers],
            timestamps=[OLD_MS + number for number in numbers],
        )
        cw.log(topic, partition).append(batch)


def rows_of(frame: DataFrame) -> list[tuple[object, ...]]:
    rows = [
        (
            row.partition,
            row.offset,
            row.key and bytes(row.key),
            row.value and bytes(row.value),
            row.timestamp,
            row.headers,
        )
        for row in frame.collect()
    ]
    return sorted(rows, key=lambda row: (row[0], row[1]))


def test_archived_and_live_records_come_once(spark: SparkSession, cw: cordwood.sync.Client, folder: Path) -> None:
    path = folder.parent / "archive"
    fill(cw, 40)
    first = pipeline.archive(spark, folder, "events", path)
    assert (first.records, first.ranges, first.trimmed) == (80, {0: (0, 40), 1: (0, 40)}, {})
    fill(cw, 10)
    second = pipeline.archive(spark, folder, "events", path)
    assert (second.records, second.ranges) == (20, {0: (40, 50), 1: (40, 50)})
    nothing = pipeline.archive(spark, folder, "events", path)
    assert (nothing.run, nothing.records) == (None, 0)
    fill(cw, 5)
    expected = rows_of(pipeline.read(spark, folder, "events", includeHeaders=True))
    assert rows_of(pipeline.read(spark, folder, "events", archive=path, includeHeaders=True)) == expected
    cw.log("events", 0).trim(45)
    cw.log("events", 1).trim(50)
    assert rows_of(pipeline.read(spark, folder, "events", archive=path, includeHeaders=True)) == expected
    frame = pipeline.read(spark, folder, "events", archive=path)
    assert frame.columns == pipeline.read(spark, folder, "events").columns


def test_files_are_by_topic_and_partition_in_the_order_of_offsets(
    spark: SparkSession, cw: cordwood.sync.Client, folder: Path
) -> None:
    path = folder.parent / "archive"
    fill(cw, 30)
    report = pipeline.archive(spark, folder, "events", path)
    files = sorted((path / "data" / f"run={report.run}").glob("topic=events/partition=*/*.parquet"))
    assert [file.parent.name for file in files] == ["partition=0", "partition=1"]
    for file in files:
        assert ds.dataset(file).to_table()["offset"].to_pylist() == list(range(30))


def test_a_run_without_its_manifest_counts_nothing(
    spark: SparkSession, cw: cordwood.sync.Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder.parent / "archive"
    fill(cw, 20)

    def break_off(self: ArchiveFolder, manifest: Manifest) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ArchiveFolder, "write_manifest", break_off)
        with pytest.raises(KeyboardInterrupt):
            pipeline.archive(spark, folder, "events", path)
    (left,) = (path / "data").iterdir()
    # As after a kill while the manifest was written.
    (path / "manifests" / left.name.removeprefix("run=") / "_temporary" / "0").mkdir(parents=True)
    (path / "manifests" / left.name.removeprefix("run=") / "_temporary" / "0" / "part-0.txt").write_text(
        "cordwood-arch"
    )
    assert pipeline.archive(spark, folder, "events", path).ranges == {0: (0, 20), 1: (0, 20)}
    assert pipeline.read(spark, folder, "events", archive=path).count() == 40
    assert left.exists(), "it may belong to a run that is under way"
    long_ago = time.time() - 8 * 86_400
    os.utime(left, (long_ago, long_ago))
    pipeline.archive(spark, folder, "events", path)
    assert not left.exists()
    assert pipeline.read(spark, folder, "events", archive=path).count() == 40


@pytest.mark.slow
@pytest.mark.processes
def test_archive_interrupted(spark: SparkSession, cw: cordwood.sync.Client, folder: Path) -> None:
    path = folder.parent / "archive"
    fill(cw, 200)
    program = (
        f"import sys\nfrom cordwood import pipeline\nspark = pipeline.session('local[1]', {SETTINGS})\n"
        "pipeline.archive(spark, sys.argv[1], 'events', sys.argv[2])\n"
    )
    for seen in ("data/*", "manifests/*"):
        before = len(list(path.glob(seen)))
        process = subprocess.Popen([sys.executable, "-c", program, f"file:{folder}", path])
        try:
            while len(list(path.glob(seen))) == before:
                assert process.poll() is None
                time.sleep(0.002)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert pipeline.read(spark, folder, "events", archive=path).count() == 400
    pipeline.archive(spark, folder, "events", path)
    cw.log("events", 0).trim(200)
    cw.log("events", 1).trim(200)
    frame = pipeline.read(spark, folder, "events", archive=path)
    assert sorted((row.partition, row.offset) for row in frame.collect()) == [
        (partition, offset) for partition in (0, 1) for offset in range(200)
    ]


def test_records_that_were_written_wrongly_never_count(
    spark: SparkSession, cw: cordwood.sync.Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder.parent / "archive"
    fill(cw, 20)
    write_run = ArchiveFolder.write_run

    def write_less(self: ArchiveFolder, run: str, records: DataFrame) -> None:
        write_run(self, run, records.where("partition = 0 OR offset <> 17"))

    monkeypatch.setattr(ArchiveFolder, "write_run", write_less)
    with pytest.raises(Corrupt, match="does not have the records of events/1 as the log has them"):
        pipeline.archive(spark, folder, "events", path)
    assert not (path / "manifests").exists()


def test_of_runs_that_overlap_each_offset_is_read_once() -> None:
    def manifest(run: str, created: int, *ranges: tuple[int, int]) -> Manifest:
        found = [ArchivedRange(0, start, stop, stop - start, 0, "") for start, stop in ranges]
        return Manifest(run, "events", "7", created, found)

    assert pieces([manifest("b", 2, (3, 9)), manifest("a", 1, (0, 5)), manifest("c", 3, (2, 12))]) == [
        Piece("a", 0, 0, 5),
        Piece("b", 0, 5, 9),
        Piece("c", 0, 9, 12),
    ]


def test_two_archives_at_once_are_both_right(
    spark: SparkSession, cw: cordwood.sync.Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder.parent / "archive"
    fill(cw, 20)
    write_run = ArchiveFolder.write_run

    def beside_another(self: ArchiveFolder, run: str, records: DataFrame) -> None:
        monkeypatch.setattr(ArchiveFolder, "write_run", write_run)
        pipeline.archive(spark, folder, "events", path)
        fill(cw, 3)
        write_run(self, run, records)

    monkeypatch.setattr(ArchiveFolder, "write_run", beside_another)
    pipeline.archive(spark, folder, "events", path)
    assert len(list((path / "manifests").iterdir())) == 2
    assert pipeline.read(spark, folder, "events", archive=path).count() == 46
    pipeline.archive(spark, folder, "events", path)
    assert pipeline.read(spark, folder, "events", archive=path).distinct().count() == 46


def test_r46_a_trim_stops_at_keep_and_at_the_end_of_the_archive(spark: SparkSession, folder: Path) -> None:
    path = folder.parent / "archive"
    with cordwood.sync.connect(folder) as cw:
        fill(cw, 20)
        cw.log("events", 1).append(Batch.of([b"young"]))
    report = pipeline.archive(spark, folder, "events", path, trim=True)
    assert report.trimmed == {0: 20, 1: 20}
    with cordwood.sync.connect(folder) as cw:
        assert [cw.log("events", partition).bounds() for partition in (0, 1)] == [(20, 20), (20, 21)]
        fill(cw, 10)
    assert pipeline.archive(spark, folder, "events", path, keep=timedelta(days=20_000), trim=True).trimmed == {}
    with cordwood.sync.connect(folder) as cw:
        assert cw.log("events").bounds() == (20, 30)
    # What an earlier run has verified is read again before it is trimmed.
    for file in path.glob("data/*/topic=events/partition=0/*.parquet"):
        file.unlink()
    with pytest.raises(Corrupt, match="does not have the records of events/0"):
        pipeline.archive(spark, folder, "events", path, trim=True)
    with cordwood.sync.connect(folder) as cw:
        assert cw.log("events").bounds() == (20, 30)


def test_r46_a_trim_never_overtakes_a_pointer_of_the_store(spark: SparkSession, folder: Path) -> None:
    path, store = folder.parent / "archive", f"sqlite:{folder / 'store.db'}"
    with cordwood.sync.connect(folder) as cw, cw.journal("orders", partitions=1, replicate=False) as journal:
        for number in range(4):
            journal.append("a", [Event.json(number)])
        journal.catch_up()
        journal.append("a", [Event.json(4)])
    with pytest.raises(InvalidInput, match="'orders' has journals: name their store"):
        pipeline.archive(spark, folder, "orders", path, trim=True)
    report = pipeline.archive(spark, folder, "orders", path, trim=True, store=store, keep=timedelta(0))
    assert report.trimmed == {0: 4}
    with cordwood.sync.connect(folder) as cw:
        cw.create_topic("other", partitions=1)
        cw.log("other").append(Batch.of([b""], keys=[b"k"], headers=[[("journal.action", b"{")]]))
    # A missing pointer has passed nothing.
    report = pipeline.archive(spark, folder, "other", path.parent / "b", trim=True, store=store, keep=timedelta(0))
    assert (report.records, report.trimmed) == (1, {})


def test_r46_the_store_of_another_topic_says_nothing(spark: SparkSession, folder: Path) -> None:
    path, store = folder.parent / "archive", f"sqlite:{folder / 'store.db'}"
    for _ in range(2):
        with cordwood.sync.connect(folder) as cw:
            if "orders" in cw.topics():
                cw.delete_topic("orders")
            cw.create_topic("orders", partitions=1)
            cw.log("orders").append(Batch.of([b""], keys=[b"k"], headers=[[("journal.action", b"{")]]))
            if not Path(store.removeprefix("sqlite:")).exists():
                with cw.journal("orders", replicate=False, store=store) as journal:
                    journal.catch_up()
    with pytest.raises(Conflict, match="was created again"):
        pipeline.archive(spark, folder, "orders", path, trim=True, store=store, keep=timedelta(0))


def test_r46_a_region_is_never_trimmed(spark: SparkSession, folder: Path) -> None:
    path = folder.parent / "archive"
    with cordwood.sync.connect(folder) as cw, cw.wal("metrics").region(7) as region:
        region.write(1, [b"a"])
    with pytest.raises(InvalidInput, match="'metrics_data_7' is a region's: only the cleaner"):
        pipeline.archive(spark, folder, "metrics_data_7", path, trim=True)
    assert pipeline.archive(spark, folder, "metrics_data_7", path).records > 0


@pytest.mark.processes
def test_a_folder_that_a_writer_holds_is_archived_and_not_trimmed(spark: SparkSession, folder: Path) -> None:
    path = folder.parent / "archive"
    with cordwood.sync.connect(folder) as cw:
        fill(cw, 3)
    with writer_of(folder) as pid:
        with pytest.raises(Unavailable) as caught:
            pipeline.archive(spark, folder, "events", path, trim=True)
        assert (caught.value.reason, caught.value.pid) == ("busy", pid)
        assert not path.exists()
        assert pipeline.archive(spark, folder, "events", path).records == 6


def test_another_topic_needs_another_archive(spark: SparkSession, cw: cordwood.sync.Client, folder: Path) -> None:
    path = folder.parent / "archive"
    for topic in ("events", "others"):
        fill(cw, 3, topic)
    pipeline.archive(spark, folder, "events", path)
    with pytest.raises(Conflict, match="is the archive of topic 'events'"):
        pipeline.archive(spark, folder, "others", path)
    with pytest.raises(Conflict, match="is the archive of topic 'events'"):
        pipeline.read(spark, folder, "others", archive=path)
    cw.delete_topic("events")
    fill(cw, 3)
    with pytest.raises(Conflict, match="is the archive of an earlier topic 'events'"):
        pipeline.archive(spark, folder, "events", path)


def test_a_range_in_neither_log_nor_archive_is_told(
    spark: SparkSession, cw: cordwood.sync.Client, folder: Path
) -> None:
    path = folder.parent / "archive"
    fill(cw, 10)
    pipeline.archive(spark, folder, "events", path)
    fill(cw, 10)
    cw.log("events", 1).trim(15)
    with pytest.raises(Trimmed, match="events/1: records 10 to 14 are neither in the log"):
        pipeline.read(spark, folder, "events", archive=path)
    assert pipeline.read(spark, folder, "events", archive=path, failOnDataLoss=False).count() == 35
    assert pipeline.archive(spark, folder, "events", path).ranges == {0: (10, 20), 1: (15, 20)}
    assert pipeline.read(spark, folder, "events", archive=path, failOnDataLoss=False).count() == 35


def test_bad_input_of_archive_is_told_at_the_call(spark: SparkSession, cw: cordwood.sync.Client, folder: Path) -> None:
    fill(cw, 3)
    path = folder.parent / "archive"
    (folder.parent / "file").write_text("")
    for change, kind, text in (
        ({"topic": "other"}, NotFound, "'other'"),
        ({"keep": timedelta(-1)}, InvalidInput, "cannot be negative"),
        ({"keep": 3}, TypeError, "timedelta"),
        ({"path": ""}, InvalidInput, "path"),
        ({"path": "a[b]"}, InvalidInput, "path"),
        ({"path": folder.parent / "file" / "archive"}, Unavailable, "cannot be written"),
    ):
        with pytest.raises(kind, match=text):
            pipeline.archive(spark, folder, **{"topic": "events", "path": path, **change})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="takes includeHeaders"):
        pipeline.read(spark, folder, "events", archive=path, startingOffsets="earliest")
    with pytest.raises(InvalidInput, match="an archive has one topic"):
        pipeline.read(spark, folder, ["events"], archive=path)


def test_archive_of_a_topic_on_kafka(spark: SparkSession, kafka: Broker, tmp_path: Path) -> None:
    with cordwood.sync.connect(kafka.url) as cw:
        fill(cw, 20, "archived")
        report = pipeline.archive(spark, kafka.url, "archived", tmp_path / "archive", trim=True)
        assert (report.records, report.trimmed) == (40, {0: 20, 1: 20})
        fill(cw, 5, "archived")
        frame = pipeline.read(spark, kafka.url, "archived", archive=tmp_path / "archive")
        assert sorted((row.partition, row.offset) for row in frame.collect()) == [
            (partition, offset) for partition in (0, 1) for offset in range(25)
        ]
