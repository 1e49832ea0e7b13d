"""The output of a command: tables for people, JSON lines for machines."""

import base64
import io
import json
import os
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

NULL = "∅"

_GAP = "  "
_CUT_WIDTH_MIN = 8
_COLUMN_WIDTH_MAX = 250  # a topic's name fits; a key of a megabyte must not make every line that long


def print_json(entry: Mapping[str, object]) -> None:
    """One object on one line."""
    print(json_line(entry))


def print_ack(entry: Mapping[str, object]) -> None:
    """Print one object on one line, and flush: an ack in a buffer is of no use to a program that waits for it.

    A command that only reads ends without an error when its pipe is closed. For a command that writes, a closed pipe is
    a failure: it has not done its work.
    """
    try:
        print_json(entry)
        flush()
    except BrokenPipeError as error:
        raise OSError("nobody reads the acks any more: nothing more was written") from error


def json_line(entry: Mapping[str, object]) -> str:
    return json.dumps(entry, ensure_ascii=not _writes_utf8(), separators=(",", ":"))


def json_line_with(entry: Mapping[str, object], name: str, raw: str) -> str:
    """As `json_line`, with a last field whose value is JSON text: it keeps all digits of its numbers.

    >>> json_line_with({"n": 1}, "payload", '{"price":\\n1.10}')
    '{"n":1,"payload":{"price": 1.10}}'
    """
    # A line end is a blank between two tokens: in a string of JSON it is escaped.
    text = raw.replace("\r", " ").replace("\n", " ")
    if not _writes_utf8():
        text = "".join(c if c.isascii() else json.dumps(c)[1:-1] for c in text)
    return f"{json_line(entry)[:-1]},{json.dumps(name)}:{text}}}"


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = ()) -> None:
    """Print a heading and the rows, in columns; those named in `numbers` are aligned right."""
    table = Table(columns, numbers)
    table.add(rows)
    table.flush()


def escape_what_cannot_be_shown() -> None:
    """A terminal may support only ASCII, and a file name may be no text at all: `\\u2205` is better than an error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def keep_stdout_for_output() -> None:
    """If stderr is closed, drop its output: `print`, and argparse, would write it to stdout instead."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # as long as the process lives


def flush() -> None:
    if sys.stdout is not None:  # the parent process may have closed it
        sys.stdout.flush()


class Table:
    """A table without an end: the first rows that are flushed decide the widths of the columns.

    Lines are cut at `width`, so that one record stays one line of a terminal. The last column keeps a third of that:
    cells of the column `cut` are cut for it, and on a narrow terminal the column `left_out_if_narrow` is left out.
    """

    def __init__(
        self,
        columns: Sequence[str],
        numbers: Sequence[str] = (),
        width: int | None = None,
        *,
        cut: str | None = None,
        left_out_if_narrow: str | None = None,
    ) -> None:
        self._columns = columns
        self._numbers = [column in numbers for column in columns]
        self._width = width
        self._cut = None if cut is None else columns.index(cut)
        self._left_out_if_narrow = None if left_out_if_narrow is None else columns.index(left_out_if_narrow)
        self._layout: _Layout | None = None
        self._rows: list[Sequence[str]] = []

    def add(self, rows: Sequence[Sequence[str]]) -> None:
        self._rows += rows

    def flush(self) -> None:
        rows, self._rows = self._rows, []
        if self._layout is None:
            longest = [max(map(len, column)) for column in zip(self._columns, *rows, strict=True)]
            self._layout = self._lay_out([min(width, _COLUMN_WIDTH_MAX) for width in longest])
            rows = [self._columns, *rows]
        lines = [self._line(row, self._layout) for row in rows]
        if lines:
            print("\n".join(lines))

    def _lay_out(self, widths: list[int]) -> "_Layout":
        everything = list(range(len(widths)))
        if self._width is None or self._cut is None:
            return _Layout(widths, everything, None)
        room = self._room_for_cut(widths, everything, self._width)
        narrow = room < min(widths[self._cut], _CUT_WIDTH_MIN)
        if narrow and self._left_out_if_narrow is not None:
            everything.remove(self._left_out_if_narrow)
            room = self._room_for_cut(widths, everything, self._width)
        room = max(room, _CUT_WIDTH_MIN)
        widths[self._cut] = min(widths[self._cut], room)
        return _Layout(widths, everything, room)

    def _room_for_cut(self, widths: list[int], shown: list[int], width: int) -> int:
        """The columns that are left for the cells of the column `cut`."""
        others = sum(widths[place] for place in shown[:-1] if place != self._cut)
        return width - width // 3 - others - len(_GAP) * (len(shown) - 1)

    def _line(self, row: Sequence[str], layout: "_Layout") -> str:
        cells = [self._cell(place, row[place], layout) for place in layout.shown]
        line = _GAP.join(cells).rstrip()
        return line if self._width is None else _cut(line, self._width)

    def _cell(self, place: int, text: str, layout: "_Layout") -> str:
        if place == self._cut and layout.cut_at is not None:
            text = _cut(text, layout.cut_at)
        width = layout.widths[place]
        return text.rjust(width) if self._numbers[place] else text.ljust(width)


