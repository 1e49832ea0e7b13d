"""`pipeline.progress`: one line on stderr, rewritten on a terminal, and every ten seconds elsewhere."""

import logging
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from .status import Status

_LOGGER = logging.getLogger("cordwood.spark")

TERMINAL_SECONDS = 0.5
ELSEWHERE_SECONDS = 10.0


class Display:
    """Shows the progress while its block runs, in a thread of its own. An error in it ends the display alone."""

    def __init__(
        self,
        title: str,
        look: Callable[[], Status],
        *,
        out: TextIO | None = None,
        seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._title = title
        self._look = look
        self._out = sys.stderr if out is None else out
        self._on_terminal = self._out is not None and self._out.isatty()
        self._seconds = seconds or (TERMINAL_SECONDS if self._on_terminal else ELSEWHERE_SECONDS)
        self._clock = clock
        self._began = clock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cordwood-progress", daemon=True)
        self._shown = ""

    def __enter__(self) -> Self:
        if self._out is not None:  # the parent process may have closed it
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._out is None:
            return
        # Spark may take its time to answer; the work is done, and does not wait for its display.
        self._thread.join(self._seconds)
        if self._on_terminal and self._shown:
            print(f"\r{' ' * len(self._shown)}\r", end="", file=self._out, flush=True)

    def _run(self) -> None:
        try:
            while not self._ended.wait(self._seconds):
                self._show(line(self._title, self._look(), self._clock() - self._began))
        except Exception as error:
            _LOGGER.warning("the progress of %r is shown no more: %s", self._title, error)

    def _show(self, text: str) -> None:
        if self._on_terminal:
            print(f"\r{text.ljust(len(self._shown))}", end="", file=self._out, flush=True)
        else:
            print(text, file=self._out, flush=True)
        self._shown = text


def line(title: str, status: Status, seconds: float) -> str:
    """The progress after so many seconds.

    >>> line("replay", Status(8, 2, 4_000, 0), 20)
    'replay: 2/8 tasks, 4,000 rows, 200 rows/s, 1:00 left'
    >>> line("replicate", Status(8, 8, 4_000, 0, lag=1_000), 20)
    'replicate: 4,000 records, 200 records/s, lag 1,000, 0:05 left'
    >>> line("copy", Status(), 5)
    'copy: 0:05'
    """
    parts: list[str] = []
    things = "rows" if status.lag is None else "records"
    if status.tasks and status.lag is None:
        parts.append(f"{status.tasks_done}/{status.tasks} tasks")
    if status.rows:
        parts += [f"{status.rows:,} {things}", f"{status.rows / seconds:,.0f} {things}/s"]
    if status.size:
        parts.append(f"{status.size / seconds / 2**20:,.1f} MiB/s")
    if status.lag is not None:
        parts.append(f"lag {status.lag:,}")
    left = _left(status, seconds)
    if left is not None:
        parts.append(f"{_time(left)} left")
    return f"{title}: {', '.join(parts) or _time(seconds)}"


def _left(status: Status, seconds: float) -> float | None:
    if status.lag is not None:
        return seconds * status.lag / status.rows if status.rows and status.lag else None
    if not status.tasks_done or status.tasks_done >= status.tasks:
        return None
    return seconds * (status.tasks - status.tasks_done) / status.tasks_done


def _time(seconds: float) -> str:
    whole = round(seconds)
    hours = f"{whole // 3600}:{whole // 60 % 60:02}" if whole >= 3600 else f"{whole // 60}"
    return f"{hours}:{whole % 60:02}"
