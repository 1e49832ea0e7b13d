import pytest
from pyspark.errors import AnalysisException, PythonException

import cordwood
from cordwood import Batch
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