class _Layout(NamedTuple):
    widths: list[int]
    shown: list[int]
    """The places of the columns that are shown."""
    cut_at: int | None
    """Where the cells of the column `cut` are cut."""


def text_of(data: bytes | None) -> str:
    """Bytes for people: text, with unprintable characters escaped; else `base64:…`.

    >>> text_of(b"caf\\xc3\\xa9"), text_of(b"\\x1b[2J"), text_of(b"\\xff"), text_of(None)
    ('café', '\\\\x1b[2J', 'base64:/w==', '∅')
    """
    if data is None:
        return NULL
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(data).decode()}"
    return shown(text)


def shown(text: str) -> str:
    """Text from another source, with unprintable characters escaped.

    >>> shown("caf\\u00e9"), shown("\\x1b[2J")
    ('café', '\\\\x1b[2J')
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def json_of(data: bytes | None) -> str | dict[str, str] | None:
    """Bytes for machines: a string if they are UTF-8, else {"base64": "…"}, which differs from any text.

    >>> json_of(b"hi"), json_of(b"\\xff"), json_of(None)
    ('hi', {'base64': '/w=='}, None)
    """
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def bytes_of(text: object) -> bytes | None:
    """The bytes that `json_of` has made this of; ValueError if it has made it of none.

    >>> bytes_of("hi"), bytes_of({"base64": "/w=="}), bytes_of(None)
    (b'hi', b'\\xff', None)
    """
    if text is None:
        return None
    if isinstance(text, str):
        return text.encode()
    if isinstance(text, dict) and list(text) == ["base64"] and isinstance(text["base64"], str):
        return base64.b64decode(text["base64"], validate=True)
    raise ValueError(f'{json.dumps(text)} is no string, no null and no {{"base64": "…"}}')


def time_of(timestamp_ms: int) -> str:
    """A timestamp for people.

    >>> time_of(1_700_000_000_123)
    '2023-11-14 22:13:20.123'
    """
    try:
        when = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"  # beyond the year 9999
    return f"{when:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03}"


def span_of(span: timedelta) -> str:
    """A time span in the largest unit that divides it.

    >>> span_of(timedelta(days=7)), span_of(timedelta(minutes=90)), span_of(timedelta(milliseconds=1500))
    ('7d', '90m', '1500ms')
    """
    for unit, name in ((86400_000, "d"), (3600_000, "h"), (60_000, "m"), (1000, "s")):
        whole, rest = divmod(span, timedelta(milliseconds=unit))
        if not rest:
            return f"{whole}{name}"
    return f"{span // timedelta(milliseconds=1)}ms"


def size_of(size: float) -> str:
    """A number of bytes for people.

    >>> size_of(640), size_of(10 << 30), size_of(1_700_000)
    ('640 B', '10 GiB', '1.62 MiB')
    """
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    unit = units[0]
    return f"{size:.3g} {unit}" if size < 1000 else f"{size:.0f} {unit}"


def _cut(line: str, width: int) -> str:
    """The line, or as much of it as a terminal of that width shows in one line."""
    if line.isascii():
        return line if len(line) <= width else line[: width - 1] + "…"
    taken = fits = 0
    for number, character in enumerate(line):
        taken += _columns_of(character)
        if taken > width:
            return line[:fits] + "…"
        if taken < width:
            fits = number + 1  # with the ellipsis after it
    return line


def _columns_of(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _writes_utf8() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
