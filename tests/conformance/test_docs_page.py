"""The examples and the table of `docs/testing.md` are what the suite does."""

import os
import re
import subprocess
import sys
from pathlib import Path

from cordwood.testing import LogConformance
from cordwood.testing.under_test import UnderTest
from tests.support.docs.pages import ROOT, blocks, page

# Up to the suite for event stores, which has tests of its own.
PAGE = page("docs/testing.md").partition("\n## The suite for an event store\n")[0]
MINE = "from cordwood.simulation.memory import MemoryEngine as MyEngine, MemoryStore as MyStore\n"
# The first class is that of test_embedded.py, which runs all of it.
CHOSEN = "TestMyEngine or (TestEmbedded and trim)"


def test_the_examples_pass_as_the_suites_that_they_are(tmp_path: Path) -> None:
    """In a project of their own, set up as the page says."""
    (settings,) = blocks(PAGE, "toml")
    (tmp_path / "pyproject.toml").write_text(settings)
    examples = [block for block in blocks(PAGE, "python") if "LogConformance" in block]
    (tmp_path / "test_engines.py").write_text(MINE + "\n".join(examples))
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "--timeout=20", "-p", "no:cacheprovider", "-k", CHOSEN],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    passed, deselected = map(int, re.findall(r"(\d+) (?:passed|deselected)", ran.stdout))
    whole = (passed + deselected) // 2
    assert whole > 100
    assert passed > whole, "all of one class, and some of the other"


def test_the_table_has_every_promise_with_its_default() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \|", PAGE, re.MULTILINE)
    shown = {name: default.strip("`") for name, default in rows}
    values = {name: getattr(UnderTest, name) for name in vars(UnderTest)["__annotations__"]}
    assert shown == {name: written(value) for name, value in values.items()}


def written(value: int) -> str:
    return f"{value >> 20} MiB" if value >= 1 << 20 else str(value)


def test_it_names_about_as_many_tests_as_there_are() -> None:
    (named,) = re.findall(r"some (\d+) tests", PAGE)
    there = sum(name.startswith("test_") for name in dir(LogConformance))
    assert abs(there - int(named)) < 20
