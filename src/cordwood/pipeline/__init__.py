"""Logs on Spark: `spark.read.format("cordwood")`, and shortcuts for it. Needs the extra `[spark]`, and Java 17.

Above `client`. An import loads neither pyspark nor pyarrow: a call does. A package behind a function has another name
than the function (`replaying` behind `replay`), because its import would take the function's place here.
"""

import json
import os
from collections.abc import Collection, Mapping, Sequence
from datetime import date, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from cordwood.log.engines import engine_of
from cordwood.url import FileUrl, parse_url

from .session import require_pyspark
from .session import session as session

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from cordwood.errors import CordwoodError

    from .archiving.run import ArchiveReport
    from .copying.run import CopyReport
    from .progressing.metrics import ReplicatorMetrics
    from .purging import PurgeCounts
    from .replicating.jobs import CatchUpReport
    from .replicating.lagging import Lag

Option: TypeAlias = str | int | bool | Mapping[str, Mapping[str, int]]

_NO_CONFIG: Mapping[str, str] = MappingProxyType({})

__all__ = [
    "actions",
    "archive",
    "audit",
    "audit_region",
    "catch_up",
    "copy",
    "dead_letters",
    "events",
    "failure_of",
    "lag",
    "metrics",
    "progress",
    "purge_expired",
    "read",
    "read_stream",
    "register",
    "replay",
    "replicate",
    "session",
    "wal_records",
]


def read(
    spark: "SparkSession",
    url: str | os.PathLike[str],
    topic: str | Sequence[str],
    *,
    archive: str | os.PathLike[str] | None = None,
    **options: Option,
) -> "DataFrame":
    """The records of one or more topics as a DataFrame; a relative path is made absolute here.

    The columns and options are those of Spark's own Kafka source; `startingOffsets` and `endingOffsets` may be given
    as a mapping instead of its JSON. The frame is a snapshot: Spark keeps the plan of its first action, so every action
    sees the same end. Call `read` again to see later records.

    With the `archive` of a topic, the frame has its records too, each offset once. Then the only options are
    `includeHeaders`, `kafka.*`, and `failOnDataLoss`: a range that is in neither raises `Trimmed`, or is left out.

    ```python
    spark = pipeline.session()
    pipeline.read(spark, "file:./data", "events", includeHeaders=True).groupBy("key").count().show()
    ```
    """
    require_pyspark()
    if archive is not None:
        from .archiving.reading import read

        return read(spark, url, topic, archive, options)
    return spark.read.format("cordwood").options(**_texts(url, topic, options)).load()


def read_stream(
    spark: "SparkSession",
    url: str | os.PathLike[str],
    topic: str | Sequence[str],
    **options: Option,
) -> "DataFrame":
    """The records of one or more topics as a streaming DataFrame, as `read` is for batches.

    It begins with records that are appended once the query runs, unless `startingOffsets` or `startingTimestamp` says
    otherwise.

    ```python
    events = pipeline.read_stream(spark, "file:./data", "events", startingOffsets="earliest")
    query = events.writeStream.format("parquet").option("path", "out").option("checkpointLocation", "place").start()
    ```
    """
    require_pyspark()
    return spark.readStream.format("cordwood").options(**_texts(url, topic, options)).load()


def register(spark: "SparkSession") -> None:
    """Register `format("cordwood")` with a session whose Python does not have this package installed.

    Spark finds the format of an installed package by itself; a shipped one (`--py-files`) needs one call of this.

    ```python
    pipeline.register(spark)
    spark.read.format("cordwood").option("url", "file:/srv/data").option("topic", "events").load()
    ```
    """
    require_pyspark()
    from .datasource import CordwoodSource

    spark.dataSource.register(CordwoodSource)


def actions(df: "DataFrame") -> "DataFrame":
    """The records of journal topics as rows: id, action, from, to, expected, events, metadata, expire_after, place.

    `df` is any frame with the columns of Spark's Kafka source and `headers`, batch or stream. Each record is one row. A
    record that cannot be decoded has an `error`; one that is none of a journal's has no `action`. The rows say what was
    asked, not what counts. The frame is a snapshot of its first action, as `df` is.

    ```python
    records = pipeline.read(spark, "file:./data", "orders", includeHeaders=True)
    pipeline.actions(records).groupBy("action").count().show()
    ```
    """
    require_pyspark()
    from .frames.actions import actions

    return actions(df)


