"""Whether two frames have the same records, those of each key in the same order."""

from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

_LOW_BITS = 0xFFFF_FFFF


class KeyedDigest(NamedTuple):
    """What the records of a topic add up to, with the place of each among those of its key."""

    records: int
    every: int
    low: int


def keyed_digest(frame: DataFrame) -> KeyedDigest:
    """The digest of a whole topic. Places are not in it: a copy has others."""
    content: list[Column | str] = ["key", "value", "timestamp", "headers"]
    nulls: list[Column | str] = [F.col(name).isNull() for name in ("key", "value", "headers")]
    hashed = frame.select("key", "partition", "offset", F.xxhash64(*content, *nulls).alias("hash"))
    keyed = hashed.where(F.col("key").isNotNull())
    number = F.row_number().over(Window.partitionBy("key").orderBy("partition", "offset"))
    ordered = keyed.select(F.xxhash64("hash", number).alias("hash"))
    both = ordered.unionByName(hashed.where(F.col("key").isNull()).select("hash"))
    row = both.agg(
        F.count("*").alias("records"),
        F.coalesce(F.bit_xor("hash"), F.lit(0)).alias("every"),
        F.coalesce(F.sum(F.col("hash").bitwiseAND(_LOW_BITS)), F.lit(0)).alias("low"),
    ).first()
    assert row is not None
    return KeyedDigest(row.records, row.every, row.low)
