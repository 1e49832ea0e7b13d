"""Rows into the logs of a Kafka cluster: tasks append them by librdkafka, and the commit has nothing to do.

At least once, as Spark's own sink: records that a task sent before it failed, or before its batch is replayed, stay.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from cordwood.log.kafka.appender import Appender, Part
from cordwood.log.kafka.checks import writable_topic
from cordwood.log.kafka.cluster import SharedCluster, open_cluster
from cordwood.log.kafka.settings import Settings
from cordwood.url import KafkaUrl

from .batches import batch_of, joined
from .columns import rows_of
from .routing import Router
from .target import Attempt, Messages, current_task

WINDOW_BYTES = 8 * 1024 * 1024
"""A task checks so many bytes of its rows before it sends the first of them."""

_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class KafkaTarget:
    """The `Target` of a cluster. Each task that has rows connects by itself."""

    url: KafkaUrl
    topic: str | None
    columns: tuple[str, ...]

    def write(self, attempt: Attempt, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        rows = windows(batches, self.columns)
        first = next(rows, None)
        if first is not None:
            with _connect(self.url) as cluster:
                self._append(cluster, chain([first], rows))
        return WriterCommitMessage()

    def commit(self, messages: Messages) -> None:
        """Nothing to do: the rows of the tasks are acked."""

    def abort(self, messages: Messages, attempt: str | None) -> None:
        """Nothing to do: the rows of the tasks stay."""

    def _append(self, cluster: SharedCluster, rows: Iterable[pa.RecordBatch]) -> None:
        def look_up(name: str) -> _Topic:
            return _Topic(name, writable_topic(cluster, name).partitions)

        router = Router(self.topic, look_up, current_task().partitionId())
        appender = Appender(cluster, _TIMEOUT_SECONDS)
        for window in rows:
            now_ms = time.time_ns() // 1_000_000
            parts = router.parts(window)
            appender.append([Part(part.topic.name, part.partition, batch_of(part.rows, now_ms)) for part in parts])
        appender.finish()


def windows(batches: Iterable[pa.RecordBatch], columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The rows of a task in batches of at most `WINDOW_BYTES`, unless a single one is larger; none is empty."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        rows = rows_of(batch, columns)
        if waiting and size + rows.nbytes > WINDOW_BYTES:
            yield joined(waiting)
            waiting, size = [], 0
        waiting.append(rows)
        size += rows.nbytes
    if waiting:
        yield joined(waiting)


class _Topic(NamedTuple):
    name: str
    partitions: int


@contextmanager
def _connect(url: KafkaUrl) -> Iterator[SharedCluster]:
    cluster = open_cluster(Settings.of(url, _TIMEOUT_SECONDS), _TIMEOUT_SECONDS)
    try:
        yield cluster
    except BaseException:
        cluster.close(0)  # nothing more is sent
        raise
    cluster.close(_TIMEOUT_SECONDS)
