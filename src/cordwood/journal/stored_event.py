"""An event as a reader returns it: a row, and the values that are decoded from it when they are asked for."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from cordwood.errors import Corrupt
from cordwood.store.rows import EventRow

from .bad_record import UNDECODABLE, reason_of
from .event import Kind
from .json_text import decode_json

_KINDS: dict[str | None, Kind | None] = {None: None, "json": "json", "text": "text"}
"""By the column `payload_type`; the Scala library reads every other value as binary."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)


class _Data(msgspec.Struct):
    data: msgspec.Raw = msgspec.Raw(b"null")


_NO_DATA = _Data()


class _Metadata(msgspec.Struct):
    """The column `metadata`; older Scala libraries wrote the header's `data` alone."""

    header: _Data | None = None
    payload: _Data | None = None
    data: msgspec.Raw = msgspec.Raw(b"null")
    id: str | None = None


_decode_metadata = msgspec.json.Decoder(_Metadata).decode
_NO_METADATA = _Metadata()


def metadata_json(text: str | None) -> str | None:
    """The `metadata` of an append as JSON, from the column `metadata`; None if it had none. `ValueError` if it is none.

    >>> metadata_json('{"header":{},"payload":{"data":{"by":"me"}},"id":"a"}')
    '{"by":"me"}'
    """
    if text is None or '"data"' not in text:
        return None
    found = _decode_metadata(text).payload
    data = "null" if found is None else bytes(found.data).decode()
    return None if data == "null" else data


class StoredEvent(msgspec.Struct, frozen=True, eq=False):
    """An event of a journal: its number, its payload, its tags, and the record that it came in.

    `payload` and `metadata` are decoded at every access: keep them in a variable. Two events are equal if everything
    that a program sees of them is.

    >>> row = EventRow(1, 1_700_000_000_000, 0, 17, "host", None, None, None, "json", '{"price":1.10}', tags=("paid",))
    >>> event = StoredEvent(row)
    >>> event.seq_nr, event.kind, event.payload, event.raw, event.tags
    (1, 'json', {'price': 1.1}, b'{"price":1.10}', frozenset({'paid'}))
    >>> event.timestamp.isoformat()
    '2023-11-14T22:13:20+00:00'
    """

    _row: EventRow

    @property
    def seq_nr(self) -> int:
        """The number of the event in its journal; the first is 1."""
        return self._row.seq_nr

    @property
    def kind(self) -> Kind | None:
        """`"binary"`, `"json"`, `"text"`, or None if the event has no payload."""
        return _KINDS.get(self._row.payload_type, "binary")

    @property
    def payload(self) -> Any:
        """Bytes, text, or JSON decoded; None if the event has no payload.

        A number that no float can hold is a Decimal. JSON that Python cannot decode, such as `1e99999999999999999999`
        or 2,000 nested arrays, raises `Corrupt`: `raw` has its bytes.
        """
        kind = self.kind
        if kind == "json":
            return self._decoded(self._row.payload_txt or "", "payload")
        if kind == "text":
            return self._row.payload_txt or ""
        return None if kind is None else self.raw

    @property
    def raw(self) -> bytes:
        """The payload as bytes; JSON keeps all its digits. Empty if the event has no payload."""
        kind = self.kind
        if kind == "binary":
            return self._row.payload_bin or b""
        return b"" if kind is None else (self._row.payload_txt or "").encode()

    @property
    def tags(self) -> frozenset[str]:
        """The tags of the event."""
        return frozenset(self._row.tags or ())

    @property
    def timestamp(self) -> datetime:
        """The time of the event's record, in UTC; the last moment of the year 9999 if the record names a later one."""
        try:
            return _EPOCH + timedelta(milliseconds=self._row.timestamp)
        except OverflowError:
            return _LAST

    @property
    def metadata(self) -> Any:
        """The `metadata` of the append, JSON decoded; None if it had none."""
        return self._decoded((self._metadata().payload or _NO_DATA).data, "metadata")

    @property
    def header_metadata(self) -> Any:
        """The header metadata that Scala programs write, JSON decoded; None if there is none."""
        metadata = self._metadata()
        if metadata.header is None and metadata.payload is None:
            return self._decoded(metadata.data, "header metadata")
        return self._decoded((metadata.header or _NO_DATA).data, "header metadata")

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the append."""
        return dict(self._row.headers or ())

    @property
    def partition(self) -> int:
        """The partition of the event's record."""
        return self._row.partition

    @property
    def offset(self) -> int:
        """The offset of the event's record."""
        return self._row.offset

    @property
    def origin(self) -> str | None:
        """The host that appended the event, if the record names it."""
        return self._row.origin

    @property
    def version(self) -> str | None:
        """The version of the library that appended the event, if the record names it."""
        return self._row.version

    @property
    def append_id(self) -> str | None:
        """The id of the append that the event came in; None for records of the Scala library."""
        return self._metadata().id

    def __repr__(self) -> str:
        raw = self.raw
        shown = f"{raw!r}" if len(raw) <= 64 else f"{raw[:64]!r}… {len(raw):,} bytes"
        tags = f", tags={{{', '.join(map(repr, sorted(self.tags)))}}}" if self.tags else ""
        return f"<StoredEvent {self.seq_nr} {self.kind or 'empty'} {shown}{tags} of {self.partition}@{self.offset}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StoredEvent):
            return NotImplemented
        return self._row is other._row or self._visible() == other._visible()

    def __hash__(self) -> int:
        return hash((self._row.seq_nr, self._row.partition, self._row.offset))

    def _visible(self) -> tuple[object, ...]:
        row = self._row
        place = (row.seq_nr, row.partition, row.offset, row.timestamp, row.origin, row.version)
        return (*place, self.kind, self.raw, self.tags, self.headers, *self._all_metadata())

    def _all_metadata(self) -> tuple[object, ...]:
        return self.metadata, self.header_metadata, self.append_id

    def _metadata(self) -> _Metadata:
        text = self._row.metadata
        if text is None:
            return _NO_METADATA
        try:
            return _decode_metadata(text)
        except UNDECODABLE as error:
            raise self._corrupt("metadata", error) from error

    def _decoded(self, text: str | msgspec.Raw, what: str) -> Any:
        try:
            return decode_json(text if isinstance(text, str) else bytes(text))
        except UNDECODABLE as error:
            raise self._corrupt(what, error) from error

    def _corrupt(self, what: str, error: Exception) -> Corrupt:
        row = self._row
        place = f"event {row.seq_nr} of {row.partition}@{row.offset}"
        raw = "; raw has its bytes" if what == "payload" else ""
        return Corrupt(f"{place}: its {what} cannot be decoded from JSON: {reason_of(error)}{raw}")
