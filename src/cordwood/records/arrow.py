"""Conversion to Arrow: a batch as a `pyarrow.RecordBatch`, over the same bytes."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from cordwood.errors import Unavailable
from cordwood.records.batch import Batch
from cordwood.records.column import BinaryColumn
from cordwood.records.headers import HeaderColumn
from cordwood.records.stored import StoredBatch

if TYPE_CHECKING:
    import pyarrow


def record_batch(batch: Batch) -> pyarrow.RecordBatch:
    """The batch as the columns key, value, headers and timestamp, and offset if it is stored.

    >>> from cordwood.records import Batch
    >>> record_batch(Batch.of([b"a"])).schema.names
    ['key', 'value', 'headers', 'timestamp']
    """
    return _arrow().record_batch(batch)


@cache
def _arrow() -> _Arrow:
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError as error:
        raise Unavailable("to_arrow() needs pyarrow: pip install 'cordwood[arrow]'", reason="missing-extra") from error
    return _Arrow(pyarrow)


class _Shared(NamedTuple):
    """Columns that are the same in every batch, to be sliced: they are made once, not for each batch."""

    numbers: Any
    no_keys: Any
    no_headers: Any


def _length(shared: _Shared) -> int:
    return len(shared.numbers)


class _Arrow:
    """pyarrow, with the objects that every batch needs: to make them costs more than the bytes of 256 small records."""

    def __init__(self, pa: Any) -> None:
        self.pa = pa
        self.binary = pa.binary()
        self.timestamp = pa.timestamp("ms", tz="UTC")
        self.int64 = pa.int64()
        self.header_fields = [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]
        self.headers = pa.list_(pa.struct(self.header_fields))
        self.no_pairs = pa.array([], pa.struct(self.header_fields))
        columns = [
            ("key", self.binary),
            ("value", self.binary),
            ("headers", self.headers),
            ("timestamp", self.timestamp),
        ]
        self.schema = pa.schema(columns)
        self.stored_schema = pa.schema([*columns, ("offset", self.int64)])
        self.add = pa.compute.get_function("add")
        self.shared = self._shared(8192)
        self.ahead = range(0), self.shared.numbers

    def _shared(self, count: int) -> _Shared:
        no_offsets = [None, self.pa.py_buffer(bytes(4 * (count + 1)))]
        return _Shared(
            self.pa.array(range(count), self.int64),
            self.pa.nulls(count, self.binary),
            self.pa.Array.from_buffers(self.headers, count, no_offsets, 0, 0, [self.no_pairs]),
        )

    def record_batch(self, batch: Batch) -> pyarrow.RecordBatch:
        count = len(batch)
        # Read once, since another thread may replace it at any moment.
        shared = self.shared
        if count > len(shared.numbers):
            shared = self._shared(2 * count)
            self.shared = max(shared, self.shared, key=_length)
        keys, headers, timestamps = batch._keys, batch._headers, batch.timestamps
        columns = [
            shared.no_keys.slice(0, count) if keys is None else self._binary(self.binary, batch.keys),
            self._binary(self.binary, batch.values),
            shared.no_headers.slice(0, count) if headers is None else self._headers(batch.headers),
            self.pa.nulls(count, self.timestamp) if timestamps is None else self._stamps(timestamps, count),
        ]
        if not isinstance(batch, StoredBatch):
            return self.pa.RecordBatch.from_arrays(columns, schema=self.schema)
        columns.append(self._offsets(batch.offsets, shared.numbers))
        return self.pa.RecordBatch.from_arrays(columns, schema=self.stored_schema)

    def _binary(self, kind: Any, column: BinaryColumn) -> Any:
        validity, offsets, data = column.buffers()
        nulls = column.null_count
        buffer = self.pa.py_buffer
        buffers = [buffer(validity) if nulls else None, buffer(offsets), buffer(data)]
        return self.pa.Array.from_buffers(kind, len(column), buffers, nulls, column.start)

    def _headers(self, headers: HeaderColumn) -> Any:
        """A list of structs for each record; empty if it has no headers, never null."""
        offsets, start = headers.buffers()
        children = [self._binary(self.pa.string(), headers.names), self._binary(self.binary, headers.values)]
        pairs = self.pa.StructArray.from_arrays(children, fields=self.header_fields)
        buffers = [None, self.pa.py_buffer(offsets)]
        return self.pa.Array.from_buffers(self.headers, len(headers), buffers, 0, start, [pairs])

    def _stamps(self, timestamps: memoryview, count: int) -> Any:
        return self.pa.Array.from_buffers(self.timestamp, count, [None, self.pa.py_buffer(timestamps)], 0)

    def _offsets(self, offsets: Any, from_0: Any) -> Any:
        if not isinstance(offsets, range) or offsets.step != 1:
            return self.pa.array(offsets, self.int64)
        # A reader continues where the last batch ended: the offsets of several batches are made at once.
        known, numbers = self.ahead
        first, count = offsets.start, len(offsets)
        if first not in known or first + count > known.stop:
            # Arrow adds a thousand numbers in the time in which Python makes a hundred.
            numbers = self.add.call([from_0, self.pa.scalar(first, self.int64)])
            known = range(first, first + len(numbers))
            self.ahead = known, numbers
        return numbers.slice(first - known.start, count)
