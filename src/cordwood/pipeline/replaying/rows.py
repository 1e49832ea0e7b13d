"""Writes as Arrow batches: the entries of each, or whole writes for a shuffle. No Python code for a single entry."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress, repeat
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, StringType, StructField, StructType

from cordwood.errors import Corrupt
from cordwood.pipeline.frames.payloads import numbers, payload_column, repeated, sequences

_ROWS = 10_000
_BYTES = 4 * 1024 * 1024

_SPARK_ENTRY = [
    StructField("table", LongType()),
    StructField("sequence", LongType()),
    StructField("payload", BinaryType()),
    StructField("offset", LongType()),
]
_SPARK_WRITE = [
    StructField("bucket", IntegerType()),
    StructField("table", LongType()),
    StructField("first", LongType()),
    StructField("count", LongType()),
    StructField("column", BinaryType()),
    StructField("offset", LongType()),
]
_SPARK_ERROR = StructField("error", StringType())

_ARROW: dict[DataType, pa.DataType] = {
    LongType(): pa.int64(),
    IntegerType(): pa.int32(),
    BinaryType(): pa.binary(),
    StringType(): pa.string(),
}


def entry_schema(errors: bool) -> StructType:
    """The columns of a replay."""
    return StructType([*_SPARK_ENTRY, *([_SPARK_ERROR] if errors else [])])


def write_schema(errors: bool) -> StructType:
    """The columns of whole writes; `column` is the column of payloads as the record has it."""
    return StructType([*_SPARK_WRITE, *([_SPARK_ERROR] if errors else [])])


def arrow_schema(schema: StructType) -> pa.Schema:
    return pa.schema([(field.name, _ARROW[field.dataType]) for field in schema])


class TakenWrites(NamedTuple):
    """Writes that count, as columns, over one buffer."""

    data: memoryview
    starts: Sequence[int]
    """Where the column of payloads of each write begins and ends in `data`."""
    stops: Sequence[int]
    tables: Sequence[int]
    firsts: Sequence[int]
    counts: Sequence[int]
    offsets: Sequence[int]
    bare: bool
    """Whether a column is the only payload of its write, without bounds."""

    def only(self, asked: Iterable[bool]) -> "TakenWrites":
        """Those writes that are asked for."""
        keep = list(asked)
        columns = (self.starts, self.stops, self.tables, self.firsts, self.counts, self.offsets)
        starts, stops, tables, firsts, counts, offsets = (list(compress(column, keep)) for column in columns)
        return TakenWrites(self.data, starts, stops, tables, firsts, counts, offsets, self.bare)


class BadPlace(NamedTuple):
    """A record that cannot be decoded."""

    offset: int
    error: str


def entries(writes: TakenWrites, errors: bool) -> pa.RecordBatch:
    """One row for each entry, in the order of the writes."""
    if writes.bare:
        payloads = _columns(writes)
    else:
        try:
            payloads = payload_column(writes.data, writes.starts, writes.counts)
        except pa.ArrowInvalid as error:
            raise Corrupt(
                f"the bounds of the payloads of a write do not fit, at one of the offsets {min(writes.offsets)} to"
                f" {max(writes.offsets)}: restore a copy of the log"
            ) from error
    columns = [
        repeated(writes.tables, writes.counts),
        sequences(writes.firsts, writes.counts),
        payloads,
        repeated(writes.offsets, writes.counts),
    ]
    return _batch(columns, entry_schema(errors))


def whole_writes(writes: TakenWrites, bucket_starts: list[tuple[int, int]], errors: bool) -> pa.RecordBatch:
    """One row for each write, with its bucket."""
    buckets = map(bisect_right, repeat(bucket_starts), zip(writes.tables, writes.firsts, strict=True))
    columns = [
        pa.array(buckets, pa.int32()),
        pa.array(writes.tables, pa.int64()),
        pa.array(writes.firsts, pa.int64()),
        pa.array(writes.counts, pa.int64()),
        _columns(writes),
        pa.array(writes.offsets, pa.int64()),
    ]
    return _batch(columns, write_schema(errors))


def entries_of_rows(rows: pa.RecordBatch, bare: bool, errors: bool) -> Iterator[pa.RecordBatch]:
    """The entries of whole writes, after their shuffle."""
    there = rows.column("table").is_valid()
    if errors:
        bad = rows.filter(pc.invert(there))
        if bad.num_rows:
            yield _bad_rows(bad.column("offset"), bad.column("error"), entry_schema(errors))
        rows = rows.filter(there)
    if not rows.num_rows:
        return
    column = rows.column("column")
    _, bounds, data = column.buffers()
    places = memoryview(bounds).cast("B").cast("i")[column.offset : column.offset + len(column) + 1].tolist()
    tables, firsts, counts, offsets = (rows.column(name).to_pylist() for name in ("table", "first", "count", "offset"))
    view = memoryview(b"" if data is None else data).cast("B")
    yield entries(TakenWrites(view, places[:-1], places[1:], tables, firsts, counts, offsets, bare), errors)


def bad_rows(bad: Sequence[BadPlace], schema: StructType) -> pa.RecordBatch:
    """A row with an error for each of them."""
    offsets = pa.array([each.offset for each in bad], pa.int64())
    return _bad_rows(offsets, pa.array([each.error for each in bad], pa.string()), schema)


def merged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches, so that Spark gets no tiny ones."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if waiting and (rows + batch.num_rows > _ROWS or size + batch.nbytes > _BYTES):
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _columns(writes: TakenWrites) -> pa.Array:
    """The column of each write, as bytes. What lies between two of them is one more entry for Arrow, and left out."""
    count = len(writes.starts)
    bounds = pa.array(chain.from_iterable(zip(writes.starts, writes.stops, strict=True)), pa.int32())
    with_gaps = pa.Array.from_buffers(
        pa.binary(), 2 * count - 1, [None, bounds.buffers()[1], pa.py_buffer(writes.data)]
    )
    return with_gaps.take(pc.multiply(numbers(count), 2))


def _bad_rows(offsets: pa.Array, errors: pa.Array, schema: StructType) -> pa.RecordBatch:
    given = {"offset": offsets, "error": errors, "bucket": pa.repeat(pa.scalar(0, pa.int32()), len(offsets))}
    fields = arrow_schema(schema)
    columns = [given.get(field.name, pa.nulls(len(offsets), field.type)) for field in fields]
    return pa.RecordBatch.from_arrays(columns, schema=fields)


def _batch(columns: list[pa.Array], schema: StructType) -> pa.RecordBatch:
    if schema[-1] == _SPARK_ERROR:
        columns.append(pa.nulls(len(columns[0]), pa.string()))
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema))
