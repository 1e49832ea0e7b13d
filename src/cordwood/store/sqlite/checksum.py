"""The checksum of a row: CRC32C over the MessagePack of the values that this store reads, and of the row's key.

SQLite has no checksums. So each row has one, in its column `crc`: it covers the names under which the row is looked
for, and a row that is found under others is damage as well. A row of version 1 has none: only its types are checked.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from crc32c import crc32c

from .errors import Damage

encode: Final = msgspec.msgpack.Encoder().encode


def begin(table: str, *names: str | int) -> int:
    """The checksum of what all rows of a query share: the table, and the first columns of their key.

    >>> begin("pointer2", "orders") == begin("pointer2", "bills")
    False
    """
    return crc32c(encode((table, *names)))


def checksum(values: Sequence[Any], begun: int) -> int:
    """The checksum of a row, continued from what `begin` gave.

    >>> checksum((0, 7), begin("pointer2", "orders")) == checksum((0, 8), begin("pointer2", "orders"))
    False
    """
    return crc32c(encode(values), begun)


def checked(row: Sequence[Any], begun: int, types: Any, what: str) -> Sequence[Any]:
    """The values of a row whose last one is its checksum; `Damage` if they do not match.

    >>> begun = begin("pointer2", "orders")
    >>> checked((0, 7, checksum((0, 7), begun)), begun, tuple[int, int], "a pointer")
    (0, 7)
    """
    values = row[:-1]
    if crc32c(encode(values), begun) != row[-1]:
        check_unmatched(row, types, what)
    return values


def check_unmatched(row: Sequence[Any], types: Any, what: str) -> None:
    """`Damage` for a row whose checksum does not match, unless it is a sound one of version 1."""
    if row[-1] is not None:
        raise Damage(f"{what} does not match its checksum")
    try:
        msgspec.convert(row[:-1], types)
    except msgspec.ValidationError as error:
        raise Damage(f"{what} has no checksum, and a value of a wrong type: {error}") from error
