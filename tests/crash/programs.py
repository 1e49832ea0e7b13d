"""Programs that are killed, and what they said until then."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

ROOT = Path(__file__).parents[2]


class Output:
    """The lines that a program prints, taken from its pipe all the time, so that it never waits."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self.lines: list[list[str]] = []
        self._thread = Thread(target=self._take)
        self._thread.start()

    def _take(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            # The last one may be cut by the kill: that was not said.
            if line.endswith(b"\n"):
                self.lines.append(line.decode().split())

    def wait_for_a_line(self) -> None:
        until = time.monotonic() + 30
        while not self.lines:
            assert self.process.poll() is None, "the program ended"
            assert time.monotonic() < until, "the program says nothing"
            time.sleep(0.002)

    def kill(self) -> None:
        assert self.process.poll() is None, "the program ended by itself"
        self.process.kill()
        self.process.wait()
        self._thread.join()


@contextmanager
def program(name: str, *arguments: object) -> Iterator[Output]:
    command = [sys.executable, "-m", f"tests.crash.{name}", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        output = Output(process)
        try:
            yield output
        finally:
            if process.poll() is None:
                output.kill()
