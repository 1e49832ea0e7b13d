"""What a stream decides between micro-batches, asked of it as Spark does, without Spark."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

import cordwood
from cordwood import Batch, InvalidInput, NotFound, Trimmed, Unavailable
from cordwood.pipeline.source.folder import FolderLogs
from cordwood.pipeline.source.logs import Topic
from cordwood.pipeline.source.options import ReadOptions
from cordwood.pipeline.source.position import Position
from cordwood.pipeline.source.share import shares
from cordwood.pipeline.source.stream import LogsStream
from cordwood.url import FileUrl

ALL = ReadAllAvailable()


def stream(folder: Path, **options: str) -> LogsStream:
    topics = {} if "subscribePattern" in options or "subscribe" in options else {"topic": "events"}
    return LogsStream(ReadOptions.of({"url": f"file:{folder}", **topics, **options}))


def through_spark(position: dict[str, Any]) -> dict[str, Any]:
    """Spark keeps the text."""
    kept: dict[str, Any] = json.loads(json.dumps(position))
    return kept


def topic_id(folder: Path, name: str = "events") -> str:
    (topic,) = FolderLogs(FileUrl(folder)).topics(name.__eq__)
    return topic.id


def offsets(position: dict[str, Any], topic: str = "events") -> list[int]:
    return list(position[topic].values())


def ranges(reader: LogsStream, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[str, int, int]]:
    tasks = [partition.value for partition in reader.partitions(through_spark(start), through_spark(end))]
    return [(str(task.log), task.start, task.stop) for task in tasks]


def begin(reader: LogsStream) -> dict[str, Any]:
    """What Spark asks for first, without a checkpoint."""
    return reader.latestOffset(through_spark(reader.initialOffset()), ALL)


def append(cw: cordwood.sync.Client, count: int, partition: int = 0, topic: str = "events") -> None:
    cw.log(topic, partition).append(Batch.of([b"x"] * count))


@pytest.fixture
def events(cw: cordwood.sync.Client) -> cordwood.sync.Client:
    """Two partitions, of 10 and 4 records."""
    cw.create_topic("events", partitions=2)
    append(cw, 10, 0)
    append(cw, 4, 1)
    return cw


def test_the_position_looks_like_that_of_kafkas_source(events: cordwood.sync.Client, folder: Path) -> None:
    reader = stream(folder)
    start = reader.initialOffset()
    ids = {"events": topic_id(folder)}
    assert start == {"events": {"0": 10, "1": 4}, "topic ids": ids}
    append(events, 1)
    end = reader.latestOffset(start, ALL)
    assert end == {"events": {"0": 11, "1": 4}, "topic ids": ids, "began at": start}
    append(events, 1)
    after = {"events": {"0": 12, "1": 4}, "topic ids": ids}
    assert reader.latestOffset(end, ALL) == after
    # It may be given to another query as it is.
    assert offsets(stream(folder, startingOffsets=json.dumps(end)).initialOffset()) == [11, 4]


def test_nothing_new_is_the_same_position_to_the_letter(cw: cordwood.sync.Client, folder: Path) -> None:
    cw.create_topic("events", partitions=12)
    reader = stream(folder)
    start = through_spark(reader.initialOffset())
    first = through_spark(reader.latestOffset(start, ALL))
    assert json.dumps(reader.latestOffset(first, ALL)) == json.dumps(first)
    append(cw, 1, 11)
    second = through_spark(reader.latestOffset(first, ALL))
    assert second != first
    assert json.dumps(reader.latestOffset(second, ALL)) == json.dumps(second)
    assert reader.partitions(second, second) == reader.partitions(first, first) == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [10, 4]),
        ({"startingOffsets": "latest"}, [10, 4]),
        ({"startingOffsets": "earliest"}, [2, 0]),
        ({"startingOffsets": '{"events": {"0": 5, "1": -1}}'}, [5, 4]),
        ({"startingOffsets": '{"events": {"0": -2, "1": 1}}'}, [2, 1]),
        ({"startingTimestamp": "0"}, [2, 0]),
        ({"startingTimestamp": "99999999999999"}, [10, 4]),
    ],
)
def test_where_a_query_begins(
    events: cordwood.sync.Client, folder: Path, options: dict[str, str], expected: list[int]
) -> None:
    events.log("events").trim(before=2)
    assert offsets(stream(folder, **options).initialOffset()) == expected


def test_a_first_micro_batch_that_is_done_again_begins_where_it_began(
    events: cordwood.sync.Client, folder: Path
) -> None:
    reader = stream(folder)
    start = reader.initialOffset()
    append(events, 5)
    end = reader.latestOffset(start, ALL)
    append(events, 5)
    # After a crash Spark has the end, and asks for the start again.
    again = stream(folder)
    later = again.initialOffset()
    assert offsets(later) == [20, 4]
    assert ranges(again, later, end) == [("events/0", 10, 15)] == ranges(reader, start, end)
    assert ranges(again, end, again.latestOffset(end, ALL)) == [("events/0", 15, 20)]


def test_a_first_micro_batch_that_is_done_again_needs_no_place_to_begin(
    events: cordwood.sync.Client, folder: Path
) -> None:
    end = begin(stream(folder, startingOffsets='{"events": {"0": 7, "1": 4}}'))
    # As if the second partition had been added since.
    again = stream(folder, startingOffsets='{"events": {"0": 7}}')
    assert ranges(again, again.initialOffset(), end) == [("events/0", 7, 10)]
    assert again.latestOffset(end, ALL) == end
    with pytest.raises(InvalidInput, match="'startingOffsets' says nothing of events/1"):
        begin(again)
    events.delete_topic("events")
    lenient = stream(folder, failOnDataLoss="false")
    assert ranges(lenient, lenient.initialOffset(), end) == []
    nothing = lenient.latestOffset(end, ALL)
    assert nothing == lenient.latestOffset(nothing, ALL) == {"topic ids": {}}


def test_a_limit_is_shared_in_proportion_to_what_waits(events: cordwood.sync.Client, folder: Path) -> None:
    reader = stream(folder, startingOffsets="earliest", maxOffsetsPerTrigger="7")
    assert reader.getDefaultReadLimit() == ReadMaxRows(7)
    assert stream(folder).getDefaultReadLimit() == ALL
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(7))
    assert offsets(end) == [5, 2]
    assert offsets(reader.latestOffset(end, ReadMaxRows(7))) == [10, 4]
    assert offsets(reader.latestOffset(end, ALL)) == [10, 4]
    report = reader.reportLatestOffset()
    assert report is not None
    assert offsets(report) == [10, 4]


@given(st.integers(1, 200), st.lists(st.integers(0, 1000), max_size=30), st.integers(0, 100))
def test_shares_are_all_that_is_allowed_and_leave_nobody_out(limit: int, counts: list[int], turn: int) -> None:
    waiting = dict(enumerate(counts))
    given = shares(limit, waiting, turn)
    assert given.keys() == waiting.keys()
    assert sum(given.values()) == min(limit, sum(counts))
    assert all(0 <= given[log] <= waiting[log] for log in waiting)
    busy = [log for log in waiting if waiting[log]]
    if limit >= len(busy):
        assert all(given[log] for log in busy)
    # Who has more waiting never gets less.
    if limit >= len(busy):
        assert all(given[a] <= given[b] for a in busy for b in busy if waiting[a] < waiting[b])


def test_with_less_than_one_for_each_they_take_turns(cw: cordwood.sync.Client, folder: Path) -> None:
    cw.create_topic("events", partitions=5)
    for partition in range(5):
        append(cw, 100, partition)
    reader = stream(folder, startingOffsets="earliest")
    position = reader.initialOffset()
    for _ in range(10):
        position = reader.latestOffset(position, ReadMaxRows(2))
    assert offsets(position) == [4, 4, 4, 4, 4]


def test_available_now_ends_where_the_log_ended_when_it_was_started(events: cordwood.sync.Client, folder: Path) -> None:
    reader = stream(folder, subscribePattern=".*", startingOffsets="earliest")
    reader.prepareForTriggerAvailableNow()
    append(events, 5)
    events.create_topic("another")
    append(events, 5, topic="another")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert offsets(end) == [10, 4]
    assert "another" not in end
    assert reader.latestOffset(end, ALL) == end
    latest = stream(folder)
    latest.prepareForTriggerAvailableNow()
    append(events, 5)
    assert offsets(latest.initialOffset()) == [15, 4]


def test_new_topics_of_a_pattern_are_read_from_their_first_record(events: cordwood.sync.Client, folder: Path) -> None:
    reader = stream(folder, subscribePattern="events.*")
    start = reader.latestOffset(reader.initialOffset(), ALL)
    events.create_topic("events.new", partitions=2)
    append(events, 3, 1, "events.new")
    events.create_topic("other")
    end = reader.latestOffset(start, ALL)
    assert end == {
        "events": {"0": 10, "1": 4},
        "events.new": {"0": 0, "1": 3},
        "topic ids": {name: topic_id(folder, name) for name in ("events", "events.new")},
    }
    assert ranges(reader, start, end) == [("events.new/1", 0, 3)]


def test_a_partition_that_a_server_does_not_know_yet_keeps_its_position(
    events: cordwood.sync.Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers of a cluster hear one after the other of partitions that were added."""
    reader = stream(folder, startingOffsets="earliest")
    start = reader.initialOffset()
    known = reader.latestOffset(start, ALL)
    append(events, 1, 0)
    append(events, 1, 1)
    wide = FolderLogs.topics

    def narrow(logs: FolderLogs, wanted: Callable[[str], object]) -> list[Topic]:
        return [replace(topic, partitions=1) for topic in wide(logs, wanted)]

    monkeypatch.setattr(FolderLogs, "topics", narrow)
    behind = reader.latestOffset(known, ALL)
    assert offsets(behind) == [11, 4]
    assert ranges(reader, known, behind) == [("events/0", 10, 11)]
    with pytest.raises(Unavailable, match="events/1: offsets 0 to 3 are due, but the server that was asked does not"):
        ranges(reader, start, known)
    reader.prepareForTriggerAvailableNow()
    monkeypatch.undo()
    assert offsets(reader.latestOffset(behind, ALL)) == [11, 4]
    assert ranges(reader, behind, stream(folder).latestOffset(behind, ALL)) == [("events/1", 4, 5)]


