"""Options that several commands have, and the syntax of their values."""

import argparse
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

from cordwood.errors import InvalidInput

DEFAULT_URL = "file:./cordwood-data"
URL_VARIABLE = "CORDWOOD_URL"
TIMEOUT_SECONDS = 30
TIMEOUT_MAX = timedelta(days=365)  # more makes no sense, and the system's clocks have limits

_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_BYTES = {
    "": 1,
    "B": 1,
    **{f"{prefix}B": 1000**power for power, prefix in enumerate("kMGT", 1)},
    **{f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGT", 1)},
}
_TIME_OPTIONS = ("--from-time", "--until")
_RELATIVE_TIME = re.compile(r"-[0-9].*")
_QUANTITY = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?) ?(?P<unit>[A-Za-z]*)")


class IntermixedParser(argparse.ArgumentParser):
    """Options may come anywhere among the arguments, also between two of a list, as in most programs.

    Plain argparse takes a list of arguments in one piece only, and `parse_intermixed_args` does not support
    subcommands. It also takes the time of `--from-time -1h` for an option.
    """

    _splitting = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._splitting:
            return super().parse_known_args(args, namespace)
        self._splitting = True
        try:
            return self.parse_known_intermixed_args(join_relative_times(args or ()), namespace)
        finally:
            self._splitting = False


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add the url and output options. Without defaults: a subcommand's must not undo an option before its name."""
    parser.add_argument(
        "--url",
        default=argparse.SUPPRESS,
        metavar="URL",
        help=f"the logs: file:FOLDER or kafka://HOST:PORT (default: ${URL_VARIABLE}, else {DEFAULT_URL})",
    )
    parser.add_argument(
        "--config",
        default=argparse.SUPPRESS,
        metavar="FILE",
        help="settings of a kafka:// url, a line NAME=VALUE each: the place for a password",
    )
    parser.add_argument(
        "--timeout",
        type=timeout,
        default=argparse.SUPPRESS,
        metavar="SPAN",
        help=f"for connecting, and for each call (default: {TIMEOUT_SECONDS}s)",
    )
    parser.add_argument(
        "--wait",
        type=timeout,
        default=argparse.SUPPRESS,
        metavar="SPAN",
        help="how long a command that writes waits for a folder that another process writes (default: not at all)",
    )
    add_json(parser)


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON object a line, for machines"
    )


def add_partition(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument("--partition", type=offset, metavar="N", help=f"the partition (default: {default})")


def url_of(args: argparse.Namespace) -> str:
    given: str | None = getattr(args, "url", None)
    # An empty variable means "not set", as in most programs.
    return given if given is not None else os.environ.get(URL_VARIABLE) or DEFAULT_URL


def config_of(args: argparse.Namespace) -> dict[str, str]:
    """The settings in the file of `--config`."""
    path: str | None = getattr(args, "config", None)
    return {} if path is None else settings_in(path)


def settings_in(path: str) -> dict[str, str]:
    """The settings in a file. An error shows at most the name of a line: the rest may be secret."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not UTF-8: is it the file with the settings?") from None
    settings: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not name:
            raise InvalidInput(f"{path}, line {number}: a setting is NAME=VALUE; a line with # in front is a remark")
        if name in settings:
            raise InvalidInput(f"{path}, line {number}: {name} is set twice: keep one")
        settings[name] = value
    return settings


def timeout_of(args: argparse.Namespace) -> float:
    given: timedelta | None = getattr(args, "timeout", None)
    return TIMEOUT_SECONDS if given is None else given.total_seconds()


def wait_of(args: argparse.Namespace) -> float:
    given: timedelta | None = getattr(args, "wait", None)
    return 0 if given is None else given.total_seconds()


def wants_json(args: argparse.Namespace) -> bool:
    return bool(getattr(args, "json", False))


def duration(text: str) -> timedelta:
    """A time span: a number and one of ms, s, m, h, d, w.

    >>> duration("36h")
    datetime.timedelta(days=1, seconds=43200)
    """
    number, unit = _quantity(text)
    if unit not in _SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is no time span: write a number and ms, s, m, h, d or w, as in 7d")
    try:
        return timedelta(seconds=float(number * _SECONDS[unit]))
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{text!r} is too long: at most {timedelta.max.days} days") from None


def timeout(text: str) -> timedelta:
    """A time span that is short enough for a timeout.

    >>> timeout("1.5s")
    datetime.timedelta(seconds=1, microseconds=500000)
    """
    span = duration(text)
    if not timedelta(0) < span <= TIMEOUT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no time to wait: more than 0, and at most {TIMEOUT_MAX.days}d")
    return span


def byte_count(text: str) -> int:
    """A number of bytes, with or without a unit.

    >>> byte_count("10GiB"), byte_count("1.5kB"), byte_count("9007199254740993")
    (10737418240, 1500, 9007199254740993)
    """
    number, unit = _quantity(text)
    if unit not in _BYTES:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no size: write a number and B, KiB, MiB, GiB or TiB, as in 10GiB"
        )
    return int(number * _BYTES[unit])


def offset(text: str) -> int:
    """A whole number from 0 on."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0 on")
    return int(text)


def count(text: str) -> int:
    """A whole number from 1 on."""
    if (number := offset(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is less than 1")
    return number


def moment(text: str) -> datetime:
    """A time in ISO 8601, without a zone in UTC; or a time span before now, such as `-1h`.

    >>> moment("2024-05-01T12:00").isoformat()
    '2024-05-01T12:00:00+00:00'
    >>> timedelta(minutes=59) < datetime.now(UTC) - moment("-1h") < timedelta(minutes=61)
    True
    """
    if text.startswith("-"):
        return _before_now(text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time: write ISO 8601, as in 2024-05-01T12:00:00+02:00, or -1h for an hour ago"
        ) from None
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)


def join_relative_times(args: Sequence[str]) -> list[str]:
    """The arguments, with each `--from-time -1h` and `--until -1h` as one word.

    >>> join_relative_times(["events", "--from-time", "-1h", "--json", "--", "--from-time", "-1h"])
    ['events', '--from-time=-1h', '--json', '--', '--from-time', '-1h']
    """
    joined: list[str] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*joined, word, *rest]
        if word in _TIME_OPTIONS and rest and _RELATIVE_TIME.fullmatch(rest[0]):
            word = f"{word}={rest.pop(0)}"
        joined.append(word)
    return joined


def header(text: str) -> tuple[str, bytes]:
    """A header NAME=VALUE.

    >>> header("trace=a=b")
    ('trace', b'a=b')
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is no header: write NAME=VALUE")
    try:
        name.encode()
    except UnicodeEncodeError:  # the arguments of a process are bytes, and may be no text
        raise argparse.ArgumentTypeError(
            f"{text!r}: the name of a header is UTF-8; its value may be any bytes"
        ) from None
    return name, os.fsencode(value)


def _before_now(text: str) -> datetime:
    span = duration(text[1:])
    try:
        return datetime.now(UTC) - span
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{text!r} is before the year 1: name a shorter span") from None


def _quantity(text: str) -> tuple[Fraction, str]:
    # A fraction: a float is not exact beyond 2^53, and infinite at some length.
    found = _QUANTITY.fullmatch(text)
    return (Fraction(found["number"]), found["unit"]) if found else (Fraction(0), "?")