def catch_up(
    spark: "SparkSession",
    url: str | os.PathLike[str],
    topics: str | Sequence[str],
    store: str,
    *,
    config: Mapping[str, str] = _NO_CONFIG,
    store_config: Mapping[str, str] = _NO_CONFIG,
    accept_loss: bool = False,
    adopt: bool = False,
    max_dead_letters: int = 1000,
    store_timeout: float = 120,
) -> "CatchUpReport":
    """Replicate journal topics to their ends as of now, and return how much that was.

    `topics` is a list, or a pattern (str) for whole names. The store's pointers decide where it begins, so a second
    call does nothing. `accept_loss` gives up records that the log lost before they were replicated: the dead letters
    name them. `adopt` takes the topics over from the Scala library's replicator, which must be stopped.

    ```python
    report = pipeline.catch_up(spark, "file:./data", ["orders"], "sqlite:./data/store.db")
    print(report.records, report.events, report.dead, report.seconds)
    ```
    """
    require_pyspark()
    from .replicating.jobs import catch_up

    return catch_up(
        spark, url, topics, store, config, store_config, accept_loss, adopt, max_dead_letters, store_timeout
    )


def dead_letters(
    spark: "SparkSession", store: str, topic: str, *, store_config: Mapping[str, str] = _NO_CONFIG
) -> "DataFrame":
    """The records of a journal topic that could not be decoded (R43): partition, offset, id, reason, value, and more.

    ```python
    pipeline.dead_letters(spark, "sqlite:./data/store.db", "orders").show()
    ```
    """
    require_pyspark()
    from .replicating.letters import dead_letters

    return dead_letters(spark, store, topic, dict(store_config))


def failure_of(query: "StreamingQuery") -> "CordwoodError | None":
    """The error that ended a query of `replicate`, as its own class; None if it runs, was stopped, or Spark failed.

    ```python
    query = pipeline.replicate(spark, "file:./data", ["orders"], "sqlite:./data/store.db")
    if isinstance(pipeline.failure_of(query), cordwood.Conflict):
        print("the topic was deleted and created again")
    query.stop()
    ```
    """
    require_pyspark()
    from .replicating.failures import failure_of

    return failure_of(query)


def lag(
    url: str | os.PathLike[str],
    topics: str | Sequence[str],
    store: str,
    *,
    config: Mapping[str, str] = _NO_CONFIG,
    store_config: Mapping[str, str] = _NO_CONFIG,
) -> "list[Lag]":
    """How far a store is behind the topics: topic, partition, replicated, end, records, seconds. It needs no Spark.

    ```python
    for row in pipeline.lag("file:./data", ["orders"], "sqlite:./data/store.db"):
        print(row.topic, row.partition, row.records, row.seconds)
    ```
    """
    from .blocking import run
    from .replicating.job import places_of, topics_of
    from .replicating.lagging import lag

    return run(lag(places_of(url, store, config, store_config), *topics_of(topics)))


def metrics(spark: "SparkSession") -> "ReplicatorMetrics":
    """Keep numbers about the replicating queries of a session: records, lag, micro-batches, failures.

    It adds a listener to the session, for queries that start from now on. `values()` has the numbers by name, `text()`
    has them for Prometheus.

    ```python
    numbers = pipeline.metrics(spark)
    print(numbers.values()["replicator_batches_total"])
    ```
    """
    require_pyspark()
    from .progressing.metrics import ReplicatorMetrics

    found = ReplicatorMetrics()
    spark.streams.addListener(found)
    return found


def progress(spark: "SparkSession", title: str | None = None) -> "AbstractContextManager[object]":
    """Show the progress of the jobs and replicating queries that run inside of the block, on stderr.

    On a terminal one line shows tasks, rows/s, bytes/s where the source tells them, lag, and the time that is left.
    Elsewhere there is a line every 10 s. On Spark Connect it shows the time alone, since a client sees no jobs.

    ```python
    with pipeline.progress(spark, "replay"):
        entries.write.parquet("lake/metrics")
    ```
    """
    require_pyspark()
    from .progressing.display import Display
    from .progressing.status import SparkStatus

    return Display(title or "Spark", SparkStatus(spark).look)


