"""What a task of a write does, without Spark: rows by log, in order, into one file or none."""

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import NotFound, Unavailable
from cordwood.log.native.coordinator import TopicRow
from cordwood.log.native.folder.staged import StagedFile, Write, abort_attempt
from cordwood.log.native.folder.staged.file import staged_frames
from cordwood.log.partitioning import partition_of
from cordwood.pipeline.sink.batches import batch_of
from cordwood.pipeline.sink.columns import rows_of
from cordwood.pipeline.sink.routing import Router
from cordwood.pipeline.sink.staging import stage
from cordwood.records import Batch
from cordwood.simulation.clock import SimulatedClock
from cordwood.simulation.disk import SimulatedDisk

TOPICS = {row.name: row for row in (TopicRow(1, "one", 1, 1, None, None), TopicRow(2, "wide", 1000, 1, None, None))}
NAME = Write("sink", 3).name(0, "try", "0")
CLOCK = SimulatedClock()
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

optional_bytes = st.none() | st.binary(max_size=6)
headers = st.none() | st.lists(st.tuples(st.text(max_size=3), optional_bytes), max_size=3)
rows = st.lists(st.tuples(optional_bytes, optional_bytes, headers, st.none() | st.integers(0, 2**40)), max_size=20)


def look_up(name: str) -> TopicRow:
    if name not in TOPICS:
        raise NotFound(name)
    return TOPICS[name]


def staged(
    disk: SimulatedDisk, batches: Sequence[pa.RecordBatch], topic: str | None = "one", task: int = 0
) -> StagedFile | None:
    columns = tuple(batches[0].schema.names) if batches else ("value",)
    return stage(disk, CLOCK, NAME, Router(topic, look_up, task), columns, batches)


def found(disk: SimulatedDisk, file: StagedFile | None) -> dict[tuple[int, int], list[bytes | None]]:
    logs: dict[tuple[int, int], list[bytes | None]] = {}
    assert file is not None
    for owner, batch in staged_frames(disk, file):
        logs.setdefault(owner, []).extend(batch.values)
    return logs


def values(count: int, size: int = 1) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array([b"%d" % n * size for n in range(count)], pa.binary())})


@given(rows, st.integers(0, 5), st.integers(0, 5))
def test_rows_become_records_whatever_part_of_a_batch_they_are(
    given: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None, int | None]],
    before: int,
    after: int,
) -> None:
    whole = pa.record_batch(
        {
            "key": pa.array([row[0] for row in given], pa.binary()),
            "value": pa.array([row[1] for row in given], pa.large_binary()),
            "headers": pa.array([row[2] for row in given], HEADERS),
            "timestamp": pa.array([row[3] for row in given], pa.timestamp("us", "UTC")),
        }
    )
    window = whole.slice(before, max(0, len(given) - before - after))
    part = given[before : before + window.num_rows]
    batch = batch_of(rows_of(window, ("key", "value", "headers", "timestamp")), now_ms=7)
    assert batch == Batch.of(
        [row[1] for row in part],
        keys=[row[0] for row in part],
        headers=[row[2] or [] for row in part],
        timestamps=[7 if row[3] is None else row[3] // 1000 for row in part],
    )


def test_a_thousand_logs_share_a_file_and_each_keeps_its_order() -> None:
    disk = SimulatedDisk()
    keys = [b"%d" % (n % 3000) for n in range(9000)]
    frames = [
        pa.record_batch({"key": pa.array(keys[at : at + 1000]), "value": [b"%d" % n for n in range(at, at + 1000)]})
        for at in range(0, 9000, 1000)
    ]
    logs = found(disk, staged(disk, frames, "wide"))
    assert len(disk.names()) == 1
    for (topic, partition), records in logs.items():
        expected = [b"%d" % n for n in range(9000) if partition_of(keys[n], 1000) == partition]
        assert (topic, records) == (2, expected)
    assert sum(map(len, logs.values())) == 9000


def test_small_batches_of_a_log_share_a_frame_and_large_ones_do_not_wait() -> None:
    disk = SimulatedDisk()
    file = staged(disk, [values(10)] * 50 + [values(10, 200_000)] + [values(10)] * 50)
    assert file is not None
    counts = [len(batch) for _, batch in staged_frames(disk, file)]
    # The large one takes what waits before it along, in frames of at most 2 MiB.
    assert counts[-1] == 500
    assert sum(counts) == 1010
    assert len(counts) <= 4


def test_a_full_disk_is_said_and_no_file_stays() -> None:
    disk = SimulatedDisk(capacity=1_000_000)
    with pytest.raises(Unavailable, match="No space left on device; nothing was appended") as caught:
        staged(disk, [values(1000, 1000)] * 3)
    assert caught.value.outcome == "not_written"
    assert disk.names() == []


def test_a_task_that_outlives_its_attempt_leaves_no_file() -> None:
    disk = SimulatedDisk()
    abort_attempt(disk, CLOCK, "try")
    before = disk.names()
    with pytest.raises(Unavailable, match="aborted while this task was running"):
        staged(disk, [values(10)])
    assert disk.names() == before


def test_no_rows_make_no_file() -> None:
    disk = SimulatedDisk()
    assert staged(disk, []) is None
    assert staged(disk, [values(0)]) is None
    assert disk.names() == []
