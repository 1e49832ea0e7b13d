"""Records from the lines that `cordwood log read --json` prints."""

import json
from typing import Any, NamedTuple

from cordwood.cli.output import bytes_of
from cordwood.errors import InvalidInput

_NAMES = {"topic", "partition", "offset", "timestamp", "key", "value", "headers"}

LINE_BYTES_A_BYTE = 6
"""JSON may take so many bytes for one of a value: `\\u0000`."""


class JsonRecord(NamedTuple):
    """A record to append. The topic and the offset of its line are those that it had, and play no part."""

    value: bytes | None
    key: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp: int | None
    """None: the time of the append."""
    partition: int | None
    """None: the key decides."""


def parse_record(line: bytes, number: int) -> JsonRecord:
    """The record of a line; `InvalidInput` names the line by its number.

    >>> parse_record(b'{"value": "hello", "key": {"base64": "/w=="}}', 1)
    JsonRecord(value=b'hello', key=b'\\xff', headers=[], timestamp=None, partition=None)
    """
    try:
        return _record(json.loads(line))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"line {number} is no record as `cordwood log read --json` prints it: {error}") from None


def _record(entry: Any) -> JsonRecord:
    if not isinstance(entry, dict):
        raise ValueError("it is no JSON object")
    if unknown := sorted(set(entry) - _NAMES):
        raise ValueError(f"{unknown[0]!r} is no part of a record")
    if "value" not in entry:
        raise ValueError("it has no value; null is one")
    return JsonRecord(
        bytes_of(entry["value"]),
        bytes_of(entry.get("key")),
        [_header(header) for header in entry.get("headers", [])],
        _whole_number(entry, "timestamp"),
        _whole_number(entry, "partition"),
    )


def _header(header: Any) -> tuple[str, bytes | None]:
    if not (isinstance(header, list) and len(header) == 2 and isinstance(header[0], str)):
        raise ValueError(f"header {json.dumps(header)} is no pair of a name and a value")
    header[0].encode()  # half of a surrogate pair is no text
    return header[0], bytes_of(header[1])


def _whole_number(entry: dict[str, Any], name: str) -> int | None:
    number = entry.get(name)
    if number is None or type(number) is int:
        return number
    raise ValueError(f"{name} {json.dumps(number)} is no whole number")
