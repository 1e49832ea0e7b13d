"""A suite that nothing fails is worth nothing: here it is run on stores that break their promises."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cordwood.testing import EventStoreConformance
from tests.support.store import broken_stores

BROKEN = [kind for name, kind in vars(broken_stores).items() if name.startswith("Test")]


@pytest.fixture(scope="module")
def failures() -> set[str]:
    """The tests that fail in `broken_stores.py`, as Class::test; one run for all."""
    wanted = [f"{broken_stores.__file__}::{kind.__name__}::{kind.noticed_by}" for kind in BROKEN]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rf", "--tb=no", "-p", "no:cacheprovider", *wanted],
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
def test_a_broken_promise_is_noticed(kind: type[broken_stores.Broken], failures: set[str]) -> None:
    assert f"{kind.__name__}::{kind.noticed_by}" in failures


def test_every_theme_has_a_store_that_fails_it() -> None:
    themes = {base for kind in BROKEN for base in kind.__mro__ if base.__module__.startswith("cordwood.testing.")}
    assert set(EventStoreConformance.__bases__) <= themes


def test_no_theme_hides_a_test_or_fixture_of_another() -> None:
    seen: dict[str, type] = {}
    for theme in EventStoreConformance.__bases__:
        for name in vars(theme):
            if not name.startswith("__"):
                assert name not in seen, f"{name} is in {theme.__name__} and in {seen[name].__name__}"
                seen[name] = theme


def test_every_test_has_a_name_that_says_it_all() -> None:
    tests = [(name, test) for name, test in inspect.getmembers(EventStoreConformance) if name.startswith("test_")]
    assert len(tests) > 70
    for name, test in tests:
        assert test.__doc__ is None, name
        assert len(name.split("_")) > 3, name
        assert len(name) <= 70, name
