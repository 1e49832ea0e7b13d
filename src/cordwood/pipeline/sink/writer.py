"""What Spark calls to write: `write` in workers, on copies of a writer; `commit` or `abort` in another process."""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from cordwood.errors import InvalidInput, Unavailable
from cordwood.log.native.folder import commit_staged, open_for_reading
from cordwood.log.native.staged import StagedFile, Write, abort_attempt
from cordwood.log.native.world.clock import RealClock
from cordwood.log.native.world.disk import RealDisk

from .columns import checked_columns
from .options import WriteOptions
from .routing import Router
from .staging import stage

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
_CLOSE_SECONDS = 30.0


def batch_writer(options: WriteOptions, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """`df.write`: what is wrong with the options or the columns is said before a task runs."""
    return _BatchWriter(_Rows(options, _checked(options, schema, overwrite)))


def stream_writer(options: WriteOptions, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
    """`df.writeStream`: Spark makes one for each batch, and another one to commit it."""
    return _StreamWriter(_Rows(options, _checked(options, schema, overwrite)))


def _checked(options: WriteOptions, schema: StructType, overwrite: bool) -> tuple[str, ...]:
    if overwrite:
        raise InvalidInput(
            "a log is only appended to: write with mode('append'), and streams with outputMode('append')"
        )
    return checked_columns(schema, options.topic)


@dataclass(frozen=True)
class _Staged(WriterCommitMessage):
    """What one task has staged, and for which attempt of which write; None where it had no rows."""

    write: Write
    attempt: str
    task: int
    file: StagedFile | None


@dataclass(frozen=True)
class _Rows:
    """Where the rows of a write go."""

    options: WriteOptions
    columns: tuple[str, ...]

    def stage(self, write: Write, attempt: str, batches: Iterator[pa.RecordBatch]) -> _Staged:
        """In a task of Spark."""
        context = TaskContext.get()
        assert context is not None
        task = context.partitionId()
        clock = RealClock()
        name = write.name(clock.time_ms(), attempt, f"{task}-{context.taskAttemptId()}")
        folder = open_for_reading(self.options.folder)
        try:
            router = Router(self.options.topic, folder.topic, task)
            file = stage(RealDisk(self.options.folder), clock, name, router, self.columns, batches)
        finally:
            folder.close(_CLOSE_SECONDS)
        return _Staged(write, attempt, task, file)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Append the rows of all tasks, in the order of the tasks; without rows there is nothing to do."""
        staged = sorted(_of(messages), key=lambda message: message.task)
        files = [message.file for message in staged if message.file is not None]
        if files:
            commit_staged(self.options.folder, staged[0].write, files)

    def abort(self, messages: Sequence[WriterCommitMessage | None], attempts: set[str]) -> None:
        """Remove what was staged. If no task has failed there was a commit: it has seen to its files, or needs them."""
        if None in messages and self.options.folder.is_dir():
            for attempt in attempts:
                abort_attempt(RealDisk(self.options.folder), RealClock(), attempt)


class _BatchWriter(DataSourceArrowWriter):
    def __init__(self, rows: _Rows) -> None:
        self._rows = rows
        self._attempt = secrets.token_hex(8)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._rows.stage(Write(self._attempt), self._attempt, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._rows.commit(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._rows.abort(messages, {self._attempt})


class _StreamWriter(DataSourceStreamArrowWriter):
    """The sink is the query: its id is in the checkpoint, so it outlives restarts, and goes with the checkpoint."""

    def __init__(self, rows: _Rows) -> None:
        self._rows = rows
        self._attempt = secrets.token_hex(8)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._rows.stage(_streaming_write(), self._attempt, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        self._rows.commit(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        # This object was made for the call: the attempt's name is in the messages of the tasks that were done.
        self._rows.abort(messages, {message.attempt for message in _of(messages)})


def _streaming_write() -> Write:
    context = TaskContext.get()
    assert context is not None
    query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
    if query is None or batch is None:
        raise Unavailable(
            f"Spark does not say which query and batch this is ({_QUERY_ID}, {_BATCH_ID}): it cannot be written once",
            outcome="not_written",
        )
    return Write(query, int(batch))


def _of(messages: Sequence[WriterCommitMessage | None]) -> list[_Staged]:
    return [message for message in messages if isinstance(message, _Staged)]
