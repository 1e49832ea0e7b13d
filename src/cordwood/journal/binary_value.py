"""Values in the binary layout: records in which at least one event is binary. Integers are big-endian and signed."""

from collections.abc import Sequence
from struct import Struct

from .bad_record import BadRecord
from .decoded_value import DecodedEvent, DecodedValue
from .event import Event, Kind
from .json_text import slice_json
from .payload_metadata import decode_metadata

VERSION = 1

_VALUE = Struct(">Bi")
_SIZE = Struct(">i")
_EVENT = Struct(">qi")
_BODY = Struct(">Bi")
_ENCODED_EVENT = Struct(">iqi")
_EVENT_BYTES_MIN = _EVENT.size + _BODY.size

_KINDS: tuple[Kind | None, ...] = (None, "binary", "json", "text")
_NUMBER_OF_KIND = {kind: number for number, kind in enumerate(_KINDS)}


def encode_binary_value(events: Sequence[Event], first: int, metadata: bytes) -> bytes:
    """The value of events that are numbered from `first`; `metadata` is the payload metadata as JSON.

    >>> encode_binary_value([Event.binary(b"hi")], 1, b"{}").hex(" ", -4)
    '01000000 01000000 13000000 00000000 01000000 00010000 00026869 7b7d'
    """
    parts = [_VALUE.pack(VERSION, len(events))]
    for seq_nr, event in enumerate(events, first):
        raw = event.raw
        tags = _encode_tags(event.tags) if event.tags else b""
        parts += (
            _ENCODED_EVENT.pack(_EVENT_BYTES_MIN + len(tags) + len(raw), seq_nr, len(tags)),
            tags,
            _BODY.pack(_NUMBER_OF_KIND[event.kind], len(raw)),
            raw,
        )
    parts.append(metadata)
    return b"".join(parts)


def _encode_tags(tags: frozenset[str]) -> bytes:
    return b"".join([_SIZE.pack(len(tag)) + tag for tag in map(str.encode, sorted(tags))])


def decode_binary_value(value: bytes) -> DecodedValue:
    """The events and the metadata of a value of any version; `BadRecord` if its events cannot be decoded.

    Versions 0 and 1 have the same events, and later ones are read as if they had. Only version 1 has metadata. Metadata
    that cannot be read is dropped, as the Scala library does.
    """
    if len(value) < _VALUE.size:
        raise BadRecord(f"the value has {len(value)} bytes, and ends before its events")
    version, count = _VALUE.unpack_from(value)
    if count < 1:
        raise BadRecord(f"the value has {count} events")
    events = []
    at = _VALUE.size
    for number in range(count):
        event, at = _decode_event(value, at, number)
        events.append(event)
    if version == VERSION and at < len(value):
        try:
            return DecodedValue(events, *decode_metadata(value[at:]))
        except BadRecord:
            pass
    return DecodedValue(events, None, "{}")


def _decode_event(value: bytes, at: int, number: int) -> tuple[DecodedEvent, int]:
    """The event at a position, and the position after it."""
    event_at = at + _SIZE.size
    end = event_at + _SIZE.unpack_from(value, at)[0] if event_at <= len(value) else -1
    if end > len(value) or end < event_at + _EVENT_BYTES_MIN:
        raise BadRecord(f"event {number} of the value is cut off")
    seq_nr, tags_size = _EVENT.unpack_from(value, event_at)
    if seq_nr < 1:
        raise BadRecord(f"the number of event {number} of the value is {seq_nr}, not 1 or more")
    tags_at = event_at + _EVENT.size
    kind_at = tags_at + tags_size
    if tags_size < 0 or kind_at + _BODY.size > end:
        raise BadRecord(f"the tags of event {number} of the value are cut off")
    kind, body_size = _BODY.unpack_from(value, kind_at)
    body_at = kind_at + _BODY.size
    if body_size < 0 or body_at + body_size > end:
        raise BadRecord(f"the payload of event {number} of the value is cut off")
    if kind >= len(_KINDS):
        raise BadRecord(f"the payload of event {number} of the value has the unknown kind {kind}")
    tags = _decode_tags(value, tags_at, kind_at, number) if tags_size else ()
    payload = _decode_payload(_KINDS[kind], value[body_at : body_at + body_size], number)
    return DecodedEvent(seq_nr, tags, _KINDS[kind], payload), end


def _decode_tags(value: bytes, at: int, end: int, number: int) -> tuple[str, ...]:
    tags: dict[str, None] = {}
    while at < end:
        tag_at = at + _SIZE.size
        size = _SIZE.unpack_from(value, at)[0] if tag_at <= end else -1
        at = tag_at + size
        if size < 0 or at > end:
            raise BadRecord(f"a tag of event {number} of the value is cut off")
        try:
            tags[value[tag_at:at].decode()] = None
        except UnicodeDecodeError as error:
            raise BadRecord(f"a tag of event {number} of the value is not UTF-8") from error
    return tuple(tags)


def _decode_payload(kind: Kind | None, body: bytes, number: int) -> bytes | str | None:
    if kind is None:
        return None
    if kind == "binary":
        return body
    try:
        return slice_json(body) if kind == "json" else body.decode()
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"the payload of event {number} of the value is not {kind}: {error}") from error
