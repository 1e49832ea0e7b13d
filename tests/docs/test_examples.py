import ast
import asyncio
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import cordwood
from cordwood import Batch
from tests.support.docs.pages import ROOT, blocks, page, promised

PAGES = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]
# The classes of docs/testing.md are run by tests/conformance, as the suites that they are, the pages about Spark by
# tests/spark and tests/pipeline, which have a session, and docs/kafka.md by tests/kafka, which has a broker.
ELSEWHERE = {
    "docs/testing.md",
    "docs/spark.md",
    "docs/spark-writing.md",
    "docs/howto-spark-plot.md",
    "docs/kafka.md",
    "docs/pipeline.md",
}
WITH_CODE = [name for name in PAGES if blocks(page(name), "python") and name not in ELSEWHERE]


async def run_page(code: list[str]) -> None:
    """All blocks of a page, one after the other, as at the prompt of `python -m asyncio`."""
    names: dict[str, Any] = {"__name__": "example"}
    for block in code:
        ran = eval(compile(block, "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if inspect.iscoroutine(ran):
            await ran


def test_the_pages_with_code_are_these() -> None:
    assert WITH_CODE == [
        "README.md",
        "docs/concepts.md",
        "docs/journal.md",
        "docs/operating.md",
        "docs/performance.md",
        "docs/wal.md",
    ]


@pytest.mark.parametrize("name", WITH_CODE)
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = blocks(page(name), "python")
    if name == "README.md":
        # Whole programs, which bring their own event loops.
        for program in code:
            exec(compile(program, name, "exec"), {"__name__": "__main__"})
    else:
        asyncio.run(run_page(code))
    expected = [line for block in code for line in promised(block)]
    assert capsys.readouterr().out.splitlines() == expected
    assert len(expected) == sum(block.count("print(") for block in code)


def test_the_examples_of_the_readme_are_short() -> None:
    programs = blocks(page("README.md"), "python")
    assert len(programs) == 2
    for program in programs:
        assert len([line for line in program.splitlines() if line.strip()]) <= 20


def test_the_readme_says_what_installing_brings_and_which_extras_there_are() -> None:
    project = tomllib.loads(page("pyproject.toml"))["project"]
    readme = page("README.md")
    (extras,) = re.findall(r"pip install '[^'\[]*\[([a-z,]+)\]'", readme)
    assert set(extras.split(",")) == set(project["optional-dependencies"])
    assert [re.split(r"\W", needed)[0] for needed in project["dependencies"]] == ["crc32c", "msgspec"]
    assert "That brings crc32c and msgspec alone" in readme


def test_links_lead_somewhere() -> None:
    inner = [str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*/*.md")]
    for name in [*PAGES, "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", *inner]:
        for target in re.findall(r"\]\(([^)#]+)\)", page(name)):
            if "://" not in target:
                assert (ROOT / name).parent.joinpath(target).exists(), f"{name}: {target}"


def run_example(name: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )


@pytest.mark.processes
def test_the_quickstart(tmp_path: Path) -> None:
    assert run_example("quickstart.py", folder=tmp_path).stdout.splitlines() == [
        "on the disk, as offsets 0 to 2",
        "0  kitchen  20.5",
        "1  hall  21.0",
        "2  attic  no value",
        "1 kept after the trim",
    ]
    assert "offsets 3 to 5" in run_example("quickstart.py", folder=tmp_path).stdout


@pytest.mark.processes
def test_orders_run_again_and_again(tmp_path: Path) -> None:
    first, second, third = (run_example("orders.py", folder=tmp_path).stdout.splitlines() for _ in range(3))
    assert first == [
        "order-1 before: {}",
        "3 events, each with a number of its own: True",
        "order-1 now: {'milk': 1, 'sugar': 1, 'tea': 1}, at 3",
    ]
    assert second[0] == "order-1 before: {'milk': 1, 'sugar': 1, 'tea': 1}"
    assert second[2:] == [
        "order-1 now: {'milk': 2, 'sugar': 2, 'tea': 2}, at 6",
        "order-1 is complete, and purged",
    ]
    assert third == first


@pytest.mark.processes
def test_many_writers(tmp_path: Path) -> None:
    for _ in range(2):
        ran = run_example("many_writers.py", str(tmp_path / "data"), folder=tmp_path)
        assert ran.stdout == "104 writers, 104 of them complete and in order\n"


def test_the_tests_know_every_example() -> None:
    names = {path.name for path in (ROOT / "examples").glob("*.py")}
    assert names == {"follow.py", "many_writers.py", "orders.py", "quickstart.py", "spark_plot.py"}


@pytest.mark.processes
def test_the_programs_of_the_readme_run_a_second_time(tmp_path: Path) -> None:
    log, journal = blocks(page("README.md"), "python")
    for first in (0, 2):
        for program, line in ((log, f"range({first}, {first + 2})"), (journal, "1 command-1")):
            ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
            assert (ran.returncode, ran.stderr) == (0, "")
            assert ran.stdout.splitlines()[0] == line


@pytest.mark.processes
async def test_a_follower_keeps_its_place_and_says_what_it_missed(tmp_path: Path) -> None:
    data, place = str(tmp_path / "data"), str(tmp_path / "place")
    async with cordwood.connect(tmp_path / "data") as cw:
        await cw.create_topic("events")
        log = cw.log("events")
        await log.append(Batch.of([b"a", b"b", b"c"]))
        first = await asyncio.to_thread(run_example, "follow.py", data, "events", place, "2", folder=tmp_path)
        await log.append(Batch.of([b"d", b"e"]))
        await log.trim(before=4)
        second = await asyncio.to_thread(run_example, "follow.py", data, "events", place, "1", folder=tmp_path)
    assert first.stdout == "0 b'a'\n1 b'b'\n"
    assert second.stdout == "4 b'e'\n"
    assert second.stderr == "offsets 2 to 3 were trimmed before they were seen\n"


async def test_a_follower_notices_a_topic_that_was_created_again(tmp_path: Path) -> None:
    data, place = str(tmp_path / "data"), str(tmp_path / "place")
    async with cordwood.connect(tmp_path / "data") as cw:
        await cw.create_topic("events")
        await cw.log("events").append(Batch.of([b"a", b"b"]))
        first = await asyncio.to_thread(run_example, "follow.py", data, "events", place, "2", folder=tmp_path)
        await cw.delete_topic("events")
        await cw.create_topic("events")
        await cw.log("events").append(Batch.of([b"c", b"d", b"e"]))
        second = await asyncio.to_thread(run_example, "follow.py", data, "events", place, "3", folder=tmp_path)
    assert first.stdout == "0 b'a'\n1 b'b'\n"
    assert second.stdout == "0 b'c'\n1 b'd'\n2 b'e'\n"
    assert second.stderr == "topic 'events' was created again: reading the new one from its start\n"
