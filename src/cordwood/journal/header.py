"""The header `journal.action` of a record: an action as JSON, byte for byte as the Scala library writes it.

Our further fields follow the library's inside the action's object. An action without them has the same bytes.
"""

import uuid
from collections.abc import Callable
from typing import Annotated, Literal

import msgspec

from cordwood.errors import InvalidInput

from .action import Action, Append, Delete, Mark, Purge
from .bad_record import UNDECODABLE, BadRecord, reason_of
from .json_fields import SEQ_NR_MAX, Fields, is_null, read_field, read_number, read_text, split_object

_SeqNr = Annotated[int, msgspec.Meta(ge=1, le=SEQ_NR_MAX)]
_Expected = Annotated[int, msgspec.Meta(ge=0, le=SEQ_NR_MAX)]

_NOTHING = msgspec.Raw(b"")


class _Range(msgspec.Struct):
    first: _SeqNr = msgspec.field(name="from")
    last: _SeqNr = msgspec.field(name="to")


class _Metadata(msgspec.Struct, omit_defaults=True):
    data: msgspec.Raw = _NOTHING


_NO_METADATA = _Metadata()


class _Append(msgspec.Struct, omit_defaults=True):
    range: _Range
    origin: str | None = None
    version: str | None = None
    payload_type: Literal["json", "binary"] | None = msgspec.field(default=None, name="payloadType")
    metadata: _Metadata | None = None
    id: str | None = None
    expected: _Expected | None = None
    life: str | None = None
    named: str | None = None
    keep_expiry: bool = msgspec.field(default=False, name="keepExpiry")
    after: str | None = None


class _Mark(msgspec.Struct, omit_defaults=True):
    id: str
    origin: str | None = None
    version: str | None = None


class _Delete(msgspec.Struct, omit_defaults=True):
    to: _SeqNr
    origin: str | None = None
    version: str | None = None
    life: str | None = None


class _Purge(msgspec.Struct, omit_defaults=True):
    origin: str | None = None
    version: str | None = None
    life: str | None = None
    seq_nr: _SeqNr | None = msgspec.field(default=None, name="seqNr")


class _Header(msgspec.Struct):
    append: _Append | None = None
    mark: _Mark | None = None
    delete: _Delete | None = None
    purge: _Purge | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Header).decode


def encode_header(action: Action) -> bytes:
    """The header of a record.

    >>> encode_header(Append(1, 4, origin="host")).decode()
    '{"append":{"range":{"from":1,"to":4},"origin":"host","payloadType":"json","metadata":{}}}'
    >>> encode_header(Delete(3, life="f0e1")).decode()
    '{"delete":{"to":3,"life":"f0e1"}}'
    """
    try:
        match action:
            case Append():
                return b'{"append":%b}' % _encode(
                    _Append(
                        _Range(action.first, action.last),
                        action.origin,
                        action.version,
                        action.payload_type,  # type: ignore[arg-type]  # the action has a plain str
                        _NO_METADATA if action.metadata is None else _Metadata(msgspec.Raw(action.metadata)),
                        action.id,
                        action.expected,
                        action.life,
                        action.named,
                        action.keep_expiry,
                        action.after,
                    )
                )
            case Mark():
                return b'{"mark":%b}' % _encode(_Mark(action.id, action.origin, action.version))
            case Delete():
                return b'{"delete":%b}' % _encode(_Delete(action.to, action.origin, action.version, action.life))
            case Purge():
                return b'{"purge":%b}' % _encode(_Purge(action.origin, action.version, action.life, action.seq_nr))
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{error.object!r} has a lone surrogate: UTF-8 has none") from error


def decode_header(header: bytes) -> Action | None:
    """The action of a header; None if this version knows no such action. `BadRecord` if it cannot be decoded.

    >>> decode_header(b'{"mark":{"id":"m"}}')
    Mark(id='m', origin=None, version=None)
    >>> decode_header(b'{"rename":{"to":"x"}}')
    """
    try:
        decoded = _decode(header)
    except UNDECODABLE:
        return _decode_uncommon(header)
    append = decoded.append
    if append is not None:
        numbers = append.range
        if append.payload_type is None or numbers.first > numbers.last or not _is_life(append.named):
            return _decode_uncommon(header)
        metadata = append.metadata
        return Append(
            numbers.first,
            numbers.last,
            append.payload_type,
            append.origin,
            append.version,
            None if metadata is None else _data(metadata.data),
            append.id,
            append.expected,
            append.life,
            append.named,
            append.keep_expiry,
            append.after,
        )
    if (mark := decoded.mark) is not None:
        return Mark(mark.id, mark.origin, mark.version)
    if (delete := decoded.delete) is not None:
        return Delete(delete.to, delete.origin, delete.version, delete.life)
    if (purge := decoded.purge) is not None:
        return Purge(purge.origin, purge.version, purge.life, purge.seq_nr)
    return None


