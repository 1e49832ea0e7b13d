"""An event that an application appends: a payload that is encoded once, and tags."""

from collections.abc import Iterable
from typing import Literal, Self, TypeAlias

import msgspec

from cordwood.errors import InvalidInput

from .json_text import check_json, encode_json

Kind: TypeAlias = Literal["binary", "json", "text"]

_BUFFERS = (bytes, bytearray, memoryview)
_NOT_SETS = (str, *_BUFFERS)
_NO_TAGS: frozenset[str] = frozenset()


class Event(msgspec.Struct, frozen=True):
    """An event, before it has a number: make one with `binary`, `json`, `json_bytes`, `text` or `empty`.

    The payload is encoded when the event is made, so a later change of the object changes nothing.

    >>> event = Event.json({"n": 1}, tags={"paid"})
    >>> event.kind, event.raw, event.tags
    ('json', b'{"n":1}', frozenset({'paid'}))
    """

    kind: Kind | None
    """`"binary"`, `"json"`, `"text"`, or None if the event has no payload."""
    raw: bytes
    """The payload as bytes: JSON and text in UTF-8; empty if the event has no payload."""
    tags: frozenset[str] = _NO_TAGS

    def __post_init__(self) -> None:
        """Check an event that was made by hand, too: one that no reader can decode would close its journal."""
        if type(self.raw) is not bytes:
            raise TypeError(f"the raw payload of an event is bytes, not {type(self.raw).__name__}: use Event.json")
        if type(self.tags) is not frozenset:
            raise TypeError(f"the tags of an event are a frozenset, not {type(self.tags).__name__}: use Event.json")
        if self.kind == "text":
            try:
                self.raw.decode()
            except UnicodeDecodeError as error:
                raise InvalidInput(f"the text of an event is not UTF-8 at byte {error.start}") from error
        elif self.kind == "json":
            check_json(self.raw)
        elif self.kind is None:
            if self.raw:
                raise InvalidInput(f"an event without a kind has no payload, and this one has {len(self.raw)} bytes")
        elif self.kind != "binary":
            raise InvalidInput(f"the kind of an event is {self.kind!r}, not 'binary', 'json', 'text' or None")
        if self.tags:
            _check_tags(self.tags)

    @classmethod
    def binary(cls, payload: bytes | bytearray | memoryview, tags: Iterable[str] = ()) -> Self:
        """An event with bytes.

        >>> Event.binary(b"\\x00\\x01").raw
        b'\\x00\\x01'
        """
        if not isinstance(payload, _BUFFERS):
            raise TypeError(f"a binary payload is bytes, not {type(payload).__name__}")
        return cls("binary", bytes(payload), _check_tags(tags))

    @classmethod
    def json(cls, payload: object, tags: Iterable[str] = ()) -> Self:
        """An event with JSON: dicts, lists, text, numbers, and objects that msgspec writes as these.

        Large ints and Decimals keep their digits. NaN, infinities and lone surrogates are `InvalidInput`. The payload
        None, JSON's null, is read as an event without a payload, unless a binary event is in the same append.

        >>> Event.json({"total": 12345678901234567890}).raw
        b'{"total":12345678901234567890}'
        """
        if isinstance(payload, _BUFFERS):
            raise TypeError(f"a JSON payload is not {type(payload).__name__}: use Event.json_bytes for encoded JSON")
        return cls("json", encode_json(payload), _check_tags(tags))

    @classmethod
    def json_bytes(cls, encoded: bytes | bytearray | memoryview, tags: Iterable[str] = ()) -> Self:
        """An event with JSON that is encoded already; its syntax is checked, and it is kept as it is.

        Python cannot hold all JSON: a reader has `event.raw` in any case.

        >>> Event.json_bytes(b'{"price": 1.10}').raw
        b'{"price": 1.10}'
        """
        if not isinstance(encoded, _BUFFERS):
            raise TypeError(f"encoded JSON is bytes, not {type(encoded).__name__}: use Event.json for objects")
        return cls("json", check_json(bytes(encoded)), _check_tags(tags))

    @classmethod
    def text(cls, payload: str, tags: Iterable[str] = ()) -> Self:
        """An event with text.

        >>> Event.text("hi", tags={"paid"})
        Event.text(b'hi', tags={'paid'})
        """
        if not isinstance(payload, str):
            raise TypeError(f"a text payload is str, not {type(payload).__name__}")
        try:
            raw = payload.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(f"a text payload has a lone surrogate at {error.start}: UTF-8 has none") from error
        return cls("text", raw, _check_tags(tags))

    @classmethod
    def empty(cls, tags: Iterable[str] = ()) -> Self:
        """An event without a payload.

        >>> Event.empty(tags={"paid"})
        Event.empty(tags={'paid'})
        """
        return cls(None, b"", _check_tags(tags))

    def __repr__(self) -> str:
        raw = f"{self.raw!r}" if len(self.raw) <= 64 else f"{self.raw[:64]!r}… {len(self.raw):,} bytes"
        shown = [] if self.kind is None else [raw]
        if self.tags:
            shown.append(f"tags={{{', '.join(map(repr, sorted(self.tags)))}}}")
        return f"Event.{self.kind or 'empty'}({', '.join(shown)})"


def _check_tags(tags: Iterable[str]) -> frozenset[str]:
    if type(tags) is tuple and not tags:
        return _NO_TAGS
    if isinstance(tags, _NOT_SETS):
        raise TypeError(f"tags are a set of str, not {type(tags).__name__}: write {{{tags!r}}}")
    checked = frozenset(tags)
    try:
        "".join(checked).encode()
    except TypeError as error:
        raise TypeError(f"a tag of {tags!r} is not str") from error
    except UnicodeEncodeError as error:
        raise InvalidInput(f"a tag of {tags!r} has a lone surrogate: UTF-8 has none") from error
    return checked
