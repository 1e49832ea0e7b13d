"""Rows into the logs of a folder: tasks stage them, and the commit appends the staged rows."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from cordwood.log.native.env.clock import RealClock
from cordwood.log.native.env.disk import RealDisk
from cordwood.log.native.folder.process import commit_staged, holds_logs, open_for_reading
from cordwood.log.native.folder.staged import StagedFile, Write, abort_attempt
from cordwood.url import FileUrl

from .routing import Router
from .staging import stage
from .target import Attempt, Messages, current_task

_CLOSE_SECONDS = 30.0


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """The staged file of one task, None if it had no rows, and the attempt and the write that it belongs to."""

    write: Write
    attempt: str
    task: int
    file: StagedFile | None


@dataclass(frozen=True)
class FolderTarget:
    """The `Target` of a folder. All rows or none, and each batch of a stream once."""

    url: FileUrl
    topic: str | None
    columns: tuple[str, ...]

    def write(self, attempt: Attempt, batches: Iterator[pa.RecordBatch]) -> Staged:
        # The sink of a stream is named by the query: its id is in the checkpoint, so it lives as long as that.
        write = Write(attempt.id) if attempt.of is None else Write(*attempt.of)
        context = current_task()
        task = context.partitionId()
        clock = RealClock()
        name = write.name(clock.time_ms(), attempt.id, f"{task}-{context.taskAttemptId()}")
        folder = open_for_reading(self.url.path)
        try:
            router = Router(self.topic, folder.topic, task)
            file = stage(RealDisk(self.url.path), clock, name, router, self.columns, batches)
        finally:
            folder.close(_CLOSE_SECONDS)
        return Staged(write, attempt.id, task, file)

    def commit(self, messages: Messages) -> None:
        """Append the rows of all tasks, in the order of the tasks; without rows there is nothing to do."""
        staged = sorted(_of(messages), key=lambda message: message.task)
        files = [message.file for message in staged if message.file is not None]
        if files:
            commit_staged(self.url.path, staged[0].write, files)

    def abort(self, messages: Messages, attempt: str | None) -> None:
        """Remove the staged files. If no task has failed there was a commit: it has removed its files, or needs
        them."""
        # In a folder without logs no task has staged anything, and the folder is not Cordwood's.
        if None not in messages or not holds_logs(self.url.path):
            return
        attempts = {message.attempt for message in _of(messages)} if attempt is None else {attempt}
        for each in attempts:
            abort_attempt(RealDisk(self.url.path), RealClock(), each)


def _of(messages: Messages) -> list[Staged]:
    return [message for message in messages if isinstance(message, Staged)]