@pytest.mark.parametrize("made_anew", [False, True])
def test_a_missing_topic_is_asked_for_again_as_a_server_may_be_behind(
    events: cordwood.sync.Client, folder: Path, monkeypatch: pytest.MonkeyPatch, made_anew: bool
) -> None:
    reader = stream(folder, startingOffsets="earliest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    right, asked = FolderLogs.topics, 0

    def behind(logs: FolderLogs, wanted: Callable[[str], object]) -> list[Topic]:
        nonlocal asked
        asked += 1
        return right(logs, wanted) if asked % 3 == 0 else []

    monkeypatch.setattr(FolderLogs, "topics", behind)
    monkeypatch.setattr(FolderLogs, "behind_seconds", 30.0)
    assert reader.latestOffset(end, ALL) == end
    assert ranges(reader, start, end) == [("events/0", 0, 10), ("events/1", 0, 4)]
    asked = 0
    reader.prepareForTriggerAvailableNow()
    monkeypatch.setattr(FolderLogs, "topics", right)
    assert reader.latestOffset(end, ALL) == end
    monkeypatch.setattr(FolderLogs, "behind_seconds", 0.1)
    events.delete_topic("events")
    if made_anew:
        events.create_topic("events", partitions=2)
    with pytest.raises(NotFound, match="was deleted and made anew" if made_anew else "does not exist any more"):
        stream(folder).latestOffset(end, ALL)


def test_min_partitions_cuts_what_is_large(events: cordwood.sync.Client, folder: Path) -> None:
    reader = stream(folder, startingOffsets="earliest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert ranges(reader, start, end) == [("events/0", 0, 10), ("events/1", 0, 4)]
    assert ranges(stream(folder, minPartitions="3"), start, end) == [
        ("events/0", 0, 5),
        ("events/0", 5, 10),
        ("events/1", 0, 4),
    ]


class TestWhatIsLost:
    """An error with failOnDataLoss, a warning without: never nothing."""

    @pytest.fixture
    def start(self, events: cordwood.sync.Client, folder: Path) -> dict[str, Any]:
        """A query that has come to 6 of 10, and 4 of 4."""
        reader = stream(folder, startingOffsets='{"events": {"0": 6, "1": 4}}')
        return through_spark(reader.latestOffset(reader.initialOffset(), ReadMaxRows(0)))

    def lenient(self, folder: Path, **options: str) -> LogsStream:
        return stream(folder, failOnDataLoss="false", **options)

    def test_records_that_were_trimmed_before_they_were_read(
        self, events: cordwood.sync.Client, folder: Path, start: dict[str, Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        events.log("events").trim(before=8)
        message = "events/0: offset 6 is no longer kept; the first kept one is 8"
        with pytest.raises(Trimmed, match=message):
            stream(folder).latestOffset(start, ALL)
        reader = self.lenient(folder)
        end = reader.latestOffset(start, ReadMaxRows(1))
        assert message in caplog.text
        assert offsets(end) == [9, 4]
        assert ranges(reader, start, end) == [("events/0", 8, 9)]
        with pytest.raises(Trimmed, match=message):
            ranges(stream(folder), start, end)

    def test_a_folder_that_was_removed_and_made_anew(
        self, events: cordwood.sync.Client, folder: Path, start: dict[str, Any]
    ) -> None:
        events.close()
        folder.rename(folder.parent / "removed")
        with cordwood.sync.connect(folder) as cw:
            cw.create_topic("events", partitions=2)
            append(cw, 20)
        with pytest.raises(NotFound, match="topic 'events' was deleted and made anew"):
            stream(folder).latestOffset(start, ALL)

    def test_records_that_were_trimmed_after_they_were_planned(
        self, events: cordwood.sync.Client, folder: Path, start: dict[str, Any]
    ) -> None:
        end = stream(folder).latestOffset(start, ReadMaxRows(2))
        events.log("events").trim(before=10)
        with pytest.raises(Trimmed, match="offset 6 is no longer kept; the first kept one is 10"):
            ranges(stream(folder), start, end)
        assert ranges(self.lenient(folder), start, end) == []

    def test_what_is_read_may_be_trimmed(
        self, events: cordwood.sync.Client, folder: Path, start: dict[str, Any]
    ) -> None:
        events.log("events").trim(before=6)
        events.log("events", 1).trim(before=4)
        assert ranges(stream(folder), start, stream(folder).latestOffset(start, ALL)) == [("events/0", 6, 10)]

    def test_a_topic_that_was_deleted(
        self, events: cordwood.sync.Client, folder: Path, start: dict[str, Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        events.delete_topic("events")
        message = r"topic 'events' does not exist any more: .* \(events/0 up to 6, events/1 up to 4\) are gone"
        with pytest.raises(NotFound, match=message):
            stream(folder).latestOffset(start, ALL)
        reader = self.lenient(folder)
        end = reader.latestOffset(start, ALL)
        assert "topic 'events' does not exist any more" in caplog.text
        assert end == {"topic ids": {}}
        assert ranges(reader, start, end) == []
        caplog.clear()
        assert reader.latestOffset(end, ALL) == end
        # Said once, not with every look.
        assert caplog.text == ""
        events.create_topic("events")
        append(events, 2)
        assert ranges(reader, end, reader.latestOffset(end, ALL)) == [("events/0", 0, 2)]

    def test_a_topic_that_the_query_is_told_to_read_no_more(
        self, events: cordwood.sync.Client, folder: Path, start: dict[str, Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        events.create_topic("others")
        append(events, 3, topic="others")
        message = r"topic 'events' is in the checkpoint, but the query does not read it any more: .* are gone"
        with pytest.raises(NotFound, match=message):
            stream(folder, subscribe="others").latestOffset(start, ALL)
        reader = self.lenient(folder, subscribe="others")
        assert ranges(reader, start, reader.latestOffset(start, ALL)) == [("others/0", 0, 3)]
        assert "is in the checkpoint" in caplog.text

    def test_a_topic_that_was_deleted_and_made_anew(
        self, events: cordwood.sync.Client, folder: Path, start: dict[str, Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        planned = stream(folder).latestOffset(start, ALL)
        events.delete_topic("events")
        events.create_topic("events", partitions=2)
        append(events, 20)
        with pytest.raises(NotFound, match="topic 'events' was deleted and made anew: the records after"):
            stream(folder).latestOffset(start, ALL)
        reader = self.lenient(folder)
        end = reader.latestOffset(start, ALL)
        assert "made anew" in caplog.text
        assert ranges(reader, start, end) == [("events/0", 0, 20)]
        # Ranges that were planned on the old one are not read from the new one.
        with pytest.raises(NotFound, match="events/0: offsets 6 to 9 are gone: topic 'events' was deleted and made"):
            ranges(stream(folder), start, planned)
        assert ranges(reader, start, planned) == []

    def test_a_log_that_has_become_shorter(
        self, events: cordwood.sync.Client, folder: Path, start: dict[str, Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        further = {**start, "events": {"0": 99, "1": 4}}
        message = "events/0: was read up to offset 99, but ends at 10 now"
        with pytest.raises(InvalidInput, match=message):
            stream(folder).latestOffset(further, ALL)
        reader = self.lenient(folder)
        end = reader.latestOffset(further, ALL)
        assert message in caplog.text
        assert offsets(end) == [10, 4]
        assert ranges(reader, further, end) == []
        with pytest.raises(InvalidInput, match="events/0: offset 99 is beyond the end, 10"):
            ranges(stream(folder), start, further)
        assert ranges(reader, start, further) == [("events/0", 6, 10)]

    def test_a_new_topic_that_was_trimmed_before_it_was_seen(self, events: cordwood.sync.Client, folder: Path) -> None:
        reader = stream(folder, subscribePattern=".*")
        start = reader.latestOffset(reader.initialOffset(), ALL)
        events.create_topic("new")
        append(events, 5, topic="new")
        events.log("new").trim(before=2)
        with pytest.raises(Trimmed, match="new/0: offset 0 is no longer kept"):
            reader.latestOffset(start, ALL)
        reader = self.lenient(folder, subscribePattern=".*")
        assert ranges(reader, start, reader.latestOffset(start, ALL)) == [("new/0", 2, 5)]

    def test_a_start_that_is_not_there(self, events: cordwood.sync.Client, folder: Path) -> None:
        beyond = '{"events": {"0": 11, "1": 0}}'
        with pytest.raises(InvalidInput, match="events/0: offset 11 is beyond the end, 10"):
            begin(stream(folder, startingOffsets=beyond))
        assert offsets(self.lenient(folder, startingOffsets=beyond).initialOffset()) == [10, 0]


def test_a_topic_that_never_was(events: cordwood.sync.Client, folder: Path) -> None:
    for lenient in ("true", "false"):
        with pytest.raises(NotFound, match=f"topic 'nothing' does not exist in file:{folder}"):
            begin(stream(folder, subscribe="events,nothing", failOnDataLoss=lenient))


@pytest.mark.parametrize("position", [{}, {"events": {"0": 3}}, {"topic ids": {"events": "1"}}, {"index": 4}])
def test_a_checkpoint_of_something_else(position: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="is no position in logs of cordwood's: a query that reads something else"):
        Position.of(position)
