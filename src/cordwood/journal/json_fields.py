"""The fields of a JSON object one by one, for records that the fast decoders refuse.

The fast decoders take what every writer writes. A record that they refuse is decoded here once more. Either it is
sound in an uncommon way, such as a number 1.0, or the reason comes out in plain words.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import TypeAlias

import msgspec

from .bad_record import UNDECODABLE, BadRecord, reason_of

Fields: TypeAlias = Mapping[str, msgspec.Raw]

SEQ_NR_MAX = 2**63 - 1

_raw = msgspec.json.Decoder(msgspec.Raw).decode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_exact = msgspec.json.Decoder(float_hook=Decimal).decode


def split_object(encoded: bytes | msgspec.Raw, what: str) -> Fields | None:
    """The fields of an object; None if it is other JSON.

    >>> sorted(split_object(b'{"to": 3, "origin": null}', "the header") or ())
    ['origin', 'to']
    """
    try:
        return _fields(encoded) if bytes(_raw(encoded)).startswith(b"{") else None
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"{what} is not JSON: {error}") from error


def split_array(encoded: msgspec.Raw | None, what: str) -> list[msgspec.Raw]:
    """The items of an array."""
    if encoded is None or not bytes(encoded).startswith(b"["):
        raise BadRecord(f"{what} is not an array")
    return _items(encoded)


def read_field(fields: Fields, name: str, what: str) -> object:
    """A field as an object, a number with all its digits; None if it is missing or null."""
    raw = fields.get(name)
    if raw is None:
        return None
    try:
        return _exact(raw)
    except UNDECODABLE as error:
        raise BadRecord(f"{what} cannot be read: {reason_of(error)}") from error


def read_text(fields: Fields, name: str, what: str) -> str | None:
    """A field that is text; None if it is missing or null."""
    value = read_field(fields, name, what)
    if value is None or isinstance(value, str):
        return value
    raise BadRecord(f"{what} is {_short(value)}, not text")


def read_number(fields: Fields, name: str, what: str, at_least: int) -> int | None:
    """A field that is a whole number up to 2⁶³ - 1, however it is written; None if it is missing or null.

    >>> read_number(_fields(b'{"to": 2.0}'), "to", "the number", 1)
    2
    """
    value = read_field(fields, name, what)
    if value is None:
        return None
    if not isinstance(value, int | Decimal) or isinstance(value, bool):
        raise BadRecord(f"{what} is {_short(value)}, not a number")
    if not at_least <= value <= SEQ_NR_MAX:
        raise BadRecord(f"{what} is {_short(value)}, not in {at_least}..{SEQ_NR_MAX}")
    if value != int(value):
        raise BadRecord(f"{what} is {_short(value)}, not a whole number")
    return int(value)


def is_null(raw: msgspec.Raw | None) -> bool:
    """Whether a field is missing, or null."""
    return raw is None or len(raw) == 0 or (len(raw) == 4 and bytes(raw) == b"null")


def _short(value: object) -> str:
    shown = str(value) if isinstance(value, Decimal) else repr(value)
    return shown if len(shown) <= 40 else f"{shown[:37]}…"
