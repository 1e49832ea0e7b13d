"""Rows in Arrow's columns as a `Batch`: over the same bytes, no Python code for each record."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from cordwood.errors import InvalidInput
from cordwood.records import Batch, BinaryColumn, HeaderColumn

from .columns import milliseconds


def batch_of(rows: pa.RecordBatch, now_ms: int) -> Batch:
    """The records of these rows; a row whose `timestamp` is null gets `now_ms`."""
    given = dict(zip(rows.schema.names, rows.columns, strict=True))
    timestamps = None
    if "timestamp" in given:
        timestamps = _int64(pc.fill_null(milliseconds(given["timestamp"]), now_ms))
    return Batch.of(
        _binary(given["value"]),
        keys=_binary(given["key"]) if "key" in given else None,
        headers=_headers(given["headers"]) if "headers" in given else None,
        timestamps=timestamps,
    )


def joined(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of all parts, one part after the other; they must fit into Arrow's columns of 2 GiB."""
    if len(parts) == 1:
        return parts[0]
    (rows,) = pa.Table.from_batches(parts).combine_chunks().to_batches()
    return rows


def _binary(column: pa.Array) -> BinaryColumn:
    validity, offsets, data = column.buffers()
    return BinaryColumn(
        memoryview(offsets).cast("B").cast("i"),
        memoryview(b"" if data is None else data).cast("B"),
        memoryview(validity).cast("B") if validity is not None and column.null_count else None,
        column.offset,
        len(column),
    )


def _headers(column: pa.Array) -> HeaderColumn | None:
    """A null list means no headers; a header needs a name."""
    pairs = column.flatten()
    if not len(pairs):
        return None
    names, values = pairs.flatten()
    if names.null_count:
        raise InvalidInput("the column 'headers' has a header without a key: a header's name is never null")
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    return HeaderColumn(
        memoryview(offsets.buffers()[1]).cast("B").cast("i")[: len(offsets)],
        _binary(names.cast(pa.binary())),
        _binary(values),
    )


def _int64(column: pa.Array) -> memoryview:
    whole = memoryview(column.buffers()[1]).cast("B").cast("q")
    return whole[column.offset : column.offset + len(column)]
