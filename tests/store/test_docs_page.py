"""The examples and the table of `docs/testing.md`, as far as they are about event stores."""

import os
import re
import subprocess
import sys
from pathlib import Path

from cordwood.testing import EventStoreConformance
from cordwood.testing.store.under_test import StoreUnderTest
from tests.support.docs.pages import ROOT, blocks, page

WHOLE_PAGE = page("docs/testing.md")
PAGE = WHOLE_PAGE.partition("\n## The suite for an event store\n")[2]
MINE = """
from cordwood.store import open_store

async def open_my_store(url, read_only):
    return await open_store(url, read_only=read_only)
"""
# Some of each: test_conformance.py runs all of it.
CHOSEN = "snapshot or closes or binding"


def test_the_examples_pass_as_the_suites_that_they_are(tmp_path: Path) -> None:
    """In a project of their own, set up as the page says."""
    (settings,) = blocks(WHOLE_PAGE, "toml")
    (tmp_path / "pyproject.toml").write_text(settings)
    (tmp_path / "test_stores.py").write_text(MINE + "\n".join(blocks(PAGE, "python")))
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "--timeout=60", "-p", "no:cacheprovider", "-k", CHOSEN],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    passed, deselected = map(int, re.findall(r"(\d+) (?:passed|deselected)", ran.stdout))
    assert passed > 30
    assert passed + deselected > 200, "two suites"


def test_the_table_has_every_promise_with_its_default() -> None:
    shown = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", PAGE, re.MULTILINE))
    names = vars(StoreUnderTest)["__annotations__"]
    assert shown == {name: str(getattr(StoreUnderTest, name)) for name in names}


def test_it_names_about_as_many_tests_as_there_are() -> None:
    (named,) = re.findall(r"some (\d+) tests", PAGE)
    there = sum(name.startswith("test_") for name in dir(EventStoreConformance))
    assert abs(there - int(named)) < 20
