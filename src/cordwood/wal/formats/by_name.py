"""The formats, by the names that `codec=` takes."""

from __future__ import annotations

from typing import Final

from cordwood.errors import InvalidInput
from cordwood.wal.formats.cordwood.format import CordwoodFormat
from cordwood.wal.formats.entrywise.horaedb import HoraeDbCodec
from cordwood.wal.formats.entrywise.log import ReadingFormat
from cordwood.wal.formats.entrywise.rfc.format import RfcFormat
from cordwood.wal.formats.interface import RegionFormat

FORMATS: Final[dict[str, RegionFormat]] = {
    "cordwood": CordwoodFormat(),
    "rfc": RfcFormat(),
    "horaedb": ReadingFormat(HoraeDbCodec()),
}


def format_of_codec(name: str) -> RegionFormat:
    found = FORMATS.get(name)
    if found is None:
        raise InvalidInput(f"codec is {name!r}: it is one of {', '.join(map(repr, FORMATS))}")
    return found
