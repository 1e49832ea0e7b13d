"""The logs of a Kafka cluster, read by librdkafka in each of Spark's processes.

Each process connects by itself, with the settings of the url and the `kafka.*` options, which Spark sends along.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from cordwood.errors import NotFound, Trimmed
from cordwood.log.kafka.cluster import SharedCluster, open_cluster
from cordwood.log.kafka.cursor import Cursor
from cordwood.log.kafka.settings import Settings
from cordwood.records import StoredBatch
from cordwood.url import KafkaUrl

from .logs import Bounds, LogName, Task, Topic
from .schema import CREATE_TIME, LOG_APPEND_TIME

TASK_OFFSETS = 250_000
"""The most that a task of a batch reads: with records of 1 KiB at most a second of work, far more than its start."""

# The default of Spark's own source.
_DEFAULTS = {"isolation.level": "read_uncommitted"}
_TIMEOUT_SECONDS = 30.0
_WAIT_SECONDS = 0.1
_LOOK_AGAIN_SECONDS = 0.05


class KafkaLogs:
    """The `Logs` of a cluster. Connects at the first call."""

    behind_seconds = 3.0
    """A broker that was away, if only for a pause of its garbage collector, answers before it has caught up."""

    def __init__(self, url: KafkaUrl) -> None:
        url = KafkaUrl(url.servers, {**_DEFAULTS, **url.config})
        self._settings = Settings.of(url, _TIMEOUT_SECONDS)
        self._connected: SharedCluster | None = None

    def topics(self, wanted: Callable[[str], object]) -> list[Topic]:
        topics = self._cluster.topics
        names = filter(wanted, topics.names("", _TIMEOUT_SECONDS))
        return [Topic(name, id, partitions) for name, id, partitions in topics.look_up(names, _TIMEOUT_SECONDS)]

    def bounds(self, topics: Sequence[Topic]) -> dict[LogName, Bounds]:
        offsets = self._cluster.offsets
        found = {log: Bounds(*offsets.bounds(*log, _TIMEOUT_SECONDS)) for log in _logs(topics)}
        self._check_same(topics)
        return found

    def offsets_at(self, topics: Sequence[Topic], timestamp_ms: int) -> dict[LogName, int]:
        offsets = self._cluster.offsets
        found = {log: offsets.at(*log, timestamp_ms, _TIMEOUT_SECONDS) for log in _logs(topics)}
        self._check_same(topics)
        return found

    def split(self, task: Task) -> Iterator[Task]:
        return by_offsets(task)

    def frames(self, task: Task) -> Iterator[tuple[StoredBatch, int]]:
        cluster = self._cluster
        topic = [Topic(task.topic, task.topic_id, task.partition + 1)]
        self._check_same(topic, self.behind_seconds)
        first = cluster.offsets.start(*task.log, _TIMEOUT_SECONDS)
        if task.start < first:
            raise Trimmed(f"{task.log} was trimmed before {first}, and offset {task.start} asked for", start=first)
        with closing(Cursor(cluster.consumers, cluster.offsets, cluster.settings, *task.log, task.start)) as cursor:
            while cursor.offset < task.stop:
                batch = cursor.read(task.stop, _WAIT_SECONDS)
                if batch is not None:
                    yield batch, LOG_APPEND_TIME if cursor.broker_time else CREATE_TIME
        # The client continues in a topic that was created again meanwhile. A deleted topic has no other to read.
        self._check_same(topic, self.behind_seconds, may_be_gone=True)

    def close(self) -> None:
        if self._connected is not None:
            self._connected.close(_TIMEOUT_SECONDS)
            self._connected = None

    @property
    def _cluster(self) -> SharedCluster:
        if self._connected is None:
            self._connected = open_cluster(self._settings, _TIMEOUT_SECONDS)
        return self._connected

    def _check_same(self, topics: Sequence[Topic], patience: float = 0.0, *, may_be_gone: bool = False) -> None:
        """Called afterwards: ids are never reused, so the topic that has the id now is the one that was found before.

        A mismatch is checked again for `patience` seconds before it counts.
        """
        deadline = time.monotonic() + patience
        while True:
            try:
                return self._check_same_now(topics, may_be_gone)
            except NotFound:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(_LOOK_AGAIN_SECONDS)

    def _check_same_now(self, topics: Sequence[Topic], may_be_gone: bool) -> None:
        wanted = {topic.name: topic.id for topic in topics}
        there: Mapping[str, str] = {name: id for name, id, _ in self._cluster.topics.look_up(wanted, _TIMEOUT_SECONDS)}
        for name, id in wanted.items():
            if name not in there and not may_be_gone:
                raise NotFound(f"topic {name!r} does not exist on {self._cluster}")
            if there.get(name, id) != id:
                raise NotFound(f"topic {name!r} was deleted and made anew since this was planned")


def by_offsets(task: Task, offsets: int = TASK_OFFSETS) -> Iterator[Task]:
    """The range of a task, cut into equal parts of at most so many offsets. No I/O."""
    count = task.stop - task.start
    parts = -(-count // offsets)
    for part in range(parts):
        start, stop = task.start + count * part // parts, task.start + count * (part + 1) // parts
        yield replace(task, start=start, stop=stop, weight=stop - start)


def _logs(topics: Sequence[Topic]) -> Iterator[LogName]:
    return (LogName(topic.name, partition) for topic in topics for partition in range(topic.partitions))
