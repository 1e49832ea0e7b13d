"""The records of the metadata stream (docs/formats/metadata.md).

A record belongs to one service, which is a log, by its name (the key of the stored record). The value:
version u8, type u8, then the body. Strings are u8 length + UTF-8, numbers are little-endian.

- 1 init: first offset i64, id. A new plog is the last of the chain.
- 2 incremental: end i64, next offset i64, highest timestamp i64, id of the sealed plog; then an init body, or nothing.
  The last plog is sealed, and the next one, if there is one, follows.
- 3 full: u32 n, then n links: first offset, end (-1: open), next offset, highest timestamp (i64 each), id. The chain is
  exactly this; n = 0: the service is gone.
- 4 dropped: u32 n, then n ids. These plogs, the oldest, are no longer part of the chain.
- 5 continued: as full. These links follow: a chain that is too long for one record.
"""

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cordwood.errors import Corrupt
from cordwood.log.native.plog import PlogId

from .chain import Chain, Link

_VERSION = 1
_HEAD = struct.Struct("<BB")
_COUNT = struct.Struct("<I")
_OFFSET = struct.Struct("<q")
_SEALED = struct.Struct("<qqq")
_LINK = struct.Struct("<qqqq")
_OPEN = -1


class Init(NamedTuple):
    link: Link


class Incremental(NamedTuple):
    sealed: Link
    next: Link | None


class Full(NamedTuple):
    links: Sequence[Link]


class Dropped(NamedTuple):
    ids: Sequence[PlogId]


class Continued(NamedTuple):
    links: Sequence[Link]


MetadataRecord = Init | Incremental | Full | Dropped | Continued

# 10,000 links are about 600 KB: well below the limit of a frame.
_LINKS_MAX = 10_000
DROPPED_MAX = 10_000


def whole_chain(chain: Chain) -> list[MetadataRecord]:
    """The records that describe a whole chain, however long it is."""
    parts = [chain.links[at : at + _LINKS_MAX] for at in range(0, len(chain), _LINKS_MAX)] or [()]
    return [Full(parts[0]), *map(Continued, parts[1:])]


def apply(chain: Chain, record: MetadataRecord) -> Chain:
    """The chain after this record. A record that does not follow from the chain is `Corrupt`."""
    match record:
        case Init(link):
            return chain.with_link(link)
        case Incremental(sealed, following):
            if chain.last is None or chain.last.id != sealed.id:
                raise Corrupt(f"the metadata seals plog {sealed.id}, which is not the last of its chain")
            chain = chain.with_last(chain.last.sealed(sealed.end or 0, sealed.next_offset, sealed.max_timestamp))
            return chain if following is None else chain.with_link(following)
        case Full(links):
            return Chain(links)
        case Dropped(ids):
            return chain.without(ids)
        case Continued(links):
            return Chain((*chain.links, *links))


def encode(record: MetadataRecord) -> bytes:
    match record:
        case Init(link):
            return _HEAD.pack(_VERSION, 1) + _init(link)
        case Incremental(sealed, following):
            body = _SEALED.pack(sealed.end or 0, sealed.next_offset, sealed.max_timestamp) + _id(sealed.id)
            return _HEAD.pack(_VERSION, 2) + body + (b"" if following is None else _init(following))
        case Full(links) | Continued(links):
            body = b"".join(
                _LINK.pack(x.first_offset, _OPEN if x.end is None else x.end, x.next_offset, x.max_timestamp)
                + _id(x.id)
                for x in links
            )
            type = 3 if isinstance(record, Full) else 5
            return _HEAD.pack(_VERSION, type) + _COUNT.pack(len(links)) + body
        case Dropped(ids):
            return _HEAD.pack(_VERSION, 4) + _COUNT.pack(len(ids)) + b"".join(map(_id, ids))


def decode(value: bytes) -> MetadataRecord:
    cursor = _Cursor(value)
    try:
        version, type = cursor.take(_HEAD)
        if version != _VERSION:
            raise Corrupt(f"a metadata record of version {version}; this version of cordwood reads version {_VERSION}")
        if type not in _DECODERS:
            raise Corrupt(f"a metadata record of the unknown type {type}")
        record = _DECODERS[type](cursor)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise Corrupt(f"a metadata record of {len(value)} bytes is cut short or garbled") from error
    if not cursor.at_end:
        raise Corrupt(f"a metadata record has {len(value) - cursor.at} bytes too many")
    return record


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    @property
    def at_end(self) -> bool:
        return self.at == len(self.data)

    def take(self, layout: struct.Struct) -> tuple[int, ...]:
        fields = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return fields

    def id(self) -> PlogId:
        length = self.data[self.at]
        text = self.data[self.at + 1 : self.at + 1 + length]
        if len(text) != length:
            raise IndexError
        self.at += 1 + length
        return PlogId.parse(text.decode())


def _init(link: Link) -> bytes:
    return _OFFSET.pack(link.first_offset) + _id(link.id)


def _id(id: PlogId) -> bytes:
    text = str(id).encode()
    return bytes([len(text)]) + text


def _take_init(cursor: _Cursor) -> Link:
    (first_offset,) = cursor.take(_OFFSET)
    return Link(cursor.id(), first_offset)


def _take_incremental(cursor: _Cursor) -> Incremental:
    end, next_offset, max_timestamp = cursor.take(_SEALED)
    sealed = Link(cursor.id(), 0, end, next_offset, max_timestamp)
    return Incremental(sealed, None if cursor.at_end else _take_init(cursor))


def _take_link(cursor: _Cursor) -> Link:
    first_offset, end, next_offset, max_timestamp = cursor.take(_LINK)
    return Link(cursor.id(), first_offset, None if end == _OPEN else end, next_offset, max_timestamp)


def _take_links(cursor: _Cursor) -> list[Link]:
    return [_take_link(cursor) for _ in range(cursor.take(_COUNT)[0])]


_DECODERS: dict[int, Callable[[_Cursor], MetadataRecord]] = {
    1: lambda cursor: Init(_take_init(cursor)),
    2: _take_incremental,
    3: lambda cursor: Full(_take_links(cursor)),
    4: lambda cursor: Dropped([cursor.id() for _ in range(cursor.take(_COUNT)[0])]),
    5: lambda cursor: Continued(_take_links(cursor)),
}
