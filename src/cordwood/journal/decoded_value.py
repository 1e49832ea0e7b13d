"""A value as it was decoded: its events with their payloads as they were written, and its metadata."""

import msgspec

from .event import Kind


class DecodedEvent(msgspec.Struct, frozen=True):
    """One event of a value.

    >>> DecodedEvent(1, ("paid",), "json", '{"n":1.50}').payload
    '{"n":1.50}'
    """

    seq_nr: int
    tags: tuple[str, ...]
    kind: Kind | None
    payload: bytes | str | None
    """Bytes of a binary event, else text; JSON as it was written."""


class DecodedValue(msgspec.Struct, frozen=True):
    """The events of a record, and the metadata that they share."""

    events: list[DecodedEvent]
    expire_after_ns: int | None
    metadata: str
    """The payload metadata as the store keeps it: `{}` if there is none."""
