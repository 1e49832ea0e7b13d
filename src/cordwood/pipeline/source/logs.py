"""The interface of an engine that Spark reads from: what planning and tasks need, and no more.

Blocking, read-only, and for one of Spark's processes: Spark sends only its `Task`s to another process.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from cordwood.log.engines import load
from cordwood.records import StoredBatch
from cordwood.url import Url


@dataclass(frozen=True)
class Topic:
    """A topic as it is now. A later topic of the same name has another `id`."""

    name: str
    id: str
    partitions: int


class LogName(NamedTuple):
    """The topic and the partition of a log.

    >>> str(LogName("events", 0))
    'events/0'
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class Bounds(NamedTuple):
    """The first kept offset, and one past the last that may be read."""

    start: int
    stop: int


@dataclass(frozen=True)
class Task:
    """The offsets from `start` to below `stop` of one log, which one of Spark's tasks reads, in their order."""

    topic: str
    topic_id: str
    partition: int
    start: int
    stop: int
    weight: int
    """About how much that is, in bytes or in records; all tasks of a plan use the same unit."""

    @property
    def log(self) -> LogName:
        return LogName(self.topic, self.partition)


class Logs(Protocol):
    """The logs at one url. The object may live for hours: each call returns the present state.

    Any call may raise `Unavailable`. Calls with a `Topic` or a `Task` raise `NotFound` if that topic was deleted, also
    if there is another one of its name.
    """

    behind_seconds: float
    """For so long an answer may be stale: a topic counts as deleted or created again only if a later answer agrees."""

    def topics(self, wanted: Callable[[str], object]) -> list[Topic]:
        """The topics whose name is wanted, sorted; a name without a topic is no error."""

    def bounds(self, topics: Sequence[Topic]) -> Mapping[LogName, Bounds]:
        """The bounds of every partition of the topics."""

    def offsets_at(self, topics: Sequence[Topic], timestamp_ms: int) -> Mapping[LogName, int]:
        """The first offset of every partition at or after that time; the end if there is none."""

    def split(self, task: Task) -> Iterator[Task]:
        """The range of a task, cut into tasks at offsets that are cheap to begin at, each worth the cost of a start."""

    def frames(self, task: Task) -> Iterator[tuple[StoredBatch, int]]:
        """All records of a task, in their order, each batch with its timestampType.

        Raises `Trimmed`, with the first kept offset, if some are gone.
        """

    def close(self) -> None:
        """Close; no call may follow."""


def logs_at(url: Url) -> Logs:
    """The logs at a url; the caller closes them."""
    logs: Logs = load(url, "spark_source")(url)
    return logs


@contextmanager
def open_logs(url: Url) -> Iterator[Logs]:
    """The logs at a url, closed at the end."""
    logs = logs_at(url)
    try:
        yield logs
    finally:
        logs.close()
