"""The records of journal topics as rows."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DayTimeIntervalType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from cordwood.journal.action import ACTION_HEADER, Action, Append, Delete, Mark, Purge
from cordwood.journal.bad_record import BadRecord
from cordwood.journal.decoded_value import DecodedEvent
from cordwood.journal.header import decode_header
from cordwood.journal.key import decode_id
from cordwood.journal.value import check_numbers, decode_value

from .input import ARROW_PLACE, SPARK_PLACE, chosen, places

INPUT = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")

SPARK_SCHEMA = StructType(
    [
        StructField("id", StringType()),
        StructField("action", StringType()),
        StructField("from", LongType()),
        StructField("to", LongType()),
        StructField("expected", LongType()),
        StructField(
            "events",
            ArrayType(
                StructType(
                    [
                        StructField("seq_nr", LongType()),
                        StructField("kind", StringType()),
                        StructField("payload", BinaryType()),
                        StructField("tags", ArrayType(StringType())),
                    ]
                )
            ),
        ),
        StructField("metadata", StringType()),
        StructField("expire_after", DayTimeIntervalType()),
        StructField("place", SPARK_PLACE),
        StructField("error", StringType()),
    ]
)
_TAGS = pa.list_(pa.field("element", pa.string()))
_EVENT = pa.struct([("seq_nr", pa.int64()), ("kind", pa.string()), ("payload", pa.binary()), ("tags", _TAGS)])
_EVENTS = pa.list_(pa.field("element", _EVENT))
_ARROW_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("action", pa.string()),
        ("from", pa.int64()),
        ("to", pa.int64()),
        ("expected", pa.int64()),
        ("events", _EVENTS),
        ("metadata", pa.string()),
        ("expire_after", pa.duration("us")),
        ("place", ARROW_PLACE),
        ("error", pa.string()),
    ]
)

_NAMES: dict[type, str] = {Append: "append", Mark: "mark", Delete: "delete", Purge: "purge"}


class _Payload(msgspec.Struct):
    data: msgspec.Raw = msgspec.Raw(b"null")


_decode_payload_metadata = msgspec.json.Decoder(_Payload).decode


class _Row(NamedTuple):
    """What a record says, without its place."""

    id: str | None = None
    action: str | None = None
    first: int | None = None
    last: int | None = None
    expected: int | None = None
    events: list[DecodedEvent] | None = None
    metadata: str | None = None
    expire_after_us: int | None = None
    error: str | None = None


def actions(df: DataFrame) -> DataFrame:
    """One row for each record of a journal topic."""
    return chosen(df, INPUT, "actions").mapInArrow(_decode_all, SPARK_SCHEMA)


def _decode_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (_decode_batch(rows) for rows in batches if rows.num_rows)


def _decode_batch(rows: pa.RecordBatch) -> pa.RecordBatch:
    keys, values = rows.column("key").to_pylist(), rows.column("value").to_pylist()
    # As for the journal, a record without a time is none of its own.
    timed = pc.greater_equal(rows.column("timestamp").cast(pa.int64()), 0).to_pylist()
    headers = _action_headers(rows.column("headers"))
    found = [
        _row(key, value, headers.get(at) if has_time else None)
        for at, (key, value, has_time) in enumerate(zip(keys, values, timed, strict=True))
    ]
    ids, names, firsts, lasts, expected, events, metadata, expiries, errors = zip(*found, strict=True)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(ids, pa.string()),
            pa.array(names, pa.string()),
            pa.array(firsts, pa.int64()),
            pa.array(lasts, pa.int64()),
            pa.array(expected, pa.int64()),
            _event_lists(events),
            pa.array(metadata, pa.string()),
            pa.array(expiries, pa.duration("us")),
            places(rows),
            pa.array(errors, pa.string()),
        ],
        schema=_ARROW_SCHEMA,
    )


def _action_headers(headers: pa.Array) -> dict[int, bytes]:
    """The first `journal.action` header of each row that has one, by the row's place in the batch."""
    pairs = headers.flatten()
    names, values = pairs.flatten()
    ours = pc.equal(names, ACTION_HEADER)
    at = pc.list_parent_indices(headers).filter(ours).to_pylist()
    # The first of several counts, so it is put in last.
    return dict(zip(reversed(at), reversed(values.filter(ours).fill_null(b"").to_pylist()), strict=True))


def _row(key: bytes | None, value: bytes | None, header: bytes | None) -> _Row:
    id = None if key is None else decode_id(key)
    if header is None:
        return _Row(id)
    try:
        action = decode_header(header)
    except BadRecord as error:
        return _Row(id, error=str(error))
    if action is None or (value is None and type(action) is Append):
        return _Row(id)
    row = _header_row(id, action)
    if key is None or id is None:
        return row._replace(error="the record has no key" if key is None else "the key is not UTF-8")
    if not isinstance(action, Append):
        return row
    try:
        decoded = decode_value(action.payload_type, value or b"")
        check_numbers(action, decoded.events)
    except BadRecord as error:
        return row._replace(error=str(error))
    data = bytes(_decode_payload_metadata(decoded.metadata).data).decode()
    expiry = decoded.expire_after_ns
    return row._replace(
        events=decoded.events,
        metadata=None if data == "null" else data,
        expire_after_us=None if expiry is None else expiry // 1000,
    )


def _header_row(id: str | None, action: Action) -> _Row:
    name = _NAMES[type(action)]
    match action:
        case Append():
            return _Row(id, name, action.first, action.last, action.expected)
        case Delete():
            return _Row(id, name, last=action.to)
        case Purge():
            return _Row(id, name, last=action.seq_nr)
        case Mark():
            return _Row(id, name)


def _event_lists(lists: tuple[list[DecodedEvent] | None, ...]) -> pa.Array:
    offsets: list[int | None] = []
    events: list[DecodedEvent] = []
    for each in lists:
        offsets.append(None if each is None else len(events))
        events += each or ()
    offsets.append(len(events))
    flat = pa.StructArray.from_arrays(
        [
            pa.array([event.seq_nr for event in events], pa.int64()),
            pa.array([event.kind for event in events], pa.string()),
            # Bytes as they are, and texts as UTF-8.
            pa.array([event.payload for event in events], pa.binary()),
            pa.array([event.tags for event in events], _TAGS),
        ],
        fields=list(_EVENT),
    )
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat, type=_EVENTS)
