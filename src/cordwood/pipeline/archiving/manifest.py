"""The manifest of a run: one line of text, written after everything that it names was verified. No I/O."""

from collections.abc import Sequence

import msgspec
from crc32c import crc32c

from cordwood.errors import Corrupt, InvalidInput

NAME = "cordwood-archive"
VERSION = 1


class ArchivedRange(msgspec.Struct, frozen=True):
    """The offsets [start, stop) of one partition, and what their records add up to."""

    partition: int
    start: int
    stop: int
    records: int
    actions: int
    """How many of them have an action of a journal."""
    hash: str
    """Of all columns of all records, whatever their order: 32 hexadecimal digits."""


class Manifest(msgspec.Struct, frozen=True):
    """A run that is complete."""

    run: str
    """Its folder of Parquet files is `data/run=<run>`."""
    topic: str
    topic_id: str
    created_ms: int
    ranges: Sequence[ArchivedRange]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Manifest).decode


def encode_manifest(manifest: Manifest) -> str:
    """The line: the format's name and version, the CRC32C of the JSON, and the JSON.

    >>> encode_manifest(Manifest("17-c0ffee", "orders", "7", 17, []))[:27]
    'cordwood-archive 1 8815f9f7'
    """
    text = _encode(manifest)
    return f"{NAME} {VERSION} {crc32c(text):08x} {text.decode()}"


def decode_manifest(line: str) -> Manifest:
    """The manifest of a line. `Corrupt` for a line that was cut or changed, `InvalidInput` for an unknown version."""
    name, version, crc, text = [*line.split(" ", 3), "", "", ""][:4]
    if name != NAME:
        raise Corrupt(f"an archive's manifest begins with {line[:40]!r}, not {NAME!r}: restore a copy")
    if version != str(VERSION):
        raise InvalidInput(
            f"an archive's manifest has version {version[:20]}; this Cordwood knows version {VERSION}: use a newer one"
        )
    found = f"{crc32c(text.encode()):08x}"
    if crc != found:
        raise Corrupt(f"an archive's manifest has the CRC {crc[:20]}, and that of its text is {found}: restore a copy")
    try:
        return _decode(text)
    except msgspec.DecodeError as error:
        raise Corrupt(f"an archive's manifest cannot be decoded: {error}") from error
