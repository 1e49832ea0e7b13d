"""docs/howto-spark-plot.md, and the example that it is about."""

import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.docs.pages import ROOT, blocks, page

EXAMPLE = ROOT / "examples" / "spark_plot.py"
PAGE = page("docs/howto-spark-plot.md")


def test_the_example_makes_the_picture_of_the_page(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # It gets the session of all tests, which must outlive it.
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    picture = tmp_path / "requests.svg"
    for _ in range(2):
        runpy.run_path(str(EXAMPLE))["main"](str(picture), str(tmp_path / "data"))
        assert capsys.readouterr().out == "62287 requests in 120 minutes; slowest at 09:16\n"
        assert picture.read_bytes() == (ROOT / "docs/images/requests.svg").read_bytes()
        picture.unlink()
    assert "62,287 requests into\n120 rows" in PAGE


def test_the_page_shows_what_the_example_does() -> None:
    shown = blocks(PAGE, "python")
    assert len(shown) == 3
    assert all(block in EXAMPLE.read_text(encoding="utf-8") for block in shown)
