"""Events as Arrow batches, column by column."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from cordwood.errors import Corrupt
from cordwood.journal.stored_event import metadata_json
from cordwood.store import EventRow

EVENT_SCHEMA = StructType(
    [
        StructField("id", StringType()),
        StructField("seq_nr", LongType()),
        StructField("kind", StringType()),
        StructField("payload", BinaryType()),
        StructField("tags", ArrayType(StringType())),
        StructField("timestamp", TimestampType()),
        StructField("metadata", StringType()),
        StructField("headers", MapType(StringType(), StringType())),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
    ]
)
ERROR = StructField("error", StringType())
LIFE = StructField("life", StringType())

_TIME = pa.timestamp("us", tz="UTC")
_TAGS = pa.list_(pa.field("element", pa.string()))
_HEADERS = pa.map_(pa.string(), pa.string())
_ARROW: dict[DataType, pa.DataType] = {
    StringType(): pa.string(),
    LongType(): pa.int64(),
    IntegerType(): pa.int32(),
    BinaryType(): pa.binary(),
    TimestampType(): _TIME,
    ArrayType(StringType()): _TAGS,
    MapType(StringType(), StringType()): _HEADERS,
}
_KINDS = {None: None, "json": "json", "text": "text"}
"""By the column `payload_type`; as for a reader, every other value is binary."""
_US_MAX = 2**63 - 1

STORED_SCHEMA = StructType([*EVENT_SCHEMA, LIFE, ERROR])
ROWS = 10_000
BYTES = 4 * 1024 * 1024


def event_schema(errors: bool) -> StructType:
    """The columns of `pipeline.events`."""
    return StructType([*EVENT_SCHEMA, *([ERROR] if errors else [])])


def arrow_schema(schema: StructType) -> pa.Schema:
    """The same as Arrow's types."""
    return pa.schema([(field.name, _ARROW[field.dataType]) for field in schema])


_STORED_ARROW = arrow_schema(STORED_SCHEMA)


def event_batch(topic: str, ids: Sequence[str], rows: Sequence[EventRow]) -> pa.RecordBatch:
    """Events in the columns of STORED_SCHEMA; an event's id and row have the same place."""
    kinds = [_KINDS.get(row.payload_type, "binary") for row in rows]
    columns = [
        pa.array(ids, pa.string()),
        pa.array([row.seq_nr for row in rows], pa.int64()),
        pa.array(kinds, pa.string()),
        # Bytes as they are, and texts as UTF-8.
        pa.array(list(map(_payload, kinds, rows)), pa.binary()),
        pa.array([row.tags or () for row in rows], _TAGS),
        pa.array([row.timestamp * 1000 for row in rows], pa.int64()).cast(_TIME),
        pa.array(_metadata(topic, rows), pa.string()),
        pa.array([list(row.headers.items()) if row.headers else () for row in rows], _HEADERS),
        pa.array([row.partition for row in rows], pa.int32()),
        pa.array([row.offset for row in rows], pa.int64()),
        pa.array([row.life for row in rows], pa.string()),
        pa.nulls(len(rows), pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_STORED_ARROW)


def error_batch(errors: Sequence[tuple[str, str]]) -> pa.RecordBatch:
    """A row for each closed key: its id, and the error."""
    given = {"id": pa.array([id for id, _ in errors]), "error": pa.array([text for _, text in errors])}
    columns = [given.get(field.name, pa.nulls(len(errors), field.type)) for field in _STORED_ARROW]
    return pa.RecordBatch.from_arrays(columns, schema=_STORED_ARROW)


class EventBatches:
    """Collects events, and gives them out in batches within limits."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._ids: list[str] = []
        self._rows: list[EventRow] = []
        self._bytes = 0

    def add(self, id: str, rows: Sequence[EventRow]) -> Iterator[pa.RecordBatch]:
        """Take the events of a journal, and give out a batch if it is full."""
        for row in rows:
            self._ids.append(id)
            self._rows.append(row)
            self._bytes += len(row.payload_txt or row.payload_bin or "")
            if self._bytes >= BYTES or len(self._rows) >= ROWS:
                yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """The events that were not given out yet."""
        if self._rows:
            yield event_batch(self._topic, self._ids, self._rows)
            self._ids, self._rows, self._bytes = [], [], 0


def _payload(kind: str | None, row: EventRow) -> str | bytes | None:
    if kind is None:
        return None
    return (row.payload_bin or b"") if kind == "binary" else (row.payload_txt or "")


def _metadata(topic: str, rows: Sequence[EventRow]) -> list[str | None]:
    found: list[str | None] = []
    for row in rows:
        try:
            found.append(metadata_json(row.metadata))
        except (ValueError, RecursionError) as error:
            raise Corrupt(
                f"event {row.seq_nr} at {topic}/{row.partition}, offset {row.offset}: its metadata is not JSON: {error}"
            ) from error
    return found
