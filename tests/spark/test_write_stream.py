"""Streams into logs: each batch once, through restarts, replays and refusals; a new checkpoint is a new query."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import cordwood
from tests.support.spark.written_rows import staged, values


class Stream:
    """A query from a folder of text files, a batch for each run that finds new ones, into the topic `events`."""

    def __init__(self, spark: SparkSession, root: Path, folder: Path) -> None:
        self.spark = spark
        self.texts = root / "texts"
        self.checkpoint = root / "checkpoint"
        self.folder = folder
        self.texts.mkdir()
        with cordwood.sync.connect(folder) as cw:
            cw.create_topic("events")

    def add(self, name: str, *lines: str) -> None:
        # Spark takes a file as it finds it: it must be whole when it gets its name.
        (self.texts / f".{name}").write_text("".join(f"{line}\n" for line in lines))
        (self.texts / f".{name}").rename(self.texts / name)

    def run(self, change: Callable[[DataFrame], DataFrame] = lambda frame: frame, mode: str = "append") -> None:
        """Everything that is there now, then stop."""
        query = (
            change(self.spark.readStream.text(str(self.texts)))
            .writeStream.format("cordwood")
            .outputMode(mode)
            .options(url=f"file:{self.folder}", topic="events", checkpointLocation=str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)

    def forget_last_commit(self) -> int:
        """The checkpoint as a crash leaves it that comes before Spark has noted the end of the last batch."""
        last = max(int(path.name) for path in (self.checkpoint / "commits").glob("[0-9]*"))
        for name in (f"{last}", f".{last}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)
        return last

    def values(self) -> list[bytes | None]:
        assert staged(self.folder) == []
        return values(self.folder)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path, folder: Path) -> Stream:
    return Stream(spark, tmp_path, folder)


def test_each_batch_is_appended_and_restarts_go_on(stream: Stream) -> None:
    stream.add("1", "a", "b")
    stream.run()
    assert stream.values() == [b"a", b"b"]
    stream.add("2", "c")
    stream.run()
    stream.run()
    assert stream.values() == [b"a", b"b", b"c"]


def test_a_batch_that_spark_replays_is_not_appended_again(stream: Stream) -> None:
    stream.add("1", "a", "b")
    stream.run()
    stream.add("2", "c")
    stream.run()
    for _ in range(2):
        assert stream.forget_last_commit() == 1
        stream.run()
        assert stream.values() == [b"a", b"b", b"c"]
    stream.add("3", "d")
    stream.run()
    assert stream.values() == [b"a", b"b", b"c", b"d"]


def test_a_query_whose_checkpoint_was_deleted_is_another_one(stream: Stream) -> None:
    stream.add("1", "a")
    stream.run()
    shutil.rmtree(stream.checkpoint)
    stream.run()
    assert stream.values() == [b"a", b"a"]


def test_a_batch_without_rows_appends_nothing_and_the_next_one_comes(stream: Stream) -> None:
    def without_x(frame: DataFrame) -> DataFrame:
        return frame.filter("value != 'x'")

    stream.add("1", "x")
    stream.run(without_x)
    assert stream.values() == []
    stream.forget_last_commit()
    stream.run(without_x)
    stream.add("2", "a", "x")
    stream.run(without_x)
    assert stream.values() == [b"a"]


def test_a_batch_is_refused_while_the_folder_is_held_and_written_later(stream: Stream) -> None:
    stream.add("1", "a", "b")
    with (
        cordwood.sync.connect(stream.folder),
        pytest.raises(StreamingQueryException, match=rf"Unavailable: .* is being written by process {os.getpid()}\b"),
    ):
        stream.run()
    assert stream.values() == []
    stream.run()
    assert stream.values() == [b"a", b"b"]


def test_a_batch_whose_task_fails_leaves_nothing_and_is_written_later(stream: Stream) -> None:
    def failing(frame: DataFrame) -> DataFrame:
        return frame.select(F.expr("if(value = 'b', raise_error('stop'), value) as value"))

    stream.add("1", "a", "b")
    with pytest.raises(StreamingQueryException, match="stop"):
        stream.run(failing)
    assert stream.values() == []
    stream.run()
    assert stream.values() == [b"a", b"b"]


def test_a_stream_that_replaces_what_it_wrote_is_refused(stream: Stream) -> None:
    stream.add("1", "a")
    with pytest.raises(StreamingQueryException, match="a log is only appended to"):
        stream.run(lambda frame: frame.groupBy("value").count().select("value"), mode="complete")
    assert stream.values() == []
