"""The driver of a query is killed at different points of a micro-batch: afterwards every record is there once."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import cordwood
from cordwood import Batch, pipeline
from tests.support.spark.queries import Place

pytestmark = [pytest.mark.processes, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SECONDS = 100


def newest(place: Place, what: str) -> int:
    """The last micro-batch that was planned (`offsets`) or is done (`commits`); -1 before the first."""
    return max(
        (int(path.name) for path in place.folder.glob(f"checkpoint/{what}/*") if path.name.isdigit()), default=-1
    )


def planned(place: Place, before: int) -> bool:
    return newest(place, "offsets") > newest(place, "commits")


def written(place: Place, before: int) -> bool:
    return planned(place, before) and newest(place, "commits") > before and bool(uncommitted_files(place))


def committed(place: Place, before: int) -> bool:
    return newest(place, "commits") > before + 2


def uncommitted_files(place: Place) -> set[str]:
    logs = place.folder.glob("out/_spark_metadata/[0-9]*")
    lines = [line for log in logs for line in log.read_text().splitlines() if line.startswith("{")]
    known = {json.loads(line)["path"].rpartition("/")[2] for line in lines}
    return {path.name for path in place.folder.glob("out/*.parquet")} - known


@contextmanager
def driver(folder: Path, place: Place) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "tests.support.spark.streaming_driver", str(folder), str(place.folder)]
    # A group of its own, so that its Java goes with it.
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def appending(cw: cordwood.sync.Client) -> Iterator[None]:
    """Records that name their place, to both partitions, until the end of the block."""
    done = threading.Event()

    def write() -> None:
        offset = 100
        while not done.wait(0.01):
            for partition in range(2):
                cw.log("events", partition).append(Batch.of([b"%d/%d" % (partition, offset)]))
            offset += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join()


@pytest.mark.timeout(5 * SECONDS)
def test_every_record_is_there_once(
    spark: SparkSession, cw: cordwood.sync.Client, folder: Path, tmp_path: Path
) -> None:
    place = Place(tmp_path / "query")
    cw.create_topic("events", partitions=2)
    for partition in range(2):
        cw.log("events", partition).append(Batch.of([b"before the query was started"] * 100))
    points: list[Callable[[Place, int], bool]] = [planned, written, committed]
    with appending(cw):
        for reached in points:
            before, until = newest(place, "commits"), time.monotonic() + SECONDS
            with driver(folder, place) as process:
                while not reached(place, before):
                    assert process.poll() is None, "the driver ended by itself"
                    assert time.monotonic() < until, f"never {reached.__name__}"
                    time.sleep(0.005)
    place.drain(pipeline.read_stream(spark, folder, "events"))
    first = json.loads((place.folder / "checkpoint/offsets/0").read_text().splitlines()[-1])["began at"]["events"]
    ends = [cw.log("events", partition).bounds()[1] for partition in range(2)]
    assert place.rows(spark) == [
        ("events", partition, offset, b"%d/%d" % (partition, offset))
        for partition in range(2)
        for offset in range(first[str(partition)], ends[partition])
    ]
    assert min(ends) > 200
