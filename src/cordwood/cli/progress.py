"""The progress of long work: one line on stderr that is rewritten, only on a terminal."""

import sys
import time
from types import TracebackType
from typing import Self

from .output import size_of

_EVERY_SECONDS = 0.2


class Progress:
    """Counts records and bytes; shows nothing if stderr is no terminal, or for work that is done at once.

    Work that does not know its bytes adds none, and shows its records alone.
    """

    def __init__(self, doing: str, things: str = "records", *, shown: bool = True) -> None:
        self._doing = doing
        self._things = things
        self._on_terminal = shown and sys.stderr is not None and sys.stderr.isatty()
        self._began = self._shown = time.monotonic()
        self._records = 0
        self._bytes = 0
        self._line = ""

    def __enter__(self) -> Self:
        return self

    def add(self, records: int, size: int) -> None:
        self._records += records
        self._bytes += size
        now = time.monotonic()
        if self._on_terminal and now - self._shown >= _EVERY_SECONDS:
            self._shown = now
            self._show(now - self._began)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._line:
            print(f"\r{' ' * len(self._line)}\r", end="", file=sys.stderr, flush=True)

    def _show(self, seconds: float) -> None:
        line = f"{self._doing}: {self._records:,} {self._things}"
        if self._bytes:
            line += f", {size_of(self._bytes)}, {size_of(self._bytes / seconds)}/s"
        print(f"\r{line.ljust(len(self._line))}", end="", file=sys.stderr, flush=True)
        self._line = line
