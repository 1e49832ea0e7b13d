"""The Coordinator interface."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic as it was created. `id` is never used again, also not for a topic of the same name."""

    id: int
    name: str
    partitions: int
    replication: int
    retention_ms: int | None
    retention_bytes: int | None


@dataclass(frozen=True, slots=True)
class LogRow:
    """One partition: the first kept offset, and an offset that the next record will not be below (R7)."""

    topic_id: int
    partition: int
    start: int
    next_offset: int


class Coordinator(Protocol):
    def take_over(self) -> int:
        """Become the owner: a new epoch, higher than every earlier one."""

    def create_topic(
        self,
        name: str,
        partitions: int,
        replication: int,
        retention_ms: int | None,
        retention_bytes: int | None,
    ) -> TopicRow:
        """`Conflict` if the name is taken."""

    def delete_topic(self, id: int) -> None: ...

    def topics(self) -> list[TopicRow]: ...

    def logs(self) -> list[LogRow]:
        """Only logs that were trimmed have a row."""

    def trim(self, topic_id: int, partition: int, start: int, next_offset: int) -> None:
        """R7: durable before any plog is dropped. Neither number ever goes back. `NotFound` if the topic is gone."""

    def metadata_plog(self) -> str | None: ...

    def set_metadata_plog(self, epoch: int, expected: str | None, id: str) -> None:
        """Compare-and-set by the owner: another epoch, or another plog than `expected` → `Fenced`."""

    def plan(self) -> str | None:
        """The plan of the commit that is decided and not finished."""

    def decide(self, plan: str) -> None:
        """R28: from now on the commit is finished, by whoever. `Conflict` if another one is not finished yet."""

    def finish(self, sink: str, batch: int | None) -> None:
        """Forget the plan, and note the batch of the sink in the same transaction; None: it is not noted."""

    def sink_batch(self, sink: str) -> int | None:
        """The last batch of a sink that was finished."""

    def close(self) -> None: ...
