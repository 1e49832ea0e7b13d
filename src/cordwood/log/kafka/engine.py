"""The Kafka engine: one connection to a cluster."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from cordwood.errors import Conflict
from cordwood.log.calls.connection import Connection
from cordwood.log.calls.threads import call, in_a_thread, open_shared
from cordwood.log.interface import Engine, Follow, PartitionsReader, Starts, TopicInfo
from cordwood.log.topics import TopicChange, TopicConfig
from cordwood.records import Batch
from cordwood.url import KafkaUrl

from .checks import target_of
from .cluster import SharedCluster, open_cluster
from .log import KafkaLog
from .partitions import read_partitions
from .settings import Settings

T = TypeVar("T")


async def open_kafka(url: KafkaUrl, *, timeout: float, wait: float, read_only: bool) -> "KafkaEngine":
    """Connect to a cluster, or share the clients that this process has for it.

    `wait` has no effect here, only on folders: many processes may write to a cluster at once.
    """
    settings = Settings.of(url, timeout)
    late = f"connecting to {url} took more than {timeout} s"
    cluster = await open_shared(
        "cordwood-kafka-open",
        timeout + 1,  # the client's own timeout comes first, and has the cause
        late,
        lambda: open_cluster(settings, timeout),
        lambda cluster: cluster.close(0),
    )
    return KafkaEngine(cluster, read_only)


class KafkaEngine(Engine):
    """One connection to a cluster."""

    def __init__(self, cluster: SharedCluster, read_only: bool) -> None:
        self._cluster = cluster
        self._connection = Connection(cluster, read_only)

    async def create_topic(self, name: str, config: TopicConfig, *, exist_ok: bool, timeout: float) -> TopicInfo:
        self._connection.check_writable()
        topics = self._cluster.topics

        def create() -> TopicInfo:
            try:
                return topics.create(name, config, timeout)
            except Conflict:
                if not exist_ok:
                    raise
                # Another process may still be creating it.
                return topics.usable(name, time.monotonic() + timeout)

        return await self._call(timeout, f"creating topic {name!r}", create)

    async def alter_topic(self, name: str, change: TopicChange, *, timeout: float) -> TopicInfo:
        self._connection.check_writable()
        topics = self._cluster.topics
        return await self._call(timeout, f"altering topic {name!r}", lambda: topics.alter(name, change, timeout))

    async def topics(self, prefix: str, *, timeout: float) -> list[str]:
        return await self._call(timeout, "listing topics", lambda: self._cluster.topics.names(prefix, timeout))

    async def topic(self, name: str, *, timeout: float) -> TopicInfo:
        return await self._call(timeout, f"looking up topic {name!r}", lambda: self._cluster.topics.info(name, timeout))

    async def delete_topic(self, name: str, *, timeout: float) -> None:
        self._connection.check_writable()

        def delete() -> None:
            self._cluster.topics.delete(name, timeout)
            self._cluster.forget(name)

        await self._call(timeout, f"deleting topic {name!r}", delete)

    async def check(self, topic: str, parts: Mapping[int, Batch], *, timeout: float) -> None:
        def look_up() -> None:
            for partition, batch in parts.items():
                target_of(self._cluster, topic, partition, batch)

        self._connection.check_writable()
        await self._call(timeout, f"{topic!r}: append", look_up)

    def log(self, topic: str, partition: int, *, timeout: float) -> KafkaLog:
        self._connection.check()
        return KafkaLog(self._connection, topic, partition, timeout)

    def read(
        self,
        topic: str,
        start: Starts,
        *,
        stop: Mapping[int, int] | None,
        follow: Follow,
        topic_id: str | None,
        uncommitted: bool = False,
        timeout: float,
    ) -> PartitionsReader:
        return read_partitions(self._connection, topic, start, stop, follow, topic_id, uncommitted, timeout)

    async def close(self, *, timeout: float) -> None:
        self._cluster.check()
        self._connection.closed = True
        for reader in list(self._connection.readers):
            await reader.close()
        # Not in the loop's own pool, which asyncio joins when the loop ends: a second interrupt must not wait for acks.
        closing = in_a_thread("cordwood-kafka-close", lambda: self._cluster.close(timeout))
        await asyncio.wrap_future(closing)

    async def _call(self, timeout: float, what: str, function: Callable[[], T]) -> T:
        self._connection.check()
        return await call(self._cluster.executor, timeout, what, function)
