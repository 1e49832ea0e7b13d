"""The interface of whatever rows are written to: what Spark's tasks do with them, and what follows when all are done.

A target is sent to Spark's processes, and each works on a copy: it opens nothing before it is asked to write.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

Messages = Sequence[WriterCommitMessage | None]
"""What the tasks have returned, in their order; None of one that failed."""


class MicroBatch(NamedTuple):
    """Which batch of which streaming query; the same when it is replayed."""

    query: str
    batch: int


@dataclass(frozen=True)
class Attempt:
    """One try to write: a replayed batch is another one."""

    id: str
    of: MicroBatch | None
    """None: of a write that is no stream."""


class Target(Protocol):
    """Logs that rows are appended to."""

    def write(self, attempt: Attempt, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: take its rows. What it returns is carried to who commits."""
        ...

    def commit(self, messages: Messages) -> None:
        """All tasks are done."""
        ...

    def abort(self, messages: Messages, attempt: str | None) -> None:
        """A task, or the commit, has failed; `attempt` is its id, None if only messages tell it."""
        ...


def current_task() -> TaskContext:
    """The task that runs here."""
    context = TaskContext.get()
    assert context is not None
    return context
