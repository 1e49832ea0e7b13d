"""A suite that nothing fails is worth nothing: here it is run on engines that break their promises."""

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

import cordwood
from cordwood.testing import LogConformance
from cordwood.testing.under_test import UnderTest, promised
from tests.support.conformance import broken_engines

BROKEN = [kind for name, kind in vars(broken_engines).items() if name.startswith("Test")]


@pytest.fixture(scope="module")
def failures() -> set[str]:
    """What fails in `broken_engines.py`, as Class::test; one run for all."""
    wanted = [f"{broken_engines.__file__}::{kind.__name__}::{kind.noticed_by}" for kind in BROKEN]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rf", "--tb=no", "--timeout=2", "-p", "no:cacheprovider", *wanted],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "COLUMNS": "400"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1, run.stdout + run.stderr
    lines = [line.split(" - ")[0] for line in run.stdout.splitlines() if line.startswith("FAILED")]
    return {line.partition("::")[2] for line in lines}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__.removeprefix("Test"))
def test_a_broken_promise_is_noticed(kind: type, failures: set[str]) -> None:
    assert f"{kind.__name__}::{kind.noticed_by}" in failures  # type: ignore[attr-defined]  # each of them has it


def test_every_theme_has_an_engine_that_fails_it() -> None:
    themes = {base for kind in BROKEN for base in kind.__mro__ if base.__module__.startswith("cordwood.testing.")}
    assert set(LogConformance.__bases__) <= themes


def test_no_theme_hides_a_test_or_fixture_of_another() -> None:
    seen: dict[str, type] = {}
    for theme in LogConformance.__bases__:
        for name in vars(theme):
            if not name.startswith("__"):
                assert name not in seen, f"{name} is in {theme.__name__} and in {seen[name].__name__}"
                seen[name] = theme


def test_every_test_has_a_name_that_says_it_all() -> None:
    tests = [(name, test) for name, test in inspect.getmembers(LogConformance) if name.startswith("test_")]
    assert len(tests) > 100
    for name, test in tests:
        assert test.__doc__ is None, name
        assert len(name.split("_")) > 3, name


def test_a_test_of_a_promise_that_is_taken_back_is_not_there() -> None:
    class Theme(UnderTest):
        @promised("dense")
        async def test_of_a_promise(self) -> None: ...

        async def test_of_all(self) -> None: ...

    class Sparse(Theme):
        dense: ClassVar[bool] = False

    assert callable(Theme.test_of_a_promise)
    assert Sparse.test_of_a_promise is None
    assert callable(Sparse.test_of_all)


def test_cordwood_itself_never_loads_pytest() -> None:
    root = Path(cordwood.__file__).parent
    paths = [path.relative_to(root.parent).with_suffix("") for path in root.rglob("*.py")]
    names = [".".join(path.parts) for path in paths if "testing" not in path.parts and path.name != "__main__"]
    assert "cordwood.log.native.api.engine" in names
    script = f"import sys, {', '.join(names)}\nsys.exit('pytest' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)
