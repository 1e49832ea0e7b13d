"""The interface of an engine that Spark writes to: the tasks' part, and the commit or abort after them.

Spark sends a target to its processes, and each works on a copy: it opens nothing before the first write.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

Messages = Sequence[WriterCommitMessage | None]
"""The results of the tasks, in their order; None for one that failed."""


class MicroBatch(NamedTuple):
    """A batch of a streaming query; equal when it is replayed."""

    query: str
    batch: int


@dataclass(frozen=True)
class Attempt:
    """One attempt of a write: a replayed batch is another attempt."""

    id: str
    of: MicroBatch | None
    """None for a write that is no stream."""


class Target(Protocol):
    """Logs that rows are appended to."""

    def write(self, attempt: Attempt, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: write its rows. Spark passes the result to `commit`."""
        ...

    def commit(self, messages: Messages) -> None:
        """All tasks are done."""
        ...

    def abort(self, messages: Messages, attempt: str | None) -> None:
        """A task, or the commit, has failed; `attempt` is its id, None if only the messages have it."""
        ...


def current_task() -> TaskContext:
    """The task that runs here."""
    context = TaskContext.get()
    assert context is not None
    return context
