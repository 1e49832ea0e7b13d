"""docs/pipeline.md: its code runs and prints what it says; its tables name every column."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cordwood.pipeline.auditing.findings import KINDS
from cordwood.pipeline.frames import actions, wal_records
from cordwood.pipeline.replaying.rows import entry_schema
from cordwood.pipeline.scanning.rows import event_schema
from tests.support.docs.pages import blocks, page, rows

PAGE = page("docs/pipeline.md")


def test_its_code_runs_and_prints_what_it_says(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    # It gets the session of all tests, which must outlive it.
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    names: dict[str, object] = {}
    for block in blocks(PAGE, "python"):
        exec(compile(block, "docs/pipeline.md", "exec"), names)
    assert names["spark"] is spark
    # What a call prints is in the comments below it, or behind it.
    expected = [line for block in blocks(PAGE, "python") for line in re.findall(r"^(?: *|.*\)  )# (.*)$", block, re.M)]
    assert capsys.readouterr().out.splitlines() == expected
    assert len(expected) >= PAGE.count("print(")


def test_its_tables_name_every_column() -> None:
    # The other tables have code in their first column.
    named = [name for row in rows(PAGE) for name in row[0].split(", ") if not name.startswith("`")]
    replay = entry_schema(errors=True)
    events = event_schema(errors=True)
    columns = [*wal_records.SPARK_SCHEMA.names, *actions.SPARK_SCHEMA.names, *replay.names, *events.names]
    assert named[: len(columns)] == columns
    assert sorted(named[len(columns) :]) == sorted(KINDS), "and every finding of an audit"
