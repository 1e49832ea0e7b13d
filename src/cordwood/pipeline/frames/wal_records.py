"""The records of regions as rows."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate, repeat
from operator import add
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, BinaryType, LongType, StringType, StructField, StructType

from cordwood.errors import Corrupt
from cordwood.wal.formats.by_name import format_of_codec
from cordwood.wal.formats.cordwood.data_record import (
    HEADER_BYTES,
    are_intact,
    decode_record,
    decode_writes,
    region_of_record,
)
from cordwood.wal.formats.entrywise.codec import EntryCodec
from cordwood.wal.formats.entrywise.log import ReadingFormat
from cordwood.wal.names import ID_MAX
from cordwood.wal.record import OwnerRecord

from .input import ARROW_PLACE, SPARK_PLACE, chosen, places
from .payloads import payload_column

INPUT = ("key", "value", "topic", "partition", "offset")

SPARK_SCHEMA = StructType(
    [
        StructField("owner", LongType()),
        StructField("table", LongType()),
        StructField("first", LongType()),
        StructField("count", LongType()),
        StructField("payloads", ArrayType(BinaryType())),
        StructField("place", SPARK_PLACE),
        StructField("error", StringType()),
    ]
)
_PAYLOADS = pa.list_(pa.field("element", pa.binary()))
_ARROW_SCHEMA = pa.schema(
    [
        ("owner", pa.int64()),
        ("table", pa.int64()),
        ("first", pa.int64()),
        ("count", pa.int64()),
        ("payloads", _PAYLOADS),
        ("place", ARROW_PLACE),
        ("error", pa.string()),
    ]
)

_Row: TypeAlias = tuple[int | None, int | None, int | None, int | None, list[bytes | None] | None]
"""The owner, the table, the first number, how many, and the payloads."""
_NOTHING: _Row = (None, None, None, None, None)
_Decode: TypeAlias = Callable[[bytes, bytes, str, int], _Row]
"""Of the key and the value of a record, and its place for the text of `Corrupt`."""


def wal_records(df: DataFrame, codec: str) -> DataFrame:
    """One row for each record of the data log of a region."""
    found = format_of_codec(codec)
    decode: Callable[[pa.RecordBatch], pa.RecordBatch] = _cordwood_rows
    if isinstance(found, ReadingFormat):
        decode = partial(_rows, decode=partial(_entry, found.codec))
    return chosen(df, INPUT, "wal_records").mapInArrow(partial(_decode_all, decode), SPARK_SCHEMA)


def _decode_all(
    decode: Callable[[pa.RecordBatch], pa.RecordBatch], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    return (decode(rows) for rows in batches if rows.num_rows)


def _cordwood_rows(rows: pa.RecordBatch) -> pa.RecordBatch:
    return _whole_writes(rows) or _rows(rows, _record)


def _whole_writes(rows: pa.RecordBatch) -> pa.RecordBatch | None:
    """The rows of a batch of sound writes, as most are: with no Python code for one of them."""
    values = rows.column("value")
    if values.null_count:
        return None
    _, offsets, data = values.buffers()
    if data is None:
        return None
    view = memoryview(data).cast("B")
    bounds = memoryview(offsets).cast("B").cast("i")[values.offset : values.offset + len(values) + 1].tolist()
    region = region_of_record(view[bounds[0] : bounds[1]])
    writes = None if region is None else decode_writes(view, bounds, region)
    if writes is None or not are_intact(view, bounds):
        return None
    columns = list(map(add, bounds[:-1], repeat(HEADER_BYTES)))
    try:
        payloads = payload_column(view, columns, writes.lengths)
    except pa.ArrowInvalid:
        return None
    list_offsets = pa.array(accumulate(writes.lengths, initial=0), pa.int32())
    numbers = [writes.owners, writes.tables, writes.firsts, writes.lengths]
    return pa.RecordBatch.from_arrays(
        [
            *(pa.array(column, pa.int64()) for column in numbers),
            pa.ListArray.from_arrays(list_offsets, payloads, type=_PAYLOADS),
            places(rows),
            pa.nulls(len(values), pa.string()),
        ],
        schema=_ARROW_SCHEMA,
    )


def _rows(rows: pa.RecordBatch, decode: _Decode) -> pa.RecordBatch:
    """The rows of a batch, decoded one by one."""
    found: list[_Row] = []
    errors: list[str | None] = []
    for key, value, topic, partition, offset in zip(*(rows.column(name).to_pylist() for name in INPUT), strict=True):
        try:
            found.append(decode(key or b"", value or b"", f"{topic}/{partition}", offset))
            errors.append(None)
        except Corrupt as error:
            found.append(_NOTHING)
            errors.append(str(error))
    columns = zip(*found, strict=True)
    kinds = [field.type for field in _ARROW_SCHEMA][: len(_NOTHING)]
    return pa.RecordBatch.from_arrays(
        [
            *(pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)),
            places(rows),
            pa.array(errors, pa.string()),
        ],
        schema=_ARROW_SCHEMA,
    )


def _record(key: bytes, value: bytes, log: str, offset: int) -> _Row:
    view = memoryview(value)
    # Any region: the frame does not say which one it has.
    record = decode_record(view, 0, len(value), region_of_record(view) or 0, log, offset, False)
    if isinstance(record, OwnerRecord):
        return (offset, *_NOTHING[1:])
    try:
        payloads = payload_column(record.column, [0], [record.length])
    except pa.ArrowInvalid as error:
        raise Corrupt(f"{log} at offset {offset}: the bounds of its payloads do not fit: restore a copy") from error
    return record.owner, record.table, record.first, record.length, payloads.to_pylist()


def _entry(codec: EntryCodec, key: bytes, value: bytes, log: str, offset: int) -> _Row:
    table, sequence, _ = codec.decode_key(key, codec.region_of_key(key), log, offset)
    if max(table, sequence) > ID_MAX:
        raise Corrupt(f"{log} at offset {offset}: entry {sequence} of table {table}: numbers end at {ID_MAX}")
    return None, table, sequence, 1, [bytes(codec.decode_payload(value, log, offset))]
