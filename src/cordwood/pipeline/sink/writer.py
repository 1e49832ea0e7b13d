"""The writers that Spark calls: `write` in workers, on copies; `commit` or `abort` in another process."""

import secrets
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from cordwood.errors import InvalidInput, Unavailable
from cordwood.log.engines import load

from .columns import checked_columns
from .options import WriteOptions
from .target import Attempt, Messages, MicroBatch, Target, current_task

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


def batch_writer(options: WriteOptions, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """The writer of `df.write`: wrong options or columns raise before a task runs."""
    return _BatchWriter(_target(options, schema, overwrite))


def stream_writer(options: WriteOptions, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
    """The writer of `df.writeStream`: Spark makes one for each batch, and another one to commit it."""
    return _StreamWriter(_target(options, schema, overwrite))


def _target(options: WriteOptions, schema: StructType, overwrite: bool) -> Target:
    if overwrite:
        raise InvalidInput(
            "a log is only appended to: write with mode('append'), and streams with outputMode('append')"
        )
    target: Target = load(options.url, "spark_sink")(options.url, options.topic, checked_columns(schema, options.topic))
    return target


class _BatchWriter(DataSourceArrowWriter):
    def __init__(self, target: Target) -> None:
        self._target = target
        self._attempt = secrets.token_hex(8)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._target.write(Attempt(self._attempt, None), iterator)

    def commit(self, messages: Messages) -> None:
        self._target.commit(messages)

    def abort(self, messages: Messages) -> None:
        self._target.abort(messages, self._attempt)


class _StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, target: Target) -> None:
        self._target = target
        self._attempt = secrets.token_hex(8)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._target.write(Attempt(self._attempt, _micro_batch()), iterator)

    def commit(self, messages: Messages, batchId: int) -> None:
        self._target.commit(messages)

    def abort(self, messages: Messages, batchId: int) -> None:
        # Spark made this object for the call, so its own attempt id is another one.
        self._target.abort(messages, None)


def _micro_batch() -> MicroBatch:
    context = current_task()
    query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
    if query is None or batch is None:
        raise Unavailable(
            f"Spark does not say which query and batch this is ({_QUERY_ID}, {_BATCH_ID}): it cannot be written once",
            outcome="not_written",
            reason="unsupported",
        )
    return MicroBatch(query, int(batch))
