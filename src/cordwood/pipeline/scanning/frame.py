"""`pipeline.events`: checks, and the frame."""

import os
from collections.abc import Collection, Iterator, Mapping
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cordwood.errors import Corrupt, InvalidInput
from cordwood.journal.action import ACTION_HEADER
from cordwood.journal.key import encode_id
from cordwood.log.partitioning import partition_of
from cordwood.log.topics import checked_topic_name
from cordwood.pipeline.blocking import run
from cordwood.pipeline.places import LogPlace, StorePlace
from cordwood.pipeline.source.ranges import Ranges, read_ranges
from cordwood.pipeline.source.registering import register

from .head import INPUT, VERDICT_SCHEMA, HeadFold
from .look import Planned, look
from .rows import STORED_SCHEMA, event_schema
from .source import Scan, StoreSource, part_count

MODES = ("FAILFAST", "PERMISSIVE")


def events(
    spark: SparkSession,
    log_url: str | os.PathLike[str],
    topic: str,
    store_url: str,
    keys: Collection[str] | None,
    mode: str,
    config: Mapping[str, str],
    store_config: Mapping[str, str],
) -> DataFrame:
    """The events of all journals, or of some, that count and are not deleted as of the end of the log now."""
    if mode not in MODES:
        raise InvalidInput(f"mode is {mode!r}: it is one of {', '.join(map(repr, MODES))}")
    if isinstance(keys, str):
        raise TypeError(f"keys are a list of ids, not str: write [{keys!r}]")
    ids = None if keys is None else sorted(set(keys))
    encoded = None if ids is None else [encode_id(id) for id in ids]
    log, store = LogPlace.of(log_url, config), StorePlace.of(store_url, store_config)
    planned = run(look(log, store, checked_topic_name(topic)))
    head = planned.head
    if encoded is not None:
        wanted = {partition_of(key, planned.partitions) for key in encoded}
        head = {partition: bounds for partition, bounds in head.items() if partition in wanted}
    permissive = mode == "PERMISSIVE"
    closed = sorted(planned.closed if ids is None else planned.closed.keys() & set(ids))
    if closed and not head and not permissive:
        raise Corrupt(planned.closed[closed[0]])
    register(spark, StoreSource)
    scan = Scan(planned, ids, part_count(spark))
    rows = spark.read.format(StoreSource.name()).options(**store.texts(), scan=scan.text()).load()
    if head:
        rows = _with_head(rows, _records(spark, log, planned, head, encoded), HeadFold(store, planned, permissive))
    if closed and not permissive:
        rows = rows.mapInArrow(_raise_closed, STORED_SCHEMA)
    return rows.select(*event_schema(permissive).names)


def _records(
    spark: SparkSession,
    log: LogPlace,
    planned: Planned,
    head: Mapping[int, tuple[int, int]],
    keys: Collection[bytes] | None,
) -> DataFrame:
    """The records of the head that have a key and an action."""
    ranges = Ranges(planned.topic, planned.topic_id, head, uncommitted=True)
    records = read_ranges(spark, log, ranges).select(*INPUT)
    if keys is not None:
        records = records.mapInArrow(partial(_only, pa.array(list(keys), pa.binary())), records.schema)
    asked = F.exists("headers", lambda header: header["key"] == ACTION_HEADER)
    return records.where(F.col("key").isNotNull() & asked)


def _by_key(records: DataFrame) -> DataFrame:
    """The records of a key together, in the order of the log."""
    return records.repartition("key").sortWithinPartitions("key", "offset")


def _with_head(stored: DataFrame, records: DataFrame, fold: HeadFold) -> DataFrame:
    """Rows that the store had, unless a later record deletes them, and the events of the later records."""
    # Only a permissive verdict looks at values: they need not pass a shuffle twice.
    value = F.col("value") if fold.permissive else F.when(F.col("value").isNotNull(), F.lit(b""))
    verdicts = _by_key(records.withColumn("value", value)).mapInArrow(fold.verdicts, VERDICT_SCHEMA)
    same_life = F.col("life").isNull() | F.col("verdict_life").isNull() | (F.col("life") == F.col("verdict_life"))
    lives = ~F.col("gone") & (F.col("seq_nr") > F.col("deleted_through")) & same_life
    kept = stored.join(verdicts, F.col("id") == F.col("verdict_id"), "left").where(F.col("verdict_id").isNull() | lives)
    return kept.select(*STORED_SCHEMA.names).unionByName(_by_key(records).mapInArrow(fold.events, STORED_SCHEMA))


def _only(keys: pa.Array, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.filter(pc.is_in(batch.column("key"), value_set=keys))


def _raise_closed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for error in pc.drop_null(batch.column("error")).to_pylist():
            raise Corrupt(error)
        yield batch
