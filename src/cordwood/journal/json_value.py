"""Values as JSON: records in which no event is binary."""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from .bad_record import BadRecord
from .decoded_value import DecodedEvent, DecodedValue
from .event import Event
from .json_fields import SEQ_NR_MAX, Fields, is_null, read_field, read_number, read_text, split_array, split_object
from .payload_metadata import decode_metadata


class _Event(msgspec.Struct):
    seq_nr: Annotated[int, msgspec.Meta(ge=1, le=SEQ_NR_MAX)] = msgspec.field(name="seqNr")
    tags: tuple[str, ...]
    payload_type: Literal["json", "text"] | None = msgspec.field(default=None, name="payloadType")
    payload: msgspec.Raw = msgspec.Raw(b"")


class _Value(msgspec.Struct):
    events: list[_Event]
    metadata: msgspec.Raw = msgspec.Raw(b"")


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Value).decode
_decode_text = msgspec.json.Decoder(str).decode


def encode_json_value(events: Sequence[Event], first: int, metadata: bytes) -> bytes:
    """The value of events that are numbered from `first`; `metadata` is the payload metadata as JSON.

    >>> encode_json_value([Event.json({"n": 1}), Event.empty({"t"})], 5, b"{}").decode()
    '{"events":[{"seqNr":5,"tags":[],"payloadType":"json","payload":{"n":1}},{"seqNr":6,"tags":["t"]}],"metadata":{}}'
    """
    encoded = b",".join([_encode_event(event, seq_nr) for seq_nr, event in enumerate(events, first)])
    return b'{"events":[%b],"metadata":%b}' % (encoded, metadata)


def _encode_event(event: Event, seq_nr: int) -> bytes:
    tags = _encode(sorted(event.tags)) if event.tags else b"[]"
    if event.kind == "json":
        return b'{"seqNr":%d,"tags":%b,"payloadType":"json","payload":%b}' % (seq_nr, tags, event.raw)
    if event.kind == "text":
        text = _encode(event.raw.decode())
        return b'{"seqNr":%d,"tags":%b,"payloadType":"text","payload":%b}' % (seq_nr, tags, text)
    return b'{"seqNr":%d,"tags":%b}' % (seq_nr, tags)


def decode_json_value(value: bytes) -> DecodedValue:
    """The events and the metadata of a value; `BadRecord` if it cannot be decoded.

    >>> decode_json_value(b'{"events":[{"seqNr":1,"tags":[],"payload":1.50}]}').events
    [DecodedEvent(seq_nr=1, tags=(), kind='json', payload='1.50')]
    """
    try:
        decoded = _decode(value)
        events = [_decoded_event(each.seq_nr, each.tags, each.payload_type, each.payload) for each in decoded.events]
    except (ValueError, RecursionError):
        return _decode_fields(value)
    if not events:
        return _decode_fields(value)
    expire_after_ns, metadata = (None, "{}") if is_null(decoded.metadata) else decode_metadata(decoded.metadata)
    return DecodedValue(events, expire_after_ns, metadata)


def _decoded_event(seq_nr: int, tags: tuple[str, ...], payload_type: str | None, payload: msgspec.Raw) -> DecodedEvent:
    if len(tags) > 1:
        tags = tuple(dict.fromkeys(tags))
    if is_null(payload):
        return DecodedEvent(seq_nr, tags, None, None)
    if payload_type == "text":
        return DecodedEvent(seq_nr, tags, "text", _decode_text(payload))
    return DecodedEvent(seq_nr, tags, "json", str(payload, "utf-8"))


def _decode_fields(value: bytes) -> DecodedValue:
    """Decode a value that the fast decoder refuses, and say why if it is not sound."""
    fields = split_object(value, "the value")
    if fields is None:
        raise BadRecord("the value is JSON, but not an object")
    items = split_array(fields.get("events"), "the value's events")
    if not items:
        raise BadRecord("the value has no events")
    events = [_read_event(item, f"event {at} of the value") for at, item in enumerate(items)]
    metadata = fields.get("metadata")
    if metadata is None or is_null(metadata):
        return DecodedValue(events, None, "{}")
    return DecodedValue(events, *decode_metadata(metadata))


def _read_event(item: msgspec.Raw, what: str) -> DecodedEvent:
    fields = split_object(item, what)
    if fields is None:
        raise BadRecord(f"{what} is not an object")
    seq_nr = read_number(fields, "seqNr", f"the seqNr of {what}", 1)
    if seq_nr is None:
        raise BadRecord(f"{what} has no seqNr")
    payload_type = read_text(fields, "payloadType", f"the payloadType of {what}")
    if payload_type not in (None, "json", "text"):
        raise BadRecord(f"the payloadType of {what} is {payload_type!r}, not 'json' or 'text'")
    try:
        return _decoded_event(seq_nr, _read_tags(fields, what), payload_type, fields.get("payload", msgspec.Raw(b"")))
    except UnicodeDecodeError as error:
        raise BadRecord(f"the payload of {what} is not UTF-8") from error
    except msgspec.ValidationError as error:
        raise BadRecord(f"the payload of {what} is not text, but its payloadType is") from error


def _read_tags(fields: Fields, what: str) -> tuple[str, ...]:
    tags = read_field(fields, "tags", f"the tags of {what}")
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise BadRecord(f"the tags of {what} are not an array of text")
    return tuple(tags)
