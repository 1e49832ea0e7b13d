"""The examples and the table of `docs/testing.md` are what the suite does."""

import re
from pathlib import Path

import pytest

from cordwood import sync
from cordwood.client import Client
from cordwood.testing import LogConformance
from cordwood.testing.under_test import UnderTest
from cordwood.url import parse_url
from tests.conformance.memory import MemoryEngine, Store

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
NAMES = {
    "Client": Client,
    "LogConformance": LogConformance,
    "MyEngine": lambda: MemoryEngine(Store()),
    "parse_url": parse_url,
    "pytest": pytest,
    "sync": sync,
}


def suite_of(example: str) -> type[LogConformance]:
    names = dict(NAMES)
    exec(example, names)
    (suite,) = [kind for name, kind in names.items() if name.startswith("Test")]
    assert isinstance(suite, type)
    assert issubclass(suite, LogConformance)
    return suite


async def test_the_first_example_connects(tmp_path: Path) -> None:
    suite = suite_of(EXAMPLES[0])
    async with suite().connect(f"file:{tmp_path}/data") as cw:
        assert await cw.topics() == []


async def test_the_second_example_connects_to_an_engine_of_its_own() -> None:
    suite = suite_of(EXAMPLES[1])
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
