"""The exact size of a record on Kafka, in a batch of its own (record batch format 2)."""

from collections.abc import Sequence
from operator import length_hint, sub

from cordwood.records import Batch, HeaderColumn

BATCH_HEADER_BYTES = 61
# Length, attributes, deltas of time and offset, lengths of key and value, number of headers: at most so many bytes.
_RECORD_BYTES_MAX = 5 + 1 + 10 + 5 + 5 + 5 + 5
_HEADER_BYTES_MAX = 5 + 5


def first_too_large(batch: Batch, limit: int) -> tuple[int, int] | None:
    """The index and the size of the first record that is over `limit` in a batch of its own; None if all fit.

    >>> first_too_large(Batch.of([b"small", bytes(1000)]), 1000)
    (1, 1070)
    """
    values, keys, headers, _ = batch.rows()
    largest = max(map(length_hint, values)) + (0 if keys is None else max(map(length_hint, keys)))
    if headers is not None:
        largest += _headers_bytes_max(headers)
    if largest + BATCH_HEADER_BYTES + _RECORD_BYTES_MAX <= limit:
        return None  # no Python code for each record, unless one is near the limit
    for index, record in enumerate(batch):
        if (size := record_bytes(record.value, record.key, record.headers)) > limit:
            return index, size
    return None


def record_bytes(value: bytes | None, key: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()) -> int:
    """The size of a batch of this record alone.

    >>> record_bytes(b"", None)
    68
    """
    body = 3 + _sized(key) + _sized(value) + _varint_bytes(len(headers))
    for name, content in headers:
        body += _sized(name.encode()) + _sized(content)
    return BATCH_HEADER_BYTES + _varint_bytes(body) + body


def _headers_bytes_max(headers: HeaderColumn) -> int:
    """An upper bound for one record: its largest number of headers, times the largest name and the largest value."""
    offsets, names, values = headers.compact()
    count: int = max(map(sub, offsets[1:], offsets))
    if not count:
        return 0
    return count * (max(map(length_hint, names)) + max(map(length_hint, values)) + _HEADER_BYTES_MAX)


def _sized(content: bytes | None) -> int:
    return 1 if content is None else _varint_bytes(len(content)) + len(content)


def _varint_bytes(number: int) -> int:
    """The size of a number that is not negative, in zigzag."""
    return max(1, ((number << 1).bit_length() + 6) // 7)
