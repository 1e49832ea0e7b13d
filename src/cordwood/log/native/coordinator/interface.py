"""The Coordinator interface."""

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, Self

from cordwood.log.topics import TopicChange, TopicConfig, milliseconds_of


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic and its settings. `id` is never reused, not even for a topic of the same name."""

    id: int
    name: str
    partitions: int
    replication: int
    retention_ms: int | None
    retention_bytes: int | None

    @classmethod
    def new(cls, id: int, name: str, config: TopicConfig) -> Self:
        """A new topic with these settings."""
        return cls(
            id,
            name,
            config.partitions or 1,
            config.replication or 1,
            milliseconds_of(config.retention),
            config.retention_bytes,
        )

    def altered(self, change: TopicChange) -> Self:
        """The same topic after a change."""
        named = change.named()
        if "retention" in named:
            named["retention_ms"] = milliseconds_of(named.pop("retention"))
        return replace(self, **named)


@dataclass(frozen=True, slots=True)
class LogRow:
    """One partition: the first kept offset, and an offset that the next record will not be below (R7)."""

    topic_id: int
    partition: int
    start: int
    next_offset: int


class Stamp(NamedTuple):
    """The state of a coordinator, in numbers. A coordinator that never changed has 0 everywhere."""

    changes: int
    """The number of changes so far: every call that changes something is one."""

    rows: int
    """How many topics, trimmed logs, plans and sinks it holds."""

    digest: int
    """A sum of all rows: equal for equal rows, in whatever order they were written."""


class Coordinator(Protocol):
    def stamp(self) -> Stamp:
        """The stamp of the last committed change."""

    def take_over(self) -> int:
        """Become the owner: a new epoch, higher than every earlier one."""

    def create_topic(self, name: str, config: TopicConfig) -> TopicRow:
        """`Conflict` if the name is taken."""

    def alter_topic(self, row: TopicRow) -> None:
        """Give the topic with this id the limits of the row. `NotFound` if the topic was deleted."""

    def delete_topic(self, id: int) -> None: ...

    def topics(self) -> list[TopicRow]: ...

    def logs(self) -> list[LogRow]:
        """Only logs that were trimmed have a row."""

    def trim(self, topic_id: int, partition: int, start: int, next_offset: int) -> None:
        """R7: durable before any plog is dropped. Neither number ever decreases. `NotFound` if the topic is deleted."""

    def metadata_plog(self) -> str | None: ...

    def set_metadata_plog(self, epoch: int, expected: str | None, id: str) -> None:
        """Compare-and-set by the owner: another epoch, or another plog than `expected` → `Fenced`."""

    def plan(self) -> str | None:
        """The plan of the commit that is decided and not finished."""

    def decide(self, plan: str) -> None:
        """R28: from now on the commit will be finished, by any writer. `Conflict` if another is not finished yet."""

    def finish(self, sink: str, batch: int | None) -> None:
        """Remove the plan, and record the batch of the sink in the same transaction; None: no batch to record."""

    def sink_batch(self, sink: str) -> int | None:
        """The last batch of a sink that was finished."""

    def close(self) -> None: ...
