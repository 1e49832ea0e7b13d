"""`pipeline.replay`: checks, and the frame."""

import os
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from weakref import WeakSet

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from cordwood.errors import InvalidInput
from cordwood.pipeline.options import KAFKA_PREFIX
from cordwood.url import FileUrl, parse_url
from cordwood.wal.formats.by_name import format_of_codec
from cordwood.wal.layout import checked_layout
from cordwood.wal.names import checked_id, checked_wal_name

from .options import MODES, ReplayOptions, Wanted
from .ranges import bucket_count
from .region import look
from .rows import entries_of_rows, entry_schema
from .source import RegionSource

_registered: WeakSet[SparkSession] = WeakSet()


def replay(
    spark: SparkSession,
    url: str | os.PathLike[str],
    namespace: str,
    region: int,
    tables: Collection[int] | None,
    ordered: bool,
    mode: str,
    codec: str,
    layout: str,
    config: Mapping[str, str],
) -> DataFrame:
    """The entries of a region that count and are not deleted."""
    checked_layout(layout)
    table_max = format_of_codec(codec).table_max
    if mode not in MODES:
        raise InvalidInput(f"mode is {mode!r}: it is one of {', '.join(map(repr, MODES))}")
    asked = None if tables is None else frozenset(checked_id("table", table, table_max) for table in tables)
    wanted = Wanted(
        checked_wal_name(namespace), checked_id("region", region), codec, layout, mode == "PERMISSIVE", asked, 0
    )
    parsed = parse_url(url, config)
    # The region is read here as well, so that a wrong one is told before a job starts.
    found = look(ReplayOptions(parsed, wanted))
    if ordered:
        wanted = msgspec.structs.replace(wanted, buckets=bucket_count(found.data.state))
    # The url as given: the text of a parsed url has no secrets, which the workers need.
    given = str(parsed) if isinstance(parsed, FileUrl) else os.fspath(url)
    secrets = {KAFKA_PREFIX + name: value for name, value in config.items()}
    if spark not in _registered:  # Spark warns of a second time
        spark.dataSource.register(RegionSource)
        _registered.add(spark)
    rows = spark.read.format(RegionSource.name()).options(url=given, replay=wanted.text(), **secrets).load()
    if not ordered:
        return rows
    shuffled = rows.repartitionById(wanted.buckets, "bucket").sortWithinPartitions("table", "first", "offset")
    explode = partial(_explode, found.data.decoder.bare, wanted.permissive)
    return shuffled.mapInArrow(explode, entry_schema(wanted.permissive))


def _explode(bare: bool, errors: bool, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for rows in batches:
        yield from entries_of_rows(rows, bare, errors)
