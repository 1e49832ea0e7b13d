"""The processes that Spark starts, found by their parents."""

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path


def descendants(pid: int) -> list[int]:
    """All processes below this one, parents first."""
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


def named(pids: Iterable[int], word: str) -> Iterator[int]:
    """Those whose command line has the word."""
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            if word in Path(f"/proc/{pid}/cmdline").read_text():
                yield pid


def python_workers(pid: int) -> list[int]:
    """The Python processes that run tasks for the JVMs below this process: forked by a daemon, so below one."""
    return [worker for daemon in named(descendants(pid), "pyspark.daemon") for worker in descendants(daemon)]


def executors(worker: int) -> list[int]:
    """The JVMs of the executors of a worker."""
    return list(named(descendants(worker), "CoarseGrainedExecutorBackend"))


def send(pids: Iterable[int], signal_: signal.Signals) -> None:
    """Send a signal to all that still run."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal_)
