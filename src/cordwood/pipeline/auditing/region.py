"""`pipeline.audit_region`: a region's entries against the state that its records give."""

import os
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cordwood.pipeline.frames.wal_records import wal_records
from cordwood.pipeline.places import LogPlace
from cordwood.pipeline.replaying.frame import replay
from cordwood.pipeline.replaying.options import ReplayOptions, Wanted
from cordwood.pipeline.replaying.region import look
from cordwood.pipeline.source.logs import open_logs
from cordwood.pipeline.source.ranges import Ranges, read_ranges
from cordwood.wal.formats.interface import OpenRegion

from .findings import SCHEMA, Finding

_REFUSED_MAX = 1000


def audit_region(
    spark: SparkSession,
    url: str | os.PathLike[str],
    namespace: str,
    region: int,
    codec: str,
    layout: str,
    config: Mapping[str, str],
) -> DataFrame:
    """The findings about a region as of its end now."""
    entries = replay(spark, url, namespace, region, None, False, "PERMISSIVE", codec, layout, config)
    log = LogPlace.of(url, config)
    found = look(ReplayOptions(log.parsed, Wanted(namespace, region, codec, layout, True, None, 0)))
    name, partition = found.data.log.topic, found.data.log.partition
    stop = found.data.state.next_offset
    # The frame may end later than this look.
    seen = entries.where(F.col("offset") < stop).cache()
    try:
        findings = [
            *_bad(seen, partition),
            *_sequences(seen, found, partition),
            *_mapping(spark, seen, found, partition),
            *_refused(spark, log, seen, found, codec),
            *_oldest(found, partition),
        ]
    finally:
        seen.unpersist()
    return spark.createDataFrame([each.row(name) for each in findings], SCHEMA)


def _bad(seen: DataFrame, partition: int) -> list[Finding]:
    rows = seen.where("error IS NOT NULL").select("offset").orderBy("offset").collect()
    return [Finding("record that cannot be decoded", partition, row.offset) for row in rows]


def _sequences(seen: DataFrame, found: OpenRegion, partition: int) -> list[Finding]:
    """Each live number of a table once, and its offsets in the same order."""
    entries = (
        seen.where("error IS NULL")
        .groupBy("table")
        .agg(
            F.count("*").alias("entries"),
            F.countDistinct("sequence").alias("distinct"),
            F.min("offset").alias("offset"),
        )
    )
    rows = {row.table: row for row in entries.collect()}
    findings = []
    for table, meta in found.data.state.all_tables():
        first, stop = meta.deleted_through + 1, meta.next_sequence
        row = rows.pop(table, None)
        distinct = 0 if row is None else row.distinct
        if distinct < stop - first:
            findings.append(
                Finding(
                    "missing entry", partition, None, str(table), f"{stop - first - distinct} of {first}-{stop - 1}"
                )
            )
        if row is not None and row.entries > row.distinct:
            findings.append(
                Finding("repeated entry", partition, row.offset, str(table), f"{row.entries - row.distinct} more")
            )
    for table, row in rows.items():
        findings.append(Finding("repeated entry", partition, row.offset, str(table), f"{row.entries} deleted ones"))
    return findings


def _mapping(spark: SparkSession, seen: DataFrame, found: OpenRegion, partition: int) -> list[Finding]:
    """Every pair of the mapping names the write that has its number."""
    pairs = [
        (table, sequence, offset)
        for table, meta in found.data.state.all_tables()
        for sequence, offset in meta.mapping
        if sequence > meta.deleted_through
    ]
    if not pairs:
        return []
    known = spark.createDataFrame(pairs, "table long, sequence long, named long")
    joined = known.join(seen.where("error IS NULL"), ["table", "sequence"], "left")
    wrong = joined.where("offset IS NULL OR offset <> named").select("table", "sequence", "named").collect()
    return [Finding("wrong mapping", partition, row.named, str(row.table), str(row.sequence)) for row in wrong]


def _refused(spark: SparkSession, log: LogPlace, seen: DataFrame, found: OpenRegion, codec: str) -> list[Finding]:
    """Writes that do not count: those of owners that were fenced, and repeated ones."""
    state, data = found.data.state, found.data.log
    start = state.oldest_live
    if start is None or found.data.decoder.bare:
        return []
    with open_logs(log.parsed) as logs:
        (topic,) = logs.topics(frozenset([data.topic]).__contains__)
    ranges = Ranges(data.topic, topic.id, {data.partition: (start, state.next_offset)})
    writes = wal_records(read_ranges(spark, log, ranges), codec).where("table IS NOT NULL")
    deleted = spark.createDataFrame(list(state.deleted.items()) or [(-1, 0)], "table long, deleted long")
    live = writes.join(deleted, "table", "left").where("first + count - 1 > coalesce(deleted, 0)")
    refused = live.select("table", F.col("place.offset").alias("offset"), "first", "count").join(
        seen.where("error IS NULL").select("offset").distinct(), "offset", "left_anti"
    )
    rows = refused.orderBy("offset").limit(_REFUSED_MAX).collect()
    return [
        Finding(
            "refused record", data.partition, row.offset, str(row.table), f"{row.first}-{row.first + row['count'] - 1}"
        )
        for row in rows
    ]


def _oldest(found: OpenRegion, partition: int) -> list[Finding]:
    """The tables without whose entries the log could be trimmed further."""
    state = found.data.state
    start = state.oldest_live
    if start is None:
        return []
    oldest = {
        table: offset
        for table, meta in state.all_tables()
        if meta.next_sequence > meta.deleted_through + 1 and (offset := meta.mapping[0][1]) == start
    }
    behind = state.bytes_from(start)
    return [
        Finding("holds the region back", partition, offset, str(table), f"{behind} bytes")
        for table, offset in oldest.items()
    ]