def _data(raw: msgspec.Raw | None) -> bytes | None:
    """The `data` of the metadata: msgspec checks the syntax of a value that it slices, but not its UTF-8."""
    if raw is None or is_null(raw):
        return None
    data = bytes(raw)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise BadRecord("the append's metadata is not UTF-8") from error
    return data


def _decode_uncommon(header: bytes) -> Action | None:
    """Decode a header that the fast decoder refuses."""
    try:
        return _decode_fields(header)
    except BadRecord:
        raise
    except UNDECODABLE as error:
        raise BadRecord(f"the header cannot be decoded: {reason_of(error)}") from error


def _is_life(named: str | None) -> bool:
    """Whether it can be the name of a life: a store on Cassandra keeps that as a UUID."""
    if named is None:
        return True
    try:
        return str(uuid.UUID(named)) == named
    except ValueError:
        return False


def _decode_fields(header: bytes) -> Action | None:
    """The first of the four actions that is an object counts."""
    actions = split_object(header, "the header")
    for name, read in _READERS.items():
        raw = None if actions is None else actions.get(name)
        fields = None if raw is None else split_object(raw, f"the header's {name}")
        if fields is not None:
            return read(fields)
    return None


def _read_append(fields: Fields) -> Append:
    numbers = split_object(fields.get("range", msgspec.Raw(b"null")), "the append's range")
    if numbers is None:
        raise BadRecord("the append has no range")
    first = _required(read_number(numbers, "from", "the append's from", 1), "the append has no from")
    last = _required(read_number(numbers, "to", "the append's to", 1), "the append has no to")
    if first > last:
        raise BadRecord(f"the append's range is from {first} to {last}")
    payload_type = read_text(fields, "payloadType", "the append's payloadType")
    if payload_type not in ("json", "binary"):
        raise BadRecord(f"the append's payloadType is {payload_type!r}, not 'json' or 'binary'")
    metadata = split_object(fields.get("metadata", msgspec.Raw(b"null")), "the append's metadata") or {}
    named = read_text(fields, "named", "the append's named")
    if not _is_life(named):
        raise BadRecord(f"the append's named is {named!r}, and no UUID")
    keep_expiry = read_field(fields, "keepExpiry", "the append's keepExpiry") or False
    if not isinstance(keep_expiry, bool):
        raise BadRecord(f"the append's keepExpiry is {keep_expiry!r}, not true or false")
    return Append(
        first,
        last,
        payload_type,
        read_text(fields, "origin", "the append's origin"),
        read_text(fields, "version", "the append's version"),
        _data(metadata.get("data")),
        read_text(fields, "id", "the append's id"),
        read_number(fields, "expected", "the append's expected", 0),
        read_text(fields, "life", "the append's life"),
        named,
        keep_expiry,
        read_text(fields, "after", "the append's after"),
    )


def _read_mark(fields: Fields) -> Mark:
    id = read_text(fields, "id", "the mark's id")
    if id is None:
        raise BadRecord("the mark has no id")
    return Mark(
        id, read_text(fields, "origin", "the mark's origin"), read_text(fields, "version", "the mark's version")
    )


def _read_delete(fields: Fields) -> Delete:
    return Delete(
        _required(read_number(fields, "to", "the delete's to", 1), "the delete has no to"),
        read_text(fields, "origin", "the delete's origin"),
        read_text(fields, "version", "the delete's version"),
        read_text(fields, "life", "the delete's life"),
    )


def _read_purge(fields: Fields) -> Purge:
    return Purge(
        read_text(fields, "origin", "the purge's origin"),
        read_text(fields, "version", "the purge's version"),
        read_text(fields, "life", "the purge's life"),
        read_number(fields, "seqNr", "the purge's seqNr", 1),
    )


_READERS: dict[str, Callable[[Fields], Action]] = {
    "append": _read_append,
    "mark": _read_mark,
    "delete": _read_delete,
    "purge": _read_purge,
}


def _required(number: int | None, reason: str) -> int:
    if number is None:
        raise BadRecord(reason)
    return number
