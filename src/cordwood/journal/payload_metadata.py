"""The metadata of a value: after how long the journal expires, and the caller's own data."""

from datetime import timedelta

import msgspec

from .bad_record import BadRecord
from .duration import decode_duration, decode_milliseconds, encode_duration, ns_of_timedelta
from .json_fields import is_null


class _Metadata(msgspec.Struct):
    expire_after: str | int | float | None = msgspec.field(default=None, name="expireAfter")
    data: msgspec.Raw = msgspec.Raw(b"")


_decode = msgspec.json.Decoder(_Metadata).decode


def encode_metadata(expire_after: timedelta | None, data: bytes | None) -> bytes:
    """The metadata as JSON; `data` is JSON already.

    >>> encode_metadata(timedelta(days=1), b'{"k":1}').decode()
    '{"expireAfter":"1 day","data":{"k":1}}'
    """
    ns = None if expire_after is None else ns_of_timedelta(expire_after)
    return _text_of(ns, None if data is None else data.decode()).encode()


def decode_metadata(encoded: msgspec.Raw | bytes) -> tuple[int | None, str]:
    """The nanoseconds of `expireAfter`, and the metadata as the store keeps it: compact, known fields alone.

    >>> decode_metadata(b'{"expireAfter": "24 hours", "data": null}')
    (86400000000000, '{"expireAfter":"1 day"}')
    """
    try:
        metadata = _decode(encoded)
        data = None if is_null(metadata.data) else str(metadata.data, "utf-8")
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"the value's metadata cannot be read: {error}") from error
    ns = _ns_of(metadata.expire_after)
    return ns, _text_of(ns, data)


def _ns_of(expire_after: str | int | float | None) -> int | None:
    if expire_after is None:
        return None
    if isinstance(expire_after, str):
        return decode_duration(expire_after)
    if expire_after != int(expire_after):
        raise BadRecord(f"expireAfter is {expire_after}, not whole milliseconds")
    return decode_milliseconds(int(expire_after))


def _text_of(ns: int | None, data: str | None) -> str:
    fields = [] if ns is None else [f'"expireAfter":"{encode_duration(ns)}"']
    if data is not None:
        fields.append(f'"data":{data}')
    return f"{{{','.join(fields)}}}"
