"""Programs that are killed or paused, and what they said until then."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

ROOT = Path(__file__).parents[3]


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
        self._until(lambda: bool(self.lines), "nothing")

    def wait_for(self, word: str) -> None:
        """Until it has said a line that begins so."""
        self._until(lambda: any(line[0] == word for line in self.lines), f"no {word!r}")

    def wait_for_lines(self, count: int) -> None:
        """Until it has said so many lines."""
        self._until(lambda: len(self.lines) >= count, f"fewer than {count} lines")

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        self.wait_paused()

    def wait_paused(self) -> None:
        """Wait until all of it is stopped, by any process."""
        state = os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert state is not None
        assert state.si_code == os.CLD_STOPPED, "the program ended"

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def _until(self, said: Callable[[], bool], missing: str) -> None:
        until = time.monotonic() + 60
        while not said():
            assert self.process.poll() is None or said(), "the program ended"
            assert time.monotonic() < until, f"the program says {missing}"
            time.sleep(0.002)

    def kill(self) -> None:
        assert self.process.poll() is None, "the program ended by itself"
        self.process.kill()
        self.process.wait()
        self._thread.join()


@contextmanager
def program(module: str, *arguments: object) -> Iterator[Output]:
    command = [sys.executable, "-m", module, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        output = Output(process)
        try:
            yield output
        finally:
            if process.poll() is None:
                output.kill()
