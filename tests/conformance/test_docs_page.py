"""The examples and the table of `docs/testing.md` are what the suite does."""

import re
from pathlib import Path
from typing import Any

import pytest

from cordwood.testing import LogConformance
from cordwood.testing.under_test import UnderTest
from tests.conformance.memory import MemoryEngine, Store

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def suites() -> dict[str, Any]:
    """What the page defines, its blocks run one after the other."""
    names: dict[str, Any] = {"MyEngine": lambda: MemoryEngine(Store())}
    for example in EXAMPLES:
        exec(example, names)
    return names


async def test_the_first_example_connects(suites: dict[str, Any], tmp_path: Path) -> None:
    suite = suites["TestEmbedded"]
    async with suite().connect(f"file:{tmp_path}/data") as cw:
        assert await cw.topics() == []


async def test_the_second_example_connects_to_an_engine_of_its_own(suites: dict[str, Any]) -> None:
    suite = suites["TestMyEngine"]
    assert issubclass(suite, LogConformance)
    async with suite().connect("file:/in-memory") as cw:
        assert await cw.topics() == []
    assert not suite.reopens
    assert vars(suite)["test_the_next_connection_finds_everything_and_goes_on"] is None


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
