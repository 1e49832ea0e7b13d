"""The Python interpreters of this machine that the package is tested with."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13")
"""The versions that the package is for; those that are present are tested."""


@cache
def find_interpreters() -> dict[str, str]:
    """Version -> program, for each version that is present; the interpreter of the tests is always among them."""
    this = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = {this: sys.executable}
    for version in VERSIONS:
        for program in _candidates(version):
            if version not in found and _runs(program, version):
                found[version] = program
    return dict(sorted(found.items()))


def describe_interpreters() -> str:
    """One line for the report of a test run: a version that is absent must not look tested."""
    found = find_interpreters()
    return "interpreters: " + ", ".join(f"{version} {found.get(version, 'not found')}" for version in VERSIONS)


def _candidates(version: str) -> Iterator[str]:
    on_path = shutil.which(f"python{version}")
    if on_path is not None:
        yield on_path
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    if os.access(pyenv, os.R_OK | os.X_OK):  # the environment may name the folder of another user
        yield from map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}")))


def _runs(program: str, version: str) -> bool:
    """Whether it starts: a shim of pyenv may be there for a version that is not active."""
    code = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    ran = subprocess.run([program, "-c", code], capture_output=True, text=True)
    return ran.stdout.strip() == version
