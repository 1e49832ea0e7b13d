from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PythonException

import cordwood
from cordwood import Batch
from cordwood.pipeline.source.options import ReadOptions
from cordwood.pipeline.source.reader import LogsReader
from cordwood.url import FileUrl
from tests.spark.conftest import Load, plan

FROM_3 = '{"events": {"0": 3}}'


@pytest.fixture
def log(cw: cordwood.sync.Client) -> cordwood.sync.Log:
    cw.create_topic("events")
    log = cw.log("events")
    for _ in range(10):
        log.append(Batch.of([b"x"]))
    return log


def test_a_start_that_is_no_longer_kept(log: cordwood.sync.Log, load: Load) -> None:
    log.trim(before=5)
    assert [row.offset for row in load(topic="events").collect()] == [5, 6, 7, 8, 9]
    with pytest.raises(AnalysisException, match="events/0: offset 3 is no longer kept; the first kept one is 5"):
        load(topic="events", startingOffsets=FROM_3).count()
    kept = load(topic="events", startingOffsets=FROM_3, failOnDataLoss="false")
    assert [row.offset for row in kept.collect()] == [5, 6, 7, 8, 9]


def test_an_end_that_is_not_there(log: cordwood.sync.Log, load: Load) -> None:
    beyond = '{"events": {"0": 11}}'
    for option in ("startingOffsets", "endingOffsets"):
        with pytest.raises(AnalysisException, match="events/0: offset 11 is beyond the end, 10"):
            load(topic="events", **{option: beyond}).count()
    assert load(topic="events", endingOffsets=beyond, failOnDataLoss="false").count() == 10
    assert load(topic="events", startingOffsets=beyond, failOnDataLoss="false").count() == 0


@pytest.mark.parametrize("before", [5, 10])
def test_a_log_that_is_trimmed_meanwhile(log: cordwood.sync.Log, load: Load, before: int) -> None:
    strict, lenient = load(topic="events"), load(topic="events", failOnDataLoss="false")
    assert plan(strict) == plan(lenient) == 1
    log.trim(before=before)
    with pytest.raises(PythonException, match=f"offset 0 is no longer kept; the first kept one is {before}: trimmed"):
        strict.collect()
    assert [row.offset for row in lenient.collect()] == list(range(before, 10))


@pytest.mark.parametrize("again", [False, True])
def test_a_topic_that_is_deleted_meanwhile(
    cw: cordwood.sync.Client, log: cordwood.sync.Log, load: Load, again: bool
) -> None:
    strict, lenient = load(topic="events"), load(topic="events", failOnDataLoss="false")
    assert plan(strict) == plan(lenient) == 1
    cw.delete_topic("events")
    if again:
        cw.create_topic("events")
        cw.log("events").append(Batch.of([b"another log"] * 10))
    with pytest.raises(PythonException, match="events/0: offsets 0 to 9 are gone"):
        strict.collect()
    assert lenient.collect() == []


@pytest.mark.parametrize("strict", [False, True])
def test_a_topic_that_is_deleted_while_a_task_reads_it(folder: Path, strict: bool) -> None:
    for _ in range(3):
        # A plog each, and more than one step of a reader.
        with cordwood.sync.connect(folder) as cw:
            cw.create_topic("events", exist_ok=True)
            for _ in range(6):
                cw.log("events").append(Batch.of([bytes(1_000_000)]))
    reader = LogsReader(ReadOptions(FileUrl(folder), ("events",), fail_on_data_loss=strict))
    (task,) = reader.partitions()
    rows = reader.read(task)
    found = next(rows).num_rows
    with cordwood.sync.connect(folder) as cw:
        cw.delete_topic("events")
        if strict:
            with pytest.raises(
                cordwood.NotFound, match=r"events/0: offsets \d+ to 17 are gone: topic 'events' does not"
            ):
                list(rows)
        else:
            assert found + sum(batch.num_rows for batch in rows) < 18
