"""Fetching, with a `mvn` that only notes that it was called: the real one has fetched what the other tests run on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cordwood.errors import Unavailable
from cordwood.testing.kafka.java import fetch_jars
from cordwood.testing.servers.maven import jar_folder

pytestmark = pytest.mark.processes

GOOD = """#!/bin/sh
echo "$@" >> "$CALLS"
for word; do case "$word" in -DoutputDirectory=*) out="${word#*=}";; esac; done
echo '[INFO] Downloaded from somewhere: a.jar'
[ -z "$WAIT" ] || read line < "$WAIT"
echo jar > "$out/a.jar"
"""


@pytest.fixture
def pom(tmp_path: Path) -> Path:
    path = tmp_path / "pom.xml"
    path.write_text("<project/>")
    return path


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "calls"
    path.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CALLS", str(path))
    monkeypatch.setenv("WAIT", "")
    install(tmp_path, monkeypatch, GOOD)
    return path


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    programs = tmp_path / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "mvn").write_text(script)
    (programs / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")


def test_the_real_ones_are_there() -> None:
    assert any(jar.name.startswith("kafka-clients-") for jar in fetch_jars().glob("*.jar"))


def test_they_are_fetched_once_and_again_for_another_pom(pom: Path, calls: Path) -> None:
    said: list[str] = []
    first = jar_folder(pom, "test", said.append)
    assert [jar.name for jar in first.glob("*.jar")] == ["a.jar"]
    assert said[0] == f"test: fetching the jars into {first}, once"
    assert said[-1].startswith("test: 1 jars in ")
    assert jar_folder(pom, "test") == first
    pom.write_text("<project> </project>")
    assert jar_folder(pom, "test", said.append) != first
    assert len(calls.read_text().splitlines()) == 2


def test_nothing_is_left_of_a_fetch_that_failed(
    pom: Path, calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, "#!/bin/sh\necho 'no such artifact: a:b:1'\nexit 3\n")
    with pytest.raises(Unavailable, match="mvn failed with status 3; it said last:\nno such artifact: a:b:1"):
        jar_folder(pom, "test", lambda _: None)
    assert [path.suffix for path in (tmp_path / "cache/cordwood/jars").iterdir()] == [".lock"]
    install(tmp_path, monkeypatch, GOOD)
    assert jar_folder(pom, "test", lambda _: None).is_dir()


def test_a_fetch_that_was_killed_counts_for_nothing(pom: Path, calls: Path, tmp_path: Path) -> None:
    folder = jar_folder(pom, "test", lambda _: None)
    left = folder.with_name(f"{folder.name}.part-killed")
    folder.rename(left)
    assert jar_folder(pom, "test", lambda _: None) == folder
    assert not left.exists()


def test_without_maven(pom: Path, calls: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable) as caught:
        jar_folder(pom, "kafka")
    assert str(caught.value) == ("kafka needs Maven to fetch its jars, and there is no mvn: install it (Debian: maven)")


def test_two_processes_at_once_fetch_once(
    pom: Path, calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    monkeypatch.setenv("WAIT", str(gate))
    code = f"from cordwood.testing.servers.maven import *; print(jar_folder(Path({str(pom)!r}), 'test'))"
    run = [sys.executable, "-c", code]
    with (
        subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as first,
        subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as second,
    ):
        said = {}
        for process in (first, second):
            assert process.stderr is not None
            said[process] = process.stderr.readline()
        assert sorted(line.partition(": ")[2].partition(" ")[0] for line in said.values()) == ["another", "fetching"]
        gate.write_text("go\n")
        folders = [process.communicate(timeout=30)[0] for process in (first, second)]
    assert folders[0] == folders[1] != ""
    assert len(calls.read_text().splitlines()) == 1
