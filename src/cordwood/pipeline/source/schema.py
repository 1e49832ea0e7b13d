"""The columns of a log in Spark: those of Spark's own Kafka source, by name, type and order."""

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

CREATE_TIME = 0
"""Kafka's timestampType for the time that the writer set, or else the time of its append."""
LOG_APPEND_TIME = 1
"""Kafka's timestampType for the time at which the broker received the record."""

ARROW_HEADERS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))

_ARROW_COLUMNS = [
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", pa.timestamp("us", tz="UTC")),
    ("timestampType", pa.int32()),
]

_SPARK_COLUMNS = [
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
]

_SPARK_HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def spark_schema(include_headers: bool) -> StructType:
    """The columns as Spark's types."""
    headers = [StructField("headers", _SPARK_HEADERS)] if include_headers else []
    return StructType([*_SPARK_COLUMNS, *headers])


def arrow_schema(include_headers: bool) -> pa.Schema:
    """The same as Arrow's types: exactly these, since Spark compares them."""
    headers = [("headers", ARROW_HEADERS)] if include_headers else []
    return pa.schema([*_ARROW_COLUMNS, *headers])
