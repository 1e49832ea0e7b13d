import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import cordwood
from cordwood import Batch, pipeline
from tests.support.spark.queries import Place, ends

Stream: TypeAlias = Callable[..., DataFrame]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "query")


@pytest.fixture
def stream(spark: SparkSession, folder: Path) -> Stream:
    """`stream(topic="events", …)`: by nothing but Spark's own calls; from the earliest offset unless told."""

    def stream(**options: str) -> DataFrame:
        options = {"startingOffsets": "earliest", **options}
        return spark.readStream.format("cordwood").options(url=f"file:{folder}", **options).load()

    return stream


@pytest.fixture
def events(cw: cordwood.sync.Client) -> cordwood.sync.Client:
    """A topic of two partitions, with 40 and 20 records in frames of ten."""
    cw.create_topic("events", partitions=2)
    for partition, frames in enumerate((4, 2)):
        append(cw, partition, *(10,) * frames)
    return cw


def append(cw: cordwood.sync.Client, partition: int, *counts: int, topic: str = "events") -> None:
    """Records that name their place."""
    log = cw.log(topic, partition)
    for count in counts:
        end = log.bounds()[1]
        log.append(Batch.of([b"%d/%d" % (partition, offset) for offset in range(end, end + count)]))


def expected(*counts: int, topic: str = "events") -> list[tuple[str, int, int, bytes]]:
    return [
        (topic, partition, offset, b"%d/%d" % (partition, offset))
        for partition, count in enumerate(counts)
        for offset in range(count)
    ]


def failure(place: Place, frame: DataFrame) -> str:
    with pytest.raises(StreamingQueryException) as caught:
        place.drain(frame)
    return str(caught.value)


def test_micro_batches_are_bounded_and_in_order(
    events: cordwood.sync.Client, spark: SparkSession, stream: Stream, place: Place
) -> None:
    progress = place.drain(stream(topic="events", maxOffsetsPerTrigger="25"))
    assert [batch.numInputRows for batch in progress] == [25, 25, 10]
    assert [ends(batch) for batch in progress] == [[17, 8], [34, 16], [40, 20]]
    # The rate is known: what the log holds, too.
    assert json.loads(progress[0].sources[0].latestOffset)["events"] == {"0": 40, "1": 20}
    assert place.rows(spark) == expected(40, 20)
    # A task for each log in each micro-batch, which reads it in order.
    files = [rows for rows in place.files() if rows]
    assert len(files) == 6
    assert all(len({partition for partition, _ in rows}) == 1 for rows in files)
    assert all(
        offsets == list(range(offsets[0], offsets[-1] + 1)) for offsets in ([o for _, o in rows] for rows in files)
    )


def test_a_restart_goes_on_exactly_where_it_was(
    events: cordwood.sync.Client, spark: SparkSession, stream: Stream, place: Place
) -> None:
    assert sum(batch.numInputRows for batch in place.drain(stream(topic="events"))) == 60
    append(events, 0, 5)
    append(events, 1, 1, 2)
    assert sum(batch.numInputRows for batch in place.drain(stream(topic="events", minPartitions="5"))) == 8
    assert sum(batch.numInputRows for batch in place.drain(stream(topic="events"))) == 0
    assert place.rows(spark) == expected(45, 23)


def test_a_new_query_begins_with_what_is_appended_from_then_on(
    events: cordwood.sync.Client, spark: SparkSession, folder: Path, place: Place
) -> None:
    frame = pipeline.read_stream(spark, folder, "events")
    assert sum(batch.numInputRows for batch in place.drain(frame)) == 0
    append(events, 0, 3)
    assert sum(batch.numInputRows for batch in place.drain(frame)) == 3
    append(events, 0, 3)
    # Nobody knows that anything was done: Spark asks again where the query began, and now that is elsewhere.
    place.forget_commit(1)
    place.forget_commit(0)
    (place.folder / "checkpoint" / "offsets" / "1").unlink()
    assert sum(batch.numInputRows for batch in place.drain(frame)) == 6
    assert [offset for _, _, offset, _ in place.rows(spark)] == list(range(40, 46))