def archive(
    spark: "SparkSession",
    log_url: str | os.PathLike[str],
    topic: str,
    path: str | os.PathLike[str],
    *,
    store: str | None = None,
    trim: bool = False,
    keep: timedelta = timedelta(days=1),
    config: Mapping[str, str] = _NO_CONFIG,
    store_config: Mapping[str, str] = _NO_CONFIG,
) -> "ArchiveReport":
    """Add the records of a topic that an archive lacks: Parquet files by topic and partition, in the order of offsets.

    A run counts by its manifest, which is written after both sides were read again. A run that breaks off leaves
    nothing that counts, and the next one continues after the last manifest. `trim=True` then trims the log: only what
    the archive has, what is older than `keep`, and what the `store` of a topic with journals has.

    ```python
    report = pipeline.archive(spark, "file:./data", "orders", "archive/orders")
    print(report.records, report.ranges, report.trimmed)
    ```
    """
    require_pyspark()
    from .archiving.run import archive

    return archive(spark, log_url, topic, path, store, trim, keep, config, store_config)


def audit(
    spark: "SparkSession",
    log_url: str | os.PathLike[str],
    topic: str,
    store_url: str,
    *,
    archive: str | os.PathLike[str] | None = None,
    fix: bool = False,
    config: Mapping[str, str] = _NO_CONFIG,
    store_config: Mapping[str, str] = _NO_CONFIG,
) -> "DataFrame":
    """Compare a store with its log: one row per finding, and none if it is sound. Every finding was checked twice.

    It folds the log, and the `archive` where the log was trimmed, once more. What they cannot answer is `unknown`.
    `fix=True` rewrites the keys whose whole history is there; the result is what was found before.

    ```python
    pipeline.audit(spark, "file:./data", "orders", "sqlite:./data/store.db").show()
    ```
    """
    require_pyspark()
    from .auditing.run import audit

    return audit(spark, log_url, topic, store_url, archive, fix, config, store_config)


def audit_region(
    spark: "SparkSession",
    url: str | os.PathLike[str],
    namespace: str,
    *,
    region: int,
    codec: str = "cordwood",
    layout: str = "two-topics",
    config: Mapping[str, str] = _NO_CONFIG,
) -> "DataFrame":
    """Check the sequences, the mapping and the records of a region: one row per finding.

    Findings of severity `info` are no faults: records that were refused, and the table that holds the region back.

    ```python
    pipeline.audit_region(spark, "file:./data", "metrics", region=7).show()
    ```
    """
    require_pyspark()
    from .auditing.region import audit_region

    return audit_region(spark, url, namespace, region, codec, layout, config)


def copy(
    spark: "SparkSession",
    from_url: str | os.PathLike[str],
    topic: str,
    to_url: str | os.PathLike[str],
    to_topic: str,
    *,
    partitions: int | None = None,
    archive: str | os.PathLike[str] | None = None,
    config: Mapping[str, str] = _NO_CONFIG,
    to_config: Mapping[str, str] = _NO_CONFIG,
) -> "CopyReport":
    """Copy a topic into a new one, on any engine and with any number of partitions, as of its end at this call.

    The records of a key keep their order, and a journal keeps its lives. Both sides are read again and compared. A
    copy that broke off continues in a folder, and starts again on Kafka. A topic with journals needs its whole history,
    from the log or from an `archive`.

    ```python
    pipeline.copy(spark, "file:./data", "orders", "kafka://localhost:9092", "orders", partitions=16)
    ```
    """
    require_pyspark()
    from .copying.run import copy

    return copy(spark, from_url, topic, to_url, to_topic, partitions, archive, config, to_config)


def events(
    spark: "SparkSession",
    log_url: str | os.PathLike[str],
    topic: str,
    store_url: str,
    *,
    keys: Collection[str] | None = None,
    mode: str = "FAILFAST",
    config: Mapping[str, str] = _NO_CONFIG,
    store_config: Mapping[str, str] = _NO_CONFIG,
) -> "DataFrame":
    """The events of all journals, or of these keys: what `journal.read` returns, as of the end of the log at this call.

    It reads the store, and the records of the log that the store does not have yet. Events that are replicated
    meanwhile come once; events that are deleted meanwhile may be missing. A closed key raises `Corrupt`;
    `mode="PERMISSIVE"` gives it one row with an `error`. The frame is a snapshot.

    ```python
    events = pipeline.events(spark, "file:./data", "orders", "sqlite:./data/store.db")
    events.groupBy("kind").count().show()
    ```
    """
    require_pyspark()
    from .scanning.frame import events

    return events(spark, log_url, topic, store_url, keys, mode, config, store_config)


