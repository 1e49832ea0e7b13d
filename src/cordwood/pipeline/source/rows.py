"""Frames as the Arrow batches that Spark takes: column by column, no Python code for each record."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from cordwood.errors import InvalidInput
from cordwood.records import StoredBatch

from .schema import ARROW_HEADERS, CREATE_TIME, LOG_APPEND_TIME, arrow_schema

_ROWS = 10_000
_BYTES = 4 * 1024 * 1024

# A frame of this size becomes a batch alone: merging it would copy more than it saves.
_LARGE_ROWS = 1000
_LARGE_BYTES = 256 * 1024

# Spark counts microseconds, in 64 bits.
_MILLISECONDS_MAX = (2**63 - 1) // 1000


class Rows:
    """Makes the rows of one log from its frames."""

    def __init__(self, topic: str, partition: int, include_headers: bool) -> None:
        self._schema = arrow_schema(include_headers)
        self._include_headers = include_headers
        self._constants = (topic, partition)
        self._grow(_ROWS)

    def _grow(self, count: int) -> None:
        """Columns that are the same in every batch, to be sliced."""
        topic, partition = self._constants
        self._topic = pa.repeat(pa.scalar(topic, pa.string()), count)
        self._partition = pa.repeat(pa.scalar(partition, pa.int32()), count)
        self._types = {each: pa.repeat(pa.scalar(each, pa.int32()), count) for each in (CREATE_TIME, LOG_APPEND_TIME)}

    def batches(self, frames: Iterable[tuple[StoredBatch, int]]) -> Iterator[pa.RecordBatch]:
        """Batches of rows in the order of the frames, which come with their timestampType.

        Small frames of one type are merged, so that Spark gets no tiny batches.
        """
        small: list[pa.RecordBatch] = []
        rows = size = small_type = 0
        for frame, time_type in frames:
            batch = frame.to_arrow()
            large = batch.num_rows >= _LARGE_ROWS or frame.weight >= _LARGE_BYTES
            full = rows + batch.num_rows > _ROWS or size + frame.weight > _BYTES
            if small and (large or full or time_type != small_type):
                yield self._rows(_merged(small), small_type)
                small, rows, size = [], 0, 0
            if large:
                yield self._rows(batch, time_type)
                continue
            small.append(batch)
            small_type = time_type
            rows += batch.num_rows
            size += frame.weight
        if small:
            yield self._rows(_merged(small), small_type)

    def _rows(self, batch: pa.RecordBatch, time_type: int) -> pa.RecordBatch:
        count = batch.num_rows
        if count > len(self._topic):
            self._grow(2 * count)
        columns = [
            batch.column("key"),
            batch.column("value"),
            self._topic.slice(0, count),
            self._partition.slice(0, count),
            batch.column("offset"),
            self._times(batch),
            self._types[time_type].slice(0, count),
        ]
        if self._include_headers:
            columns.append(_headers(batch.column("headers")))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _times(self, batch: pa.RecordBatch) -> pa.Array:
        try:
            return batch.column("timestamp").cast(self._schema.field("timestamp").type)
        except pa.ArrowInvalid:
            stamps = batch.column("timestamp").cast(pa.int64()).to_pylist()
            place, stamp = next((at, stamp) for at, stamp in enumerate(stamps) if abs(stamp) > _MILLISECONDS_MAX)
        topic, partition = self._constants
        offset = batch.column("offset")[place]
        raise InvalidInput(
            f"{topic}/{partition}: the record at offset {offset} has the time {stamp} ms, and Spark takes at most"
            f" {_MILLISECONDS_MAX}: was it given in nanoseconds? startingOffsets and endingOffsets can leave it out"
        )


def _merged(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (merged,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return merged


def _headers(headers: pa.Array) -> pa.Array:
    """As Kafka's source: null, not an empty list, for a record without headers."""
    there = pc.greater(pc.list_value_length(headers), 0)
    return pc.if_else(there, headers.cast(ARROW_HEADERS), pa.scalar(None, ARROW_HEADERS))
