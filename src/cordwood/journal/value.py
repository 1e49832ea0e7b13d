"""The value of an append's record: its events, and the metadata that they share."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise

from cordwood.errors import InvalidInput

from .action import Append
from .bad_record import UNDECODABLE, BadRecord, reason_of
from .binary_value import decode_binary_value, encode_binary_value
from .decoded_value import DecodedEvent, DecodedValue
from .event import Event
from .json_fields import SEQ_NR_MAX
from .json_value import decode_json_value, encode_json_value
from .payload_metadata import encode_metadata


def encode_value(
    events: Sequence[Event], first: int, expire_after: timedelta | None, metadata: bytes | None
) -> tuple[str, bytes]:
    """The payload type and the value of events that are numbered from `first`; `metadata` is JSON.

    >>> encode_value([Event.text("hi")], 1, timedelta(hours=36), None)[1].decode()
    '{"events":[{"seqNr":1,"tags":[],"payloadType":"text","payload":"hi"}],"metadata":{"expireAfter":"36 hours"}}'
    """
    if not events:
        raise InvalidInput("an append has no events: give at least one")
    if first < 1 or first + len(events) - 1 > SEQ_NR_MAX:
        raise InvalidInput(f"{len(events)} events from number {first} are not in 1..{SEQ_NR_MAX}")
    encoded = b"{}" if expire_after is None and metadata is None else encode_metadata(expire_after, metadata)
    for event in events:
        if event.kind == "binary":
            return "binary", encode_binary_value(events, first, encoded)
    return "json", encode_json_value(events, first, encoded)


def decode_value(payload_type: str, value: bytes) -> DecodedValue:
    """The events and the metadata of a value; `BadRecord` if it cannot be decoded.

    >>> decode_value("json", b'{"events":[{"seqNr":1,"tags":[]}],"metadata":{}}').metadata
    '{}'
    """
    try:
        return decode_binary_value(value) if payload_type == "binary" else decode_json_value(value)
    except BadRecord:
        raise
    except UNDECODABLE as error:
        raise BadRecord(f"the value cannot be decoded: {reason_of(error)}") from error


def check_numbers(append: Append, events: Sequence[DecodedEvent]) -> None:
    """Raise `BadRecord` if the events do not match the range of their append (R43).

    The numbers increase from `first` to `last`. Only a foreign append may leave numbers out, as the Scala library
    allows; one of ours has `expected`, and its numbers follow each other.

    >>> check_numbers(Append(3, 9), [DecodedEvent(3, (), None, None), DecodedEvent(9, (), None, None)])
    """
    if events[0].seq_nr != append.first or events[-1].seq_nr != append.last:
        found = f"{events[0].seq_nr} to {events[-1].seq_nr}"
        raise BadRecord(f"the events are {found}, and the range is {append.first} to {append.last}")
    if append.expected is not None and len(events) != append.last - append.first + 1:
        raise BadRecord(f"the range is {append.first} to {append.last}, but the value has {len(events)} events")
    for before, after in pairwise(events):
        if before.seq_nr >= after.seq_nr:
            raise BadRecord(f"event {after.seq_nr} follows event {before.seq_nr}")
