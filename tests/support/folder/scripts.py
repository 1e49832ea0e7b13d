"""Python programs next to the test: they print a line when they reach a point, and read one to continue."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

# Every script may use these; `told` waits until the test says more.
_PRELUDE = """
import asyncio, os, sys
import cordwood
from cordwood import Batch

url = sys.argv[1]
def say(*words): print(*words, flush=True)
def told(): return sys.stdin.readline().strip()
"""


class Program:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin: IO[str] = process.stdin
        self._stdout: IO[str] = process.stdout

    @property
    def pid(self) -> int:
        return self.process.pid

    def says(self) -> str:
        """The next line that it prints; blocks."""
        return self._stdout.readline().strip()

    def tell(self, line: str = "") -> None:
        self._stdin.write(f"{line}\n")
        self._stdin.flush()

    def ends(self) -> None:
        """It ends well, and had nothing to complain about."""
        _, errors = self.process.communicate(timeout=30)
        assert (self.process.returncode, errors) == (0, "")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)


# Python 3.12 and newer warn of every fork of a process with threads, which is what some scripts are about.
_FORKS = ("-W", "ignore:This process:DeprecationWarning")


@contextmanager
def program(script: str, folder: Path) -> Iterator[Program]:
    process = subprocess.Popen(
        [sys.executable, *_FORKS, "-c", _PRELUDE + script, f"file:{folder}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Program(process)
    finally:
        process.kill()
        process.communicate()
