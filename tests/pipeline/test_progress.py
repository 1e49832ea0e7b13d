"""The display of a job's progress, and the metrics of replicating queries."""

import io
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from cordwood import Event, pipeline
from cordwood.pipeline.progressing.display import Display
from cordwood.pipeline.progressing.status import SparkStatus, Status
from cordwood.sync import Client
from tests.support.pipeline.replicating import TOPIC, behind, play, wait_for


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def slow(rows: Iterable[Row]) -> Iterator[Row]:
    for row in rows:
        time.sleep(0.02)
        yield row


def test_it_shows_tasks_and_rows_while_a_job_runs(spark: SparkSession, cw: Client, folder: Path) -> None:
    with cw.journal(TOPIC, replicate=False, partitions=4) as journal:
        play(journal, 1, steps=40)
    out = io.StringIO()
    status = SparkStatus(spark)
    with Display("read", status.look, out=out, seconds=0.05):
        frame = pipeline.read(spark, folder, TOPIC, includeHeaders=True)
        assert frame.rdd.mapPartitions(slow).count() == sum(cw.log(TOPIC, n).bounds()[1] for n in range(4))
        wait_for(lambda: bool(re.search(r"read: (\d+)/\1 tasks, \d+ rows", out.getvalue())), out.getvalue())
    found = status.look()
    assert found.tasks == found.tasks_done > 0
    assert found.rows == sum(cw.log(TOPIC, n).bounds()[1] for n in range(4))
    assert out.getvalue().endswith("\n")


def test_a_terminal_has_one_line_that_is_gone_at_the_end() -> None:
    out, shown = Terminal(), []

    def look() -> Status:
        shown.append(1)
        return Status(10, len(shown), 1000 * len(shown))

    with Display("work", look, out=out, seconds=0.01):
        wait_for(lambda: len(shown) > 2, "it shows nothing")
    text = out.getvalue()
    assert "\n" not in text
    assert text.startswith("\rwork: 1/10 tasks, 1,000 rows")
    assert text.rpartition("\r")[2] == ""


def test_a_display_that_fails_does_not_end_the_work(caplog: pytest.LogCaptureFixture) -> None:
    def look() -> Status:
        raise RuntimeError("Spark is gone")

    with Display("work", look, out=io.StringIO(), seconds=0.01):
        wait_for(lambda: "Spark is gone" in caplog.text, "it did not look")
    assert "the progress of 'work' is shown no more" in caplog.text


def test_metrics_count_what_queries_replicate(spark: SparkSession, cw: Client, folder: Path) -> None:
    store = f"sqlite:{folder / 'store.db'}"
    journal = cw.journal(TOPIC, store=store, replicate=False, partitions=2)
    play(journal, 1, steps=20)
    numbers = pipeline.metrics(spark)
    out = io.StringIO()
    query = pipeline.replicate(spark, folder, [TOPIC], store, max_records=10)
    try:
        with Display("replicate", SparkStatus(spark).look, out=out, seconds=0.05):
            wait_for(lambda: behind(folder, store) == 0, "it does not catch up")
            wait_for(lambda: "lag 0" in out.getvalue(), out.getvalue())

        def records() -> float:
            return sum(value for name, value in numbers.values().items() if name.startswith("replicator_records_total"))

        end = sum(cw.log(TOPIC, partition).bounds()[1] for partition in range(2))
        wait_for(lambda: records() == end, f"{numbers.values()}")
        values = numbers.values()
        assert values["replicator_queries"] == 1
        assert values["replicator_batches_total"] >= end / 10
        assert values['replicator_lag_records{topic="orders",partition="0"}'] == 0
        assert f'replicator_records_total{{topic="orders",partition="0"}} {cw.log(TOPIC).bounds()[1]}' in numbers.text()
        assert "# TYPE replicator_lag_records gauge" in numbers.text()
        # A failure is counted.
        journal.append("A", [Event.json(1)])
        wait_for(lambda: behind(folder, store) == 0, "it does not catch up")
        journal.close()
        cw.delete_topic(TOPIC)
        wait_for(lambda: numbers.values()["replicator_failures_total"] == 1, "no failure")
        assert numbers.values()["replicator_queries"] == 0
    finally:
        query.stop()
        spark.streams.removeListener(numbers)
