"""The id of a journal: the key of its records."""

from cordwood.errors import InvalidInput

ID_BYTES_MAX = 1024


def encode_id(id: str) -> bytes:
    """The key of a journal's records; `InvalidInput` if the id is not 1 to 1,024 bytes of UTF-8.

    >>> encode_id("order-1")
    b'order-1'
    """
    if not isinstance(id, str):
        raise TypeError(f"a journal's id is str, not {type(id).__name__}")
    try:
        key = id.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"the id {id[:80]!r} has a lone surrogate: UTF-8 has none", outcome="not_written") from error
    if not 1 <= len(key) <= ID_BYTES_MAX:
        raise InvalidInput(
            f"the id {id[:80]!r} has {len(key):,} bytes of UTF-8, not 1 to {ID_BYTES_MAX:,}", outcome="not_written"
        )
    return key


def decode_id(key: bytes) -> str | None:
    """The id of a record's key; None if the key is not UTF-8.

    >>> decode_id(b"order-1"), decode_id(b"\\xff")
    ('order-1', None)
    """
    try:
        return key.decode()
    except UnicodeDecodeError:
        return None
