"""What the records of a frame add up to, by partition: equal digests mean equal records."""

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cordwood.journal.action import ACTION_HEADER

_LOW_BITS = 0xFFFF_FFFF


class Digest(NamedTuple):
    """A count, and a hash that the order of the records does not change."""

    records: int
    actions: int
    hash: str


NOTHING = Digest(0, 0, "0" * 32)


def digests(frame: DataFrame) -> dict[int, Digest]:
    """The digest of each partition that has records."""
    # A hash passes over nulls, so that they are columns of their own.
    columns = ["partition", "offset", "key", "value", "timestamp", "timestampType", "headers"]
    nulls = [F.col(name).isNull() for name in ("key", "value", "headers")]
    asked = F.coalesce(F.exists("headers", lambda header: header["key"] == ACTION_HEADER), F.lit(False))
    hashed = frame.select("partition", F.xxhash64(*columns, *nulls).alias("hash"), asked.alias("asked"))
    found = hashed.groupBy("partition").agg(
        F.count("*").alias("records"),
        F.count_if("asked").alias("actions"),
        F.bit_xor("hash").alias("every"),
        # Two equal records cancel out in the first half, and not in this one.
        F.sum(F.col("hash").bitwiseAND(_LOW_BITS)).alias("low"),
    )
    return {
        row.partition: Digest(row.records, row.actions, f"{row.every & (1 << 64) - 1:016x}{row.low:016x}")
        for row in found.collect()
    }


def differences(left: Mapping[int, Digest], right: Mapping[int, Digest]) -> list[int]:
    """The partitions that differ."""
    both = left.keys() | right.keys()
    return sorted(each for each in both if left.get(each, NOTHING) != right.get(each, NOTHING))
