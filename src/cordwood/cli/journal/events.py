"""Events on the output: a table for people, JSON lines for machines."""

import shutil
import sys
from typing import Protocol

from cordwood.cli.output import Table, json_line, json_line_with, json_of, shown, text_of, time_of
from cordwood.journal import StoredEvent

_ROWS = 500
"""Rows that are laid out together."""


class EventPrinter(Protocol):
    def add(self, event: StoredEvent) -> None: ...

    def flush(self) -> None:
        """Print all events that were added."""


def event_printer(key: str, as_json: bool) -> EventPrinter:
    return _JsonPrinter(key) if as_json else _TablePrinter()


class _JsonPrinter:
    def __init__(self, key: str) -> None:
        self._key = key
        self._lines: list[str] = []

    def add(self, event: StoredEvent) -> None:
        entry: dict[str, object] = {
            "key": self._key,
            "seq_nr": event.seq_nr,
            "timestamp": milliseconds(event),
            "partition": event.partition,
            "offset": event.offset,
            "id": event.append_id,
            "tags": sorted(event.tags),
            "headers": event.headers,
            "metadata": event.metadata,
            "kind": event.kind,
        }
        if event.kind == "json":
            self._lines.append(json_line_with(entry, "payload", event.raw.decode()))
        else:
            payload = None if event.kind is None else json_of(event.raw)
            self._lines.append(json_line({**entry, "payload": payload}))
        if len(self._lines) >= _ROWS:
            self.flush()

    def flush(self) -> None:
        if self._lines:
            print("\n".join(self._lines))
            self._lines.clear()


class _TablePrinter:
    def __init__(self) -> None:
        width = shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else None
        columns = ("SEQ_NR", "TIME (UTC)", "KIND", "TAGS", "PAYLOAD")
        self._table = Table(columns, ("SEQ_NR",), width, cut="TAGS", left_out_if_narrow="TIME (UTC)")
        self._rows: list[tuple[str, ...]] = []

    def add(self, event: StoredEvent) -> None:
        tags = ",".join(map(shown, sorted(event.tags)))
        payload = text_of(None if event.kind is None else event.raw)
        when = time_of(milliseconds(event))
        self._rows.append((str(event.seq_nr), when, event.kind or "empty", tags, payload))
        if len(self._rows) >= _ROWS:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            self._table.add(self._rows)
            self._table.flush()
            self._rows = []


def milliseconds(event: StoredEvent) -> int:
    return round(event.timestamp.timestamp() * 1000)
