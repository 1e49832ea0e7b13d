"""`make wheel`, and the lines of the docs that install the package."""

import re
import shlex
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.packaging.conftest import install, make_environment, run
from tests.support.docs.pages import ROOT, blocks, page
from tests.support.packaging.interpreters import VERSIONS, describe_interpreters, find_interpreters

pytestmark = [pytest.mark.slow, pytest.mark.processes, pytest.mark.timeout(600)]

# Those that need no server, no Spark and no Arrow.
UNIT_TESTS = [
    *("tests/unit/log/calls", "tests/unit/log/native/plog", "tests/unit/log/native/stream"),
    *("tests/unit/records/test_batch.py", "tests/unit/records/test_column.py"),
    *("tests/unit/cli", "tests/unit/journal/test_fold.py", "tests/unit/test_errors.py", "tests/unit/test_url.py"),
]
TOOLS = ("hypothesis", "pytest", "pytest-asyncio", "pytest-timeout")
PAGES = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]
_INSTALL_LINE = re.compile(r"pip install [^`\n]+")
INSTALL_LINES = sorted({line for name in PAGES for line in _INSTALL_LINE.findall(page(name))})


@pytest.fixture(scope="module")
def clone(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clone")
    with tarfile.open(the_one(dist, "*.tar.gz")) as sdist:
        if hasattr(tarfile, "data_filter"):  # not in the first versions of Python 3.11
            sdist.extractall(folder, filter="data")
        else:
            sdist.extractall(folder)
    return the_one(folder, "cordwood-*")


@pytest.fixture(scope="module")
def empty_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_environment(sys.executable, tmp_path_factory.mktemp("environment"))


def the_one(dist: Path, pattern: str) -> Path:
    (found,) = dist.glob(pattern)
    return found


def test_the_wheel_holds_the_packages_and_nothing_else(dist: Path) -> None:
    with zipfile.ZipFile(the_one(dist, "*.whl")) as wheel:
        names = wheel.namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"cordwood", "pyspark_cordwood"}
    assert "cordwood/py.typed" in names
    assert "cordwood/testing/kafka/broker.pom.xml" in names
    assert not [name for name in names if "__pycache__" in name]


def test_the_sdist_holds_what_a_clone_needs(dist: Path) -> None:
    with tarfile.open(the_one(dist, "*.tar.gz")) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"Makefile", "README.md", "pyproject.toml", "requirements/dev.txt", "tests/conftest.py"} <= names


@pytest.mark.parametrize("version", find_interpreters())
def test_the_readme_and_unit_tests_run_on_each_interpreter(dist: Path, tmp_path: Path, version: str) -> None:
    python = make_environment(find_interpreters()[version], tmp_path / "environment")
    wheel = the_one(dist, "*.whl")
    install(python, wheel, cwd=tmp_path)
    listed = run(python, "-m", "pip", "list", "--format=freeze", cwd=tmp_path)
    brought = {"cordwood", "crc32c", "msgspec", "pip", "setuptools"}
    assert {line.partition("==")[0] for line in listed.split()} <= brought
    for number, program in enumerate(blocks(page("README.md"), "python")):
        (tmp_path / f"program{number}.py").write_text(program, encoding="utf-8")
        first = run(python, "-W", "error", f"program{number}.py", cwd=tmp_path)
        assert first.splitlines() == re.findall(r"^ *print\(.*\)  # (.*)$", program, re.MULTILINE)
    assert "range(2, 4)" in run(python, "-W", "error", "program0.py", cwd=tmp_path)
    assert "TOPIC" in run(python.with_name("cordwood"), "topics", "--url", "file:./data", cwd=tmp_path)
    install(python, *(pinned(tool) for tool in TOOLS), cwd=tmp_path)
    said = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *UNIT_TESTS, cwd=ROOT)
    assert re.search(r"^\d+ passed", said, re.MULTILINE), said


def pinned(tool: str) -> str:
    (version,) = re.findall(rf"^{tool}==(\S+)", page("requirements/dev.txt"), re.MULTILINE)
    return f"{tool}=={version}"


def test_the_report_names_the_interpreters_that_are_absent() -> None:
    described = describe_interpreters()
    for version in VERSIONS:
        assert f"{version} {find_interpreters().get(version, 'not found')}" in described


def test_these_lines_install_the_package() -> None:
    assert INSTALL_LINES
    assert all(shlex.split(line)[2].startswith(".") for line in INSTALL_LINES), INSTALL_LINES


@pytest.mark.parametrize("line", INSTALL_LINES)
def test_an_install_line_of_the_docs_works_in_a_clone(clone: Path, empty_environment: Path, line: str) -> None:
    """Resolved, and not installed: Spark alone has 400 MB."""
    _, _, *wanted = shlex.split(line)
    said = install(empty_environment, "--dry-run", "--no-deps", *wanted, cwd=clone)
    assert "Would install" in said
    assert "does not provide the extra" not in said
