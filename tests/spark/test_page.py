"""docs/spark.md: its code runs and prints what it says; its tables are what the source has."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cordwood.pipeline.source.options import ALLOWED
from cordwood.pipeline.source.schema import spark_schema
from tests.support.docs.pages import blocks, page, promised, rows

PAGE = page("docs/spark.md")


def test_its_code_runs_and_prints_what_it_says(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    # It gets the session of all tests, which must outlive it.
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    code = blocks(PAGE, "python")
    names: dict[str, object] = {}
    for block in code:
        exec(compile(block, "docs/spark.md", "exec"), names)
    assert names["spark"] is spark
    expected = [line for block in code for line in promised(block)]
    assert capsys.readouterr().out.splitlines() == expected
    assert len(expected) == sum(block.count("print(") for block in code)


def test_its_tables_name_every_column_and_option() -> None:
    named = [name for row in rows(PAGE) for name in re.split(r", ", row[0])]
    assert named == [*spark_schema(include_headers=True).names, *ALLOWED]
