"""`make test` on a machine that lacks something that cannot be fetched: one line, before anything is installed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cordwood.testing.cassandra.java import fetch_jars as fetch_cassandra
from cordwood.testing.kafka.java import fetch_jars
from cordwood.testing.kafka.spark import spark_jars
from cordwood.testing.servers import maven

ROOT = Path(__file__).parents[2]
FILES = [
    ".ci/run",
    "Makefile",
    "pyproject.toml",
    "src/cordwood/_version.py",
    "src/cordwood/java.py",
    "src/cordwood/testing/cassandra/node.pom.xml",
    "src/cordwood/testing/kafka/broker.pom.xml",
    "src/cordwood/testing/kafka/spark.pom.xml",
]
NO_JAVA = (
    "make test needs Java, and there is none: install Java 17 or newer (Debian: openjdk-17-jre-headless),"
    " or set JAVA_HOME to one"
)
NO_MAVEN = (
    "make test needs Maven to fetch the jars of Kafka and Cassandra, and there is no mvn: install it (Debian: maven)"
)


class Machine:
    """A fresh clone, and a PATH with the programs of `bin` alone."""

    def __init__(self, folder: Path) -> None:
        self.clone = folder / "clone"
        self.bin = folder / "bin"
        self.cache = folder / "cache"
        self.bin.mkdir()
        for name in FILES:
            (self.clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.clone / name)
        (self.clone / "requirements").mkdir()
        (self.clone / "requirements" / "dev.txt").touch()
        for name in ("make", "bash", "dirname", "sha256sum", "cut"):
            found = shutil.which(name)
            assert found is not None
            (self.bin / name).symlink_to(found)
        self.has("python3", f'exec {sys.executable} "$@"')

    def has(self, name: str, script: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    def has_java(self, version: str = "17.0.15") -> None:
        self.has("java", f"echo 'openjdk version \"{version}\"' >&2")

    def make(self, target: str) -> tuple[int, list[str]]:
        """The exit code, and the output without make's own last line."""
        return self.run("make", "-j4", target)

    def run(self, command: str, *args: str) -> tuple[int, list[str]]:
        # No index: should it install something after all, nothing is fetched.
        env = {"PATH": str(self.bin), "HOME": str(self.cache), "XDG_CACHE_HOME": str(self.cache), "PIP_NO_INDEX": "1"}
        ran = subprocess.run(
            [self.bin / command, *args], cwd=self.clone, env=env, capture_output=True, text=True, timeout=60
        )
        return ran.returncode, [
            line for line in (ran.stdout + ran.stderr).splitlines() if not line.startswith("make: ")
        ]

    @property
    def installed(self) -> bool:
        return (self.clone / ".venv").exists()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_java_it_stops_before_it_installs(machine: Machine) -> None:
    machine.has("mvn", "true")
    assert machine.make("test") == (2, [NO_JAVA])
    assert not machine.installed


def test_the_run_of_ci_stops_before_it_installs_too(machine: Machine) -> None:
    machine.has("mvn", "true")
    assert machine.run("bash", ".ci/run") == (2, [NO_JAVA])
    assert not machine.installed


def test_a_java_that_is_too_old_is_named(machine: Machine) -> None:
    machine.has("mvn", "true")
    machine.has_java("11.0.2")
    code, said = machine.make("test")
    assert (code, len(said)) == (2, 1)
    assert f"make test needs Java 17 or newer, and {machine.bin}/java is Java 11" in said[0]
    assert not machine.installed


def test_without_maven_it_stops_before_it_installs(machine: Machine) -> None:
    machine.has_java()
    assert machine.make("test") == (2, [NO_MAVEN])
    assert not machine.installed


def test_what_is_missing_is_said_at_once(machine: Machine) -> None:
    assert machine.make("test") == (2, [NO_JAVA, NO_MAVEN])
    assert not machine.installed


def test_without_venv_it_stops_before_all_else(machine: Machine) -> None:
    machine.has("python3", f'case "$*" in *ensurepip*) exit 1;; esac; exec {sys.executable} "$@"')
    assert machine.make("test") == (2, ["python3 has no venv or ensurepip: install the package python3-venv"])
    assert not machine.installed


def test_without_python_it_says_so(machine: Machine) -> None:
    os.unlink(machine.bin / "python3")
    code, said = machine.make("test")
    assert (code, said) == (
        2,
        ["python3 is missing: install Python 3.11 or newer, or name one: make PYTHON=python3.12"],
    )


def test_nothing_is_missing_where_java_and_maven_are_there(machine: Machine) -> None:
    machine.has_java()
    machine.has("mvn", "true")
    assert machine.make("needed") == (0, [])


def test_whoever_has_the_jars_needs_no_maven(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.has_java()
    monkeypatch.setenv("XDG_CACHE_HOME", str(machine.cache))
    monkeypatch.setattr(maven, "maven_problem", lambda user: None)
    monkeypatch.setattr(maven, "_fetch", lambda pom, name, folder, say: folder.mkdir())
    fetch_jars()
    assert machine.make("needed") == (2, [NO_MAVEN])
    spark_jars()
    assert machine.make("needed") == (2, [NO_MAVEN])
    fetch_cassandra()
    assert machine.make("needed") == (0, [])
