"""The command, run in this process or in one of its own, on a fresh folder."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cordwood.cli import main


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Ran]
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command works unless told otherwise: nothing is there yet."""
    path = tmp_path / "data"
    monkeypatch.setenv("CORDWOOD_URL", f"file:{path}")
    # Some environments set it, and it hides what a buffered stdout does.
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    return path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Run the command in this process; `stdin` is what it finds there."""

    def run(*arguments: str, stdin: bytes = b"") -> Ran:
        file = tmp_path / "stdin"
        file.write_bytes(stdin)
        capsys.readouterr()
        with file.open() as opened, monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", opened)
            code = main(arguments)
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def start() -> Iterator[Start]:
    """Start the command as a process; what still runs at the end of the test is killed."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(
        *arguments: str, python: tuple[str, ...] = ("-m", "cordwood"), **options: Any
    ) -> "subprocess.Popen[bytes]":
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        process = subprocess.Popen([sys.executable, *python, *arguments], **{**pipes, **options})
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def children_of(pid: int) -> list[int]:
    found: list[int] = []
    for task in os.listdir(f"/proc/{pid}/task"):
        found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found
