"""The 64 bytes after the last frame of a sealed plog (docs/formats/plog.md)."""

import struct
from typing import NamedTuple

from crc32c import crc32c

SEAL_BYTES = 64
_MAGIC = b"SEAL"
_VERSION = 1
_LAYOUT = struct.Struct("<4sB3xQQQq20x")
_CRC = struct.Struct("<I")


class Seal(NamedTuple):
    """The final end of a plog: the byte position, the offset that follows, and the highest timestamp."""

    plog: int
    end: int
    next_offset: int
    max_timestamp: int

    def encode(self) -> bytes:
        body = _LAYOUT.pack(_MAGIC, _VERSION, *self)
        return body + _CRC.pack(crc32c(body))

    @classmethod
    def decode(cls, data: bytes | memoryview) -> "Seal | None":
        """The seal in these bytes, or None: a plog without one is simply open."""
        if len(data) < SEAL_BYTES:
            return None
        body, crc = data[: _LAYOUT.size], _CRC.unpack_from(data, _LAYOUT.size)[0]
        if crc32c(body) != crc:
            return None
        magic, version, *fields = _LAYOUT.unpack(body)
        return cls(*fields) if (magic, version) == (_MAGIC, _VERSION) else None
