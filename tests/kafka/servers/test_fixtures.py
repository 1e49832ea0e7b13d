"""The fixtures as a user has them: in tests of their own, in a folder of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kafka.processes import gone

pytestmark = [pytest.mark.processes, pytest.mark.slow]

CONFTEST = 'pytest_plugins = ["cordwood.testing.kafka.fixtures"]\n'

TEST = """
import sys
from cordwood.testing.kafka import Broker

def test_one(kafka: Broker) -> None:
    print(kafka.pid, kafka._process._keeper.pid, kafka._process.folder, flush=True)
    {then}

def test_two(kafka: Broker) -> None:
    print(kafka.pid, kafka._process._keeper.pid, kafka._process.folder, flush=True)
"""


def run(folder: Path, then: str) -> "subprocess.Popen[str]":
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_mine.py").write_text(TEST.format(then=then))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-s",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
        str(folder),
    ]
    return subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def told(line: str) -> tuple[int, int, Path]:
    """The server, the process that keeps it, and their folder."""
    server, keeper, folder = line.split()
    return int(server.lstrip(".")), int(keeper), Path(folder)


def test_one_server_serves_all_tests_and_ends_with_them(tmp_path: Path) -> None:
    with run(tmp_path, "pass") as process:
        output, _ = process.communicate(timeout=100)
    assert process.returncode == 0, output
    lines = [line for line in output.splitlines() if "cordwood-server-" in line]
    first, second = (told(line) for line in lines)
    assert first == second
    server, keeper, folder = first
    gone(server)
    gone(keeper)
    assert not folder.exists()


def test_killing_the_tests_ends_the_server(tmp_path: Path) -> None:
    with run(tmp_path, "sys.stdin.read()") as process:
        assert process.stdout is not None
        server, keeper, folder = told(process.stdout.readline())
        process.kill()
        gone(server)
        gone(keeper)
    assert not folder.exists()
