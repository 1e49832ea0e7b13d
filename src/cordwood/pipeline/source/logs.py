"""The interface of whatever logs are read from: what planning and reading on Spark need of an engine, and no more.

Blocking, read-only, and for one of Spark's processes: nothing of it is sent to another one but its `Task`s.
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
    """A topic as it is now. Another topic that is ever given the same name has another `id`."""

    name: str
    id: str
    partitions: int


class LogName(NamedTuple):
    """Which log it is.

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
    """About how much that is, in bytes or in records; of the tasks of one plan, the same for all."""

    @property
    def log(self) -> LogName:
        return LogName(self.topic, self.partition)


class Logs(Protocol):
    """The logs at one url. May live for hours: each call tells what is there now.

    Any call may raise `Unavailable`. Those that are given a `Topic` or a `Task` raise `NotFound` if that topic is gone,
    also if there is another one of its name.
    """

    behind_seconds: float
    """For so long it may tell what was before: that a topic is gone, or is another one, is true if it is told again."""

    def topics(self, wanted: Callable[[str], object]) -> list[Topic]:
        """The topics whose name is wanted, by name; a name that no topic has is no error."""

    def bounds(self, topics: Sequence[Topic]) -> Mapping[LogName, Bounds]:
        """Of every partition of the topics."""

    def offsets_at(self, topics: Sequence[Topic], timestamp_ms: int) -> Mapping[LogName, int]:
        """Of every partition, the first offset at or after that time; the end, if there is none."""

    def split(self, task: Task) -> Iterator[Task]:
        """The range of a task, cut into tasks where it is cheap to begin, each worth starting one for."""

    def frames(self, task: Task) -> Iterator[tuple[StoredBatch, int]]:
        """All records of a task, in their order, each batch with its timestampType.

        `Trimmed`, with the first kept offset, where some are gone.
        """

    def close(self) -> None:
        """Let go of what is open; nothing may be called after it."""


def logs_at(url: Url) -> Logs:
    """The logs at a url, to be closed."""
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
