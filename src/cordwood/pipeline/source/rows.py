"""Frames as the Arrow batches that Spark takes: column by column, nothing for each record."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from cordwood.records import StoredBatch

from .schema import ARROW_HEADERS, CREATE_TIME, arrow_schema

_ROWS = 10_000
_BYTES = 4 * 1024 * 1024

# A frame of this size goes on alone: merging it would copy more than it saves.
_LARGE_ROWS = 1000
_LARGE_BYTES = 256 * 1024


class Rows:
    """Makes the rows of one log out of its frames."""

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
        self._type = pa.repeat(pa.scalar(CREATE_TIME, pa.int32()), count)

    def batches(self, frames: Iterable[StoredBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of rows in the order of the frames; small frames are merged, so that Spark gets no tiny batches."""
        small: list[pa.RecordBatch] = []
        rows = size = 0
        for frame in frames:
            batch = frame.to_arrow()
            batch_bytes = batch.nbytes
            large = batch.num_rows >= _LARGE_ROWS or batch_bytes >= _LARGE_BYTES
            if small and (large or rows + batch.num_rows > _ROWS or size + batch_bytes > _BYTES):
                yield self._rows(_merged(small))
                small, rows, size = [], 0, 0
            if large:
                yield self._rows(batch)
                continue
            small.append(batch)
            rows += batch.num_rows
            size += batch_bytes
        if small:
            yield self._rows(_merged(small))

    def _rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        count = batch.num_rows
        if count > len(self._topic):
            self._grow(2 * count)
        columns = [
            batch.column("key"),
            batch.column("value"),
            self._topic.slice(0, count),
            self._partition.slice(0, count),
            batch.column("offset"),
            batch.column("timestamp").cast(self._schema.field("timestamp").type),
            self._type.slice(0, count),
        ]
        if self._include_headers:
            columns.append(_headers(batch.column("headers")))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _merged(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (merged,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return merged


def _headers(headers: pa.Array) -> pa.Array:
    """As Kafka's source: null, not an empty list, where a record has none."""
    there = pc.greater(pc.list_value_length(headers), 0)
    return pc.if_else(there, headers.cast(ARROW_HEADERS), pa.scalar(None, ARROW_HEADERS))
