"""The event rows of an append's record, in the columns of the table `journal`."""

from collections.abc import Mapping

import msgspec

from cordwood.store.rows import EventRow

from .action import Append
from .value import check_numbers, decode_value

_encode = msgspec.json.Encoder().encode


def event_rows(
    append: Append,
    value: bytes,
    headers: Mapping[str, str] | None,
    partition: int,
    offset: int,
    timestamp: int,
    life: str | None,
    above: int,
) -> tuple[list[EventRow], int | None]:
    """The rows of the events numbered over `above`, and the record's expireAfter in nanoseconds.

    `BadRecord` if the value cannot be decoded, or its events do not match the append's range (R43). `headers` are the
    record's own, without `journal.action`.

    >>> value = b'{"events":[{"seqNr":1,"tags":[],"payload":1.50}],"metadata":{"expireAfter":"1 day"}}'
    >>> (row,), expire_after_ns = event_rows(Append(1, 1), value, None, 0, 17, 1_700_000_000_000, None, above=0)
    >>> row.payload_txt, row.metadata, expire_after_ns
    ('1.50', '{"header":{},"payload":{"expireAfter":"1 day"}}', 86400000000000)
    """
    decoded = decode_value(append.payload_type, value)
    check_numbers(append, decoded.events)
    metadata = _metadata_text(append, decoded.metadata)
    origin, version = append.origin, append.version
    kept_headers = dict(headers) if headers else None
    rows = []
    for event in decoded.events:
        if event.seq_nr <= above:
            continue
        payload = event.payload
        rows.append(
            EventRow(
                event.seq_nr,
                timestamp,
                partition,
                offset,
                origin,
                version,
                life,
                metadata,
                event.kind,
                payload if isinstance(payload, str) else None,
                payload if isinstance(payload, bytes) else None,
                event.tags or None,
                kept_headers,
            )
        )
    return rows, decoded.expire_after_ns


def _metadata_text(append: Append, payload: str) -> str:
    header = "{}" if append.metadata is None else f'{{"data":{append.metadata.decode()}}}'
    id = "" if append.id is None else f',"id":{_encode(append.id).decode()}'
    return f'{{"header":{header},"payload":{payload}{id}}}'


def append_id_of(metadata: str | None) -> str | None:
    """The id of the append that wrote an event row; None if it had none.

    >>> append_id_of('{"header":{},"payload":{},"id":"a-17"}')
    'a-17'
    """
    if metadata is None:
        return None
    try:
        decoded = msgspec.json.decode(metadata)
    except msgspec.DecodeError:
        return None
    found = decoded.get("id") if isinstance(decoded, dict) else None
    return found if isinstance(found, str) else None
