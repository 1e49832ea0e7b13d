"""The codecs by name."""

from __future__ import annotations

from typing import Final

from cordwood.errors import InvalidInput
from cordwood.wal.cordwood_codec import CordwoodCodec
from cordwood.wal.horaedb_codec import HoraeDbCodec
from cordwood.wal.opened import Codec
from cordwood.wal.plain_log import ReadingCodec

CODECS: Final[dict[str, Codec]] = {"cordwood": CordwoodCodec(), "horaedb": ReadingCodec(HoraeDbCodec())}


def checked_codec(name: str) -> Codec:
    codec = CODECS.get(name)
    if codec is None:
        raise InvalidInput(f"codec is {name!r}: it is one of {', '.join(map(repr, CODECS))}")
    return codec
