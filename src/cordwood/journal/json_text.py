"""JSON as journals write and read it: compact UTF-8, with all digits of a number."""

import json
import math
from decimal import Decimal
from typing import Any, NoReturn

import msgspec

from cordwood.errors import InvalidInput

_encode = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder().decode
_slice = msgspec.json.Decoder(msgspec.Raw).decode

_INT_DIGITS_MAX = 4300
"""Python refuses to make an int of more digits."""

_PLAIN = (str, int, type(None))
_SEVERAL = (list, tuple, set, frozenset)


def encode_json(value: object) -> bytes:
    """The JSON of a value: of dicts, lists, text, numbers, and of the types that msgspec turns into these.

    >>> encode_json({"n": 2**70, "name": "Zoë"}).decode()
    '{"n":1180591620717411303424,"name":"Zoë"}'
    """
    try:
        encoded = _encode(value)
        # msgspec writes a float NaN as null and a Decimal one as NaN. Most JSON has neither word, and needs no walk.
        if b"null" in encoded or b"NaN" in encoded or b"Infinity" in encoded:
            _check_numbers(value)
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{_short(error.object)} has a lone surrogate, which JSON cannot hold") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the value cannot be JSON: {error}") from error
    return encoded


def check_json(encoded: bytes) -> bytes:
    """The JSON without the blanks around it; `InvalidInput` if it is not JSON in UTF-8.

    >>> check_json(b' {"n": 1.50}')
    b'{"n": 1.50}'
    """
    try:
        return slice_json(encoded).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{_short(encoded)} is not JSON: {error}") from error


def slice_json(encoded: bytes) -> str:
    """The text of one JSON value, without the blanks around it, as it was written; ValueError if it is not JSON.

    >>> slice_json(b"12345678901234567890.1230")
    '12345678901234567890.1230'
    """
    return str(_slice(encoded), "utf-8")  # msgspec checks the syntax of a value that it slices, but not its UTF-8


def decode_json(encoded: str | bytes) -> Any:
    """The value of a JSON text; ValueError if it is not JSON. A number that no float can hold is a Decimal.

    >>> decode_json('{"n": 1.5, "big": 1e999}')
    {'n': 1.5, 'big': Decimal('1E+999')}
    """
    try:
        return _decode(encoded)
    except msgspec.ValidationError:
        return json.loads(encoded, parse_float=_float, parse_int=_int, parse_constant=_refuse)


def _float(digits: str) -> float | Decimal:
    number = float(digits)
    return number if math.isfinite(number) else Decimal(digits)


def _int(digits: str) -> int | Decimal:
    return int(digits) if len(digits) <= _INT_DIGITS_MAX else Decimal(digits)


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _check_numbers(value: object) -> None:
    todo = [value]
    for each in todo:
        if isinstance(each, _PLAIN):
            continue
        if isinstance(each, dict):
            todo.extend(each.values())
        elif isinstance(each, _SEVERAL):
            todo.extend(each)
        elif isinstance(each, float):
            _check_finite(each, math.isfinite(each))
        elif isinstance(each, Decimal):
            _check_finite(each, each.is_finite())
        else:
            todo.append(msgspec.to_builtins(each, builtin_types=(Decimal,)))


def _check_finite(number: float | Decimal, finite: bool) -> None:
    if not finite:
        raise ValueError(f"{number} is not a number of JSON")


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}…"
