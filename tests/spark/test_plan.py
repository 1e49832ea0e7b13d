from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cordwood
from cordwood import Batch
from cordwood.log.native.chain.chain import Chain, Link
from cordwood.log.native.chain.durable import Durable
from cordwood.log.native.folder.process import OpenFolder, open_for_reading
from cordwood.log.native.plog import PlogId
from cordwood.log.native.stream.reading.cursor import Extent
from cordwood.pipeline.source import folder as folder_module
from cordwood.pipeline.source.folder import by_plogs
from cordwood.pipeline.source.logs import Task
from cordwood.pipeline.source.options import ReadOptions
from cordwood.pipeline.source.plan import at_least
from cordwood.pipeline.source.reader import LogsReader
from tests.spark.conftest import Load, plan

MIB = 1024 * 1024


def view_of(plogs: list[tuple[int, int]]) -> Extent:
    """A log of plogs that have so many records and so many bytes; the last one is open."""
    links, offset = [], 0
    for number, (records, size) in enumerate(plogs):
        links.append(Link(PlogId("local", "0", number), offset, size, offset + records))
        offset += records
    last = links[-1]
    links[-1] = Link(last.id, last.first_offset)
    return Extent(0, Durable(last.id, plogs[-1][1], offset), Chain(links))


def log_of(start: int, stop: int) -> Task:
    return Task("events", "1", 0, start, stop, 0)


def ranges(tasks: list[Task]) -> list[tuple[int, int]]:
    return [(task.start, task.stop) for task in tasks]


def test_neighbouring_plogs_are_merged_up_to_128_mib() -> None:
    view = view_of([(10, 16 * MIB)] * 20)
    tasks = list(by_plogs(log_of(0, 200), view))
    assert ranges(tasks) == [(0, 80), (80, 160), (160, 200)]
    assert [task.weight for task in tasks] == [128 * MIB, 128 * MIB, 64 * MIB]


def test_a_plog_that_is_read_in_part_counts_in_part() -> None:
    view = view_of([(10, 100 * MIB)] * 3)
    assert ranges(list(by_plogs(log_of(8, 25), view))) == [(8, 20), (20, 25)]
    assert list(by_plogs(log_of(25, 25), view)) == []


def test_the_largest_task_is_cut_first_and_into_equal_parts() -> None:
    tasks = [Task("a", "1", 0, 0, 100, 900), Task("b", "2", 0, 0, 10, 100)]
    assert ranges(at_least(tasks, 4)) == [(0, 33), (33, 66), (66, 100), (0, 10)]
    assert at_least(tasks, 1) == tasks
    assert len(at_least(tasks, 1000)) == 110
    assert at_least([], 5) == []


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 200)), min_size=1, max_size=20),
    st.integers(1, 400),
    st.integers(0, 60),
    st.data(),
)
def test_every_record_is_in_one_task(
    plogs: list[tuple[int, int]], task_bytes: int, count: int, data: st.DataObject
) -> None:
    end = sum(records for records, _ in plogs)
    start = data.draw(st.integers(0, end - 1))
    stop = data.draw(st.integers(start + 1, end))
    tasks = at_least(list(by_plogs(log_of(start, stop), view_of(plogs), task_bytes)), count)
    offsets = [offset for task in tasks for offset in range(task.start, task.stop)]
    assert offsets == list(range(start, stop))
    assert all(task.start < task.stop for task in tasks)
    assert len(tasks) >= min(count, stop - start)


@pytest.fixture
def many_plogs(folder: Path) -> None:
    """Each opening for writing begins a plog of its own."""
    with cordwood.sync.connect(folder) as cw:
        cw.create_topic("events")
    for number in range(12):
        with cordwood.sync.connect(folder) as cw:
            cw.log("events").append(Batch.of([b"%d" % number] * 5))


@pytest.mark.usefixtures("many_plogs")
def test_a_real_log_is_cut_where_its_plogs_begin(folder: Path) -> None:
    reading = open_for_reading(folder)
    try:
        view = reading.source("events", 0).extent()
    finally:
        reading.close(1)
    assert ranges(list(by_plogs(log_of(0, 60), view, 1))) == [(start, start + 5) for start in range(0, 60, 5)]


@pytest.mark.usefixtures("many_plogs")
def test_spark_gets_small_plogs_merged_and_more_tasks_if_it_asks(load: Load) -> None:
    frame = load(topic="events")
    assert plan(frame) == 1
    assert [row.offset for row in frame.collect()] == list(range(60))
    many = load(topic="events", minPartitions="7")
    assert plan(many) == 7
    assert sorted(row.offset for row in many.collect()) == list(range(60))


@pytest.mark.parametrize("partitions", [1, 30])
def test_a_plan_opens_the_folder_as_often_however_many_logs_there_are(
    folder: Path, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    with cordwood.sync.connect(folder) as cw:
        cw.create_topic("events", partitions=partitions)
        for partition in range(partitions):
            cw.log("events", partition).append(Batch.of([b"x"]))
    openings = []

    def counted(path: Path) -> OpenFolder:
        openings.append(path)
        return open_for_reading(path)

    monkeypatch.setattr(folder_module, "open_for_reading", counted)
    plan = LogsReader(ReadOptions.of({"url": f"file:{folder}", "topic": "events"})).partitions()
    assert len(plan) == partitions
    assert len(openings) == 2
