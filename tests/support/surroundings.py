"""The machine at a failure: a test that timed out on a machine that hung says nothing about the code."""

import os
import sys
import threading
import time
import traceback
from collections.abc import Generator
from pathlib import Path

import pytest

from cordwood.testing.servers import process

_TITLE = "Machine and servers meanwhile"
_THREADS_TITLE = "Threads of cordwood"
_FRAMES_SHOWN = 4
_PRESSURE = Path("/proc/pressure")
_SERVER_CHARACTERS = 4000
_begun = pytest.StashKey["Look"]()


class Look:
    """How long this machine has waited so far, and how much its servers have said."""

    def __init__(self) -> None:
        self.seconds = time.monotonic()
        self.waited = {"stolen processors": _stolen_seconds(), **_pressures()}
        self.logs = {server.log: _size(server.log) for server in list(process._open)}

    def since(self, begun: "Look") -> str:
        """A line of how the machine was, and whatever the servers have said."""
        seconds = max(0.001, self.seconds - begun.seconds)
        waited = [f"{name} {self.waited[name] - before:.1f} s" for name, before in begun.waited.items()]
        lines = [f"in {seconds:.1f} s, load {os.getloadavg()[0]:.1f}: {', '.join(waited)}"]
        for log, size in self.logs.items():
            before = begun.logs.get(log, 0)
            if size > before:
                lines += [f"{log}:", _tail(log, before)]
        return "\n".join(lines)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[_begun] = Look()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections.append((_TITLE, Look().since(item.stash[_begun])))
        if threads := threads_of_ours():
            report.sections.append((_THREADS_TITLE, threads))
    return report


def threads_of_ours() -> str:
    """Where the threads of the engines are: one that hangs is what a test has waited for.

    Those of the client libraries too, which run Python for answers: the one that brings them may wait itself.
    """
    frames = sys._current_frames()
    ours = [
        thread
        for thread in threading.enumerate()
        if thread.name.startswith("cordwood") or isinstance(thread, threading._DummyThread)
    ]
    return "\n".join(
        f"{thread.name}:\n{''.join(traceback.format_stack(frames[thread.ident])[-_FRAMES_SHOWN:])}"
        for thread in ours
        if thread.ident in frames
    )


def _stolen_seconds() -> float:
    """What a virtual machine's host has kept from all processors together."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK")


def _pressures() -> dict[str, float]:
    """For how long something waited for a processor or the disk, where the kernel counts it."""
    found = {}
    for what in ("cpu", "io", "memory"):
        file = _PRESSURE / what
        if file.exists():
            first = file.read_text().split("\n", 1)[0]
            found[f"waiting for {what}"] = int(first.rpartition("total=")[2]) / 1e6
    return found


def _size(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def _tail(log: Path, start: int) -> str:
    with log.open("rb") as file:
        file.seek(max(start, _size(log) - _SERVER_CHARACTERS))
        return file.read().decode(errors="replace").rstrip()
