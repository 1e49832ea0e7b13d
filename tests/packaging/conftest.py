"""A wheel and an sdist of this tree, built once, and empty environments to install them into."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.docs.pages import ROOT


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with everything that `make wheel` builds."""
    folder = tmp_path_factory.mktemp("dist")
    run("make", "wheel", f"DIST={folder}", cwd=ROOT)
    return folder


def make_environment(interpreter: str, folder: Path) -> Path:
    """Make an environment with pip and nothing else; returns its Python."""
    run(interpreter, "-m", "venv", folder, cwd=ROOT)
    return folder / "bin" / "python"


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """The output of a program that must succeed, outside of the environment that the tests run in."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    ran = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**inherited, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


def install(python: Path, *wanted: str | Path, cwd: Path) -> str:
    return run(python, "-m", "pip", "--disable-pip-version-check", "install", *wanted, cwd=cwd)
