"""The columns that a frame must have, and the place of a row."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from cordwood.errors import InvalidInput

SPARK_PLACE = StructType(
    [StructField("topic", StringType()), StructField("partition", IntegerType()), StructField("offset", LongType())]
)
ARROW_PLACE = pa.struct([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])


def chosen(df: DataFrame, columns: Sequence[str], what: str) -> DataFrame:
    """These columns of the frame; `InvalidInput` names one that is missing."""
    missing = [name for name in columns if name not in df.columns]
    if missing:
        remedy = ": read it with includeHeaders=true" if missing == ["headers"] else ""
        raise InvalidInput(
            f"{what} needs the columns of Spark's Kafka source, and the frame has no {', '.join(missing)}{remedy}"
        )
    return df.select(*columns)


def places(rows: pa.RecordBatch) -> pa.Array:
    """The place of each row: topic, partition, offset."""
    names = [field.name for field in ARROW_PLACE]
    return pa.StructArray.from_arrays([rows.column(name) for name in names], fields=list(ARROW_PLACE))