def test_a_running_query_sees_what_is_appended_beside_it(
    events: cordwood.sync.Client, spark: SparkSession, stream: Stream, place: Place
) -> None:
    query = place.start(stream(topic="events"), processingTime="0 seconds")
    try:
        query.processAllAvailable()
        for round in range(3):
            append(events, 0, 10)
            append(events, 1, round + 1)
            query.processAllAvailable()
            assert place.rows(spark)[-1][2] == 20 + sum(range(round + 2)) - 1
    finally:
        query.stop()
    assert place.rows(spark) == expected(70, 26)


def test_available_now_ends_although_a_writer_goes_on(
    events: cordwood.sync.Client, spark: SparkSession, stream: Stream, place: Place
) -> None:
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            append(events, 0, 1)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        first = place.drain(stream(topic="events", maxOffsetsPerTrigger="1000"))
        second = place.drain(stream(topic="events", maxOffsetsPerTrigger="1000"))
    finally:
        done.set()
        writer.join()
    read = ends(second[-1])
    assert ends(first[-1])[0] < read[0] <= events.log("events").bounds()[1]
    assert place.rows(spark) == expected(*read)


def test_new_topics_of_a_pattern_join_a_running_query(
    events: cordwood.sync.Client, spark: SparkSession, stream: Stream, place: Place
) -> None:
    query = place.start(stream(subscribePattern="eve.*"), processingTime="0 seconds")
    try:
        query.processAllAvailable()
        events.create_topic("evenings", partitions=3)
        append(events, 2, 5, topic="evenings")
        query.processAllAvailable()
    finally:
        query.stop()
    new = [("evenings", 2, offset, b"2/%d" % offset) for offset in range(5)]
    assert place.rows(spark) == new + expected(40, 20)


def test_records_that_are_trimmed_between_micro_batches(
    events: cordwood.sync.Client, spark: SparkSession, stream: Stream, place: Place
) -> None:
    place.drain(stream(topic="events"))
    append(events, 0, 10)
    events.log("events").trim(before=45)
    assert "events/0: offset 40 is no longer kept; the first kept one is 45" in failure(place, stream(topic="events"))
    place.drain(stream(topic="events", failOnDataLoss="false"))
    rows = expected(50, 20)
    assert place.rows(spark) == rows[:40] + rows[45:]


@pytest.mark.parametrize("again", [False, True])
def test_a_topic_that_is_deleted_between_micro_batches(
    events: cordwood.sync.Client, spark: SparkSession, stream: Stream, place: Place, again: bool
) -> None:
    place.drain(stream(topic="events"))
    events.delete_topic("events")
    if again:
        events.create_topic("events")
        append(events, 0, 50)
    message = "was deleted and made anew" if again else "does not exist any more"
    assert f"topic 'events' {message}: the records after its last position" in failure(place, stream(topic="events"))
    place.drain(stream(topic="events", failOnDataLoss="false"))
    assert place.rows(spark) == sorted(expected(40, 20) + (expected(50) if again else []))
    # A warning comes once.
    if again:
        assert sum(batch.numInputRows for batch in place.drain(stream(topic="events"))) == 0


def test_headers_and_an_empty_topic(cw: cordwood.sync.Client, stream: Stream, place: Place) -> None:
    cw.create_topic("events")
    frame = stream(topic="events", includeHeaders="true")
    assert frame.isStreaming
    assert frame.columns[-1] == "headers"
    assert [batch.numInputRows for batch in place.drain(frame)] == [0]


def test_what_is_wrong_is_said(
    events: cordwood.sync.Client, spark: SparkSession, stream: Stream, place: Place, folder: Path
) -> None:
    with pytest.raises(AnalysisException, match="unknown option 'frobnicate'; reading a log takes url, topic"):
        stream(topic="events", frobnicate="1")
    for options, message in (
        ({"topic": "events", "endingOffsets": "latest"}, "'endingOffsets' is for batches"),
        ({"topic": "nothing"}, "topic 'nothing' does not exist"),
        ({"topic": "events", "startingOffsets": '{"events": {"0": 1}}'}, "'startingOffsets' says nothing of events/1"),
    ):
        assert message in failure(place, stream(**options))
    with pytest.raises(AnalysisException, match=r"'maxOffsetsPerTrigger' is for streams \(spark.readStream\)"):
        spark.read.format("cordwood").options(
            url=f"file:{folder}", topic="events", maxOffsetsPerTrigger=5
        ).load().count()