def purge_expired(
    spark: "SparkSession",
    log_url: str | os.PathLike[str],
    topic: str,
    store_url: str,
    *,
    on: date | None = None,
    full: bool = False,
    config: Mapping[str, str] = _NO_CONFIG,
    store_config: Mapping[str, str] = _NO_CONFIG,
) -> "PurgeCounts":
    """Purge the journals whose expiry has come, through `on`: by default through yesterday, UTC (R22).

    It uses the store's index of expiry days, and also finds the days that no earlier run completed; `full=True` scans
    all head rows. A journal that got events meanwhile is refused. On Kafka Spark's tasks purge; a folder has one
    writer, which is this process.

    ```python
    counts = pipeline.purge_expired(spark, "file:./data", "orders", "sqlite:./data/store.db")
    print(counts.purged, counts.refused, counts.failed)
    ```
    """
    require_pyspark()
    from .purging import purge_expired

    return purge_expired(spark, log_url, topic, store_url, on, full, config, store_config)


def replay(
    spark: "SparkSession",
    url: str | os.PathLike[str],
    namespace: str,
    *,
    region: int,
    tables: Collection[int] | None = None,
    ordered: bool = True,
    mode: str = "FAILFAST",
    codec: str = "cordwood",
    layout: str = "two-topics",
    config: Mapping[str, str] = _NO_CONFIG,
) -> "DataFrame":
    """The entries of a region, all or of these tables: table, sequence, payload, offset. As `region.recover` has them.

    They are the entries that count and are not deleted. `ordered=True` sorts by table and sequence, and costs a shuffle
    of whole writes. `mode="FAILFAST"` raises `Corrupt` for a record that cannot be decoded; `"PERMISSIVE"` gives it a
    row with an `error`. Reading fences nobody. The frame is a snapshot of its first action.

    ```python
    entries = pipeline.replay(spark, "file:./data", "metrics", region=7)
    entries.write.mode("overwrite").partitionBy("table").parquet("lake/metrics")
    ```
    """
    require_pyspark()
    from .replaying.frame import replay

    return replay(spark, url, namespace, region, tables, ordered, mode, codec, layout, config)


def replicate(
    spark: "SparkSession",
    url: str | os.PathLike[str],
    topics: str | Sequence[str],
    store: str,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    config: Mapping[str, str] = _NO_CONFIG,
    store_config: Mapping[str, str] = _NO_CONFIG,
    trigger: str = "0 seconds",
    max_records: int = 200_000,
    max_dead_letters: int = 1000,
    store_timeout: float = 120,
) -> "StreamingQuery":
    """Start a query that replicates journal topics to an event store until it is stopped.

    `topics` is a list, or a pattern (str) for whole names: topics that are created later join within 10 s. The store's
    pointers decide where it begins, so a lost or stale checkpoint changes nothing. A micro-batch has at most
    `max_records` of all partitions. A task waits up to `store_timeout` seconds for a store that is away, and fails if
    it finds more than `max_dead_letters` records of its partition that cannot be decoded. `failure_of` has the error.

    ```python
    query = pipeline.replicate(spark, "file:./data", ["orders"], "sqlite:./data/store.db")
    query.awaitTermination(10)
    query.stop()
    ```
    """
    require_pyspark()
    from .replicating.jobs import replicate

    return replicate(
        spark,
        url,
        topics,
        store,
        checkpoint,
        config,
        store_config,
        trigger,
        max_records,
        max_dead_letters,
        store_timeout,
    )


def wal_records(df: "DataFrame", codec: str = "cordwood") -> "DataFrame":
    """The records of a region's data log as rows: owner, table, first, count, payloads, place, error.

    `df` is any frame with the columns of Spark's Kafka source, batch or stream. Each record is one row, as it is
    stored: records of fenced owners and deleted entries are among them. An owner record has its own offset as `owner`,
    and no table. A record that cannot be decoded has an `error`. The frame is a snapshot of its first action, as `df`
    is.

    ```python
    records = pipeline.read(spark, "file:./data", "metrics_data_7")
    pipeline.wal_records(records).groupBy("table").count().show()
    ```
    """
    require_pyspark()
    from .frames.wal_records import wal_records

    return wal_records(df, codec)


def _texts(url: str | os.PathLike[str], topic: str | Sequence[str], options: Mapping[str, Option]) -> dict[str, str]:
    """The options as texts, as Spark takes them."""
    parsed = parse_url(url)
    engine_of(parsed)
    # The url as given: the text of a parsed url has no secrets, which the workers need.
    given = str(parsed) if isinstance(parsed, FileUrl) else os.fspath(url)
    topics = {"topic": topic} if isinstance(topic, str) else {"subscribe": ",".join(topic)}
    return {"url": given, **topics, **{name: _text(value) for name, value in options.items()}}


def _text(value: Option) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, Mapping) else str(value)
