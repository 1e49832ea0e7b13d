"""The codecs by name."""

from __future__ import annotations

from typing import Final

from cordwood.errors import InvalidInput
from cordwood.wal.cordwood_codec import CordwoodCodec
from cordwood.wal.horaedb_codec import HoraeDbCodec
from cordwood.wal.opened import Codec
from cordwood.wal.plain_log import ReadingCodec
from cordwood.wal.rfc_regions import RfcRegions

CODECS: Final[dict[str, Codec]] = {
    "cordwood": CordwoodCodec(),
    "rfc": RfcRegions(),
    "horaedb": ReadingCodec(HoraeDbCodec()),
}


def checked_codec(name: str) -> Codec:
    codec = CODECS.get(name)
    if codec is None:
        raise InvalidInput(f"codec is {name!r}: it is one of {', '.join(map(repr, CODECS))}")
    return codec
