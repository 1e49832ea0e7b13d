"""The columns of the rows of a write: those of Spark's own Kafka sink, by name, and `timestamp`."""

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from cordwood.errors import InvalidInput

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

# The Spark types that a column may have, and its Arrow type here.
_TYPES: dict[str, tuple[tuple[DataType, ...], pa.DataType]] = {
    "key": ((BinaryType(), StringType()), pa.binary()),
    "value": ((BinaryType(), StringType()), pa.binary()),
    "headers": ((HEADERS,), pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    "topic": ((StringType(),), pa.string()),
    "partition": ((IntegerType(),), pa.int32()),
    "timestamp": ((TimestampType(),), pa.timestamp("us", tz="UTC")),
}

NAMES = tuple(_TYPES)


def checked_columns(schema: StructType, topic: str | None) -> tuple[str, ...]:
    """The columns that are written; others are ignored, as by Kafka's sink. `topic` is the option, if given."""
    by_name = {field.name: field.dataType for field in schema.fields}
    if "value" not in by_name:
        raise InvalidInput(f"the column 'value' is missing; there are {', '.join(map(repr, by_name)) or 'none'}")
    if topic is None and "topic" not in by_name:
        raise InvalidInput("no topic: give the option 'topic', or a column 'topic'")
    for name, (allowed, _) in _TYPES.items():
        if name in by_name and not any(_same(by_name[name], kind) for kind in allowed):
            kinds = " or ".join(kind.simpleString() for kind in allowed)
            raise InvalidInput(f"the column {name!r} is {by_name[name].simpleString()}; it must be {kinds}")
    return tuple(name for name in NAMES if name in by_name and not (name == "topic" and topic is not None))


def rows_of(batch: pa.RecordBatch, columns: tuple[str, ...]) -> pa.RecordBatch:
    """The columns that are written, with their Arrow types; text becomes UTF-8 without a copy."""
    schema = pa.schema([(name, _TYPES[name][1]) for name in columns])
    return pa.RecordBatch.from_arrays([_cast(batch.column(name), name) for name in columns], schema=schema)


def milliseconds(timestamps: pa.Array) -> pa.Array:
    """The timestamps as int64 ms UTC; raises `InvalidInput` for one before 1970."""
    # Checked before the cut to milliseconds, which rounds the last millisecond of 1969 up to 1970.
    earliest = pc.min(timestamps.cast(pa.int64())).as_py()
    if earliest is not None and earliest < 0:
        shown = Decimal(earliest) / 1000
        raise InvalidInput(f"the column 'timestamp' has {shown} ms: a record's time is 0 (1970) or later")
    return timestamps.cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())


def _same(found: DataType, wanted: DataType) -> bool:
    """Whether they are equal, apart from nullability and the collation of text."""
    if isinstance(wanted, ArrayType):
        return isinstance(found, ArrayType) and _same(found.elementType, wanted.elementType)
    if isinstance(wanted, StructType):
        return (
            isinstance(found, StructType)
            and found.names == wanted.names
            and all(_same(a.dataType, b.dataType) for a, b in zip(found.fields, wanted.fields, strict=True))
        )
    return type(found) is type(wanted)


def _cast(column: pa.Array, name: str) -> pa.Array:
    wanted = _TYPES[name][1]
    return column if column.type == wanted else column.cast(wanted)
