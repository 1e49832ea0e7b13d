"""One record, as a row: an iteration over a batch yields these."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

RecordHeaders: TypeAlias = "tuple[tuple[str, bytes | None], ...]"


class Record(NamedTuple):
    """Value, key, headers and timestamp (ms UTC; None: the log sets it when the record is appended).

    >>> Record(b"value", key=b"key")
    Record(value=b'value', key=b'key', headers=(), timestamp=None)
    """

    value: bytes | None
    key: bytes | None = None
    headers: RecordHeaders = ()
    timestamp: int | None = None


class StoredRecord(Record):
    """A record that was read from a log: a `Record` with its `offset`, and a timestamp that is always known.

    >>> record = StoredRecord(b"value", None, (), 1_700_000_000_000, 42)
    >>> record.offset, isinstance(record, Record)
    (42, True)
    """

    # A tuple of five whose first four are those of a Record. Rows are made by the million, so there is no dict and no
    # Python __init__ for each.
    __slots__ = ()
    __match_args__ = ("value", "key", "headers", "timestamp", "offset")
    _fields = __match_args__  # type: ignore[assignment]  # one more than a Record

    timestamp: int

    @property
    def offset(self) -> int:
        """The record's place in its log."""
        fields: tuple[Any, ...] = self
        return int(fields[4])

    def __new__(
        cls, value: bytes | None, key: bytes | None, headers: RecordHeaders, timestamp: int, offset: int
    ) -> StoredRecord:
        return tuple.__new__(cls, (value, key, headers, timestamp, offset))

    @classmethod
    def _make(cls, iterable: Iterable[Any]) -> StoredRecord:  # type: ignore[override]  # Record's is generic
        return cls(*iterable)

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def _replace(self, **changes: Any) -> StoredRecord:
        return type(self)(**{**self._asdict(), **changes})

    def __repr__(self) -> str:
        return f"StoredRecord({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"


def record_bytes(record: Record) -> int:
    """The bytes of a record's value, key and headers together.

    >>> record_bytes(Record(b"value", key=b"key", headers=(("name", b"1"),)))
    13
    """
    size = len(record.value or b"") + len(record.key or b"")
    for name, value in record.headers:
        size += len(name) + len(value or b"")
    return size
