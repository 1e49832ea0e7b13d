"""The way out to Arrow: a batch as a `pyarrow.RecordBatch`, over the same bytes."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from cordwood.records.batch import Batch
from cordwood.records.column import BinaryColumn
from cordwood.records.headers import HeaderColumn
from cordwood.records.stored import StoredBatch

if TYPE_CHECKING:
    import pyarrow


def record_batch(batch: Batch) -> pyarrow.RecordBatch:
    """The batch as the columns key, value, headers and timestamp, and offset where it is stored.

    >>> from cordwood.records import Batch
    >>> record_batch(Batch.of([b"a"])).schema.names
    ['key', 'value', 'headers', 'timestamp']
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ImportError("to_arrow() needs pyarrow: pip install 'cordwood[arrow]'") from error

    count = len(batch)
    columns = {
        "key": _binary(pa, pa.binary(), batch.keys),
        "value": _binary(pa, pa.binary(), batch.values),
        "headers": _headers(pa, batch.headers),
        "timestamp": _numbers(pa, pa.timestamp("ms", tz="UTC"), batch.timestamps, count),
    }
    if isinstance(batch, StoredBatch):
        columns["offset"] = _numbers(pa, pa.int64(), memoryview(array("q", batch.offsets)), count)
    return pa.RecordBatch.from_pydict(columns)


def _binary(pa: Any, kind: Any, column: BinaryColumn) -> Any:
    validity, offsets, data = column.buffers()
    nulls = column.null_count
    bitmap = pa.py_buffer(validity) if nulls else None
    buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(column), buffers, nulls, column.start)


def _headers(pa: Any, headers: HeaderColumn) -> Any:
    """A list of structs for each record; empty where it has no headers, never null."""
    fields = [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]
    offsets, start = headers.buffers()
    children = [_binary(pa, pa.string(), headers.names), _binary(pa, pa.binary(), headers.values)]
    pairs = pa.StructArray.from_arrays(children, fields=fields)
    kind = pa.list_(pa.struct(fields))
    return pa.Array.from_buffers(kind, len(headers), [None, pa.py_buffer(offsets)], 0, start, [pairs])


def _numbers(pa: Any, kind: Any, numbers: memoryview | None, count: int) -> Any:
    """A column of int64; of nulls where there are no numbers."""
    if numbers is None:
        return pa.nulls(count, kind)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(numbers)], 0)
