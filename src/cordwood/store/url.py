"""The url of a store, parsed and checked.

sqlite:./store.db  sqlite:/abs/store.db  sqlite:///abs/store.db    a file
cassandra://HOST,HOST:9042/KEYSPACE?local_dc=DC                    not built yet
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote, unquote_to_bytes

from cordwood.errors import InvalidInput, Unavailable, reason_of
from cordwood.url import masked_url

ALLOWED = "sqlite:PATH"


@dataclass(frozen=True)
class SqliteUrl:
    """A SQLite file, by its absolute path.

    >>> str(SqliteUrl(Path("/srv/my store.db")))
    'sqlite:/srv/my%20store.db'
    """

    path: Path
    scheme: ClassVar = "sqlite"

    def __str__(self) -> str:
        return f"sqlite:{quote(os.fsencode(self.path))}"


def parse_store_url(url: str, base: Path | None = None) -> SqliteUrl:
    """Parse the url of a store. A relative path begins at `base`, or at the current folder if that is None.

    InvalidInput names the mistake. `Unavailable` if there is no current folder, or no store of that scheme yet.

    >>> str(parse_store_url("sqlite:store.db", Path("/srv/data")))
    'sqlite:/srv/data/store.db'
    """
    if not isinstance(url, str):
        raise TypeError(f"the url of a store is a str, not {type(url).__name__}")
    scheme, colon, rest = url.partition(":")
    if not url:
        raise _wrong(url, "it is empty")
    if not colon or not _SCHEME.fullmatch(scheme):
        raise _wrong(url, f"it has no scheme; did you mean 'sqlite:{quote(masked_url(url), errors='replace')}'?")
    match scheme.lower():
        case "sqlite":
            return SqliteUrl(_path(url, rest, base))
        case "cassandra":
            raise Unavailable(
                f"{masked_url(url)!r}: this version has no store on Cassandra: use sqlite:PATH", reason="unsupported"
            )
    raise _wrong(url, f"the scheme {scheme!r} is unknown")


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def _path(url: str, rest: str, base: Path | None) -> Path:
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        if authority not in ("", "localhost"):
            raise _wrong(url, "a store is a file on this machine: write sqlite:/abs/path or sqlite:./relative")
        rest = slash + path
    _check_text(url, rest)
    path = os.fsdecode(_unescape(url, rest))
    if "\0" in path:
        raise _wrong(url, "a path has no NUL characters")
    try:
        return (Path(path) if base is None else base / path).absolute()
    except OSError as error:
        why = f"its path is relative, and there is no current folder: {error}"
        raise Unavailable(f"{url!r}: {why}", reason=reason_of(error)) from error


def _check_text(url: str, rest: str) -> None:
    for character, escape in (("?", "%3F"), ("#", "%23")):
        if character in rest:
            raise _wrong(url, f"sqlite: takes no settings; a {character!r} in a path is written {escape}")
    if not rest:
        raise _wrong(url, "the path is missing: write sqlite:./store.db")
    if rest == "~" or rest.startswith("~/"):
        raise _wrong(url, "'~' is not the home folder here: write its path")
    if rest.startswith(":"):
        raise _wrong(url, "a store is a file that outlives the program: write sqlite:./store.db")
    if rest.endswith("/"):
        raise _wrong(url, "a store is a file, and a path that ends with '/' is a folder")


def _unescape(url: str, text: str) -> bytes:
    if _BAD_ESCAPE.search(text):
        raise _wrong(url, "a '%' is followed by two hexadecimal digits; '%' itself is written %25")
    try:
        return unquote_to_bytes(os.fsencode(text))
    except UnicodeEncodeError:
        raise _wrong(url, "it has a lone surrogate in it, which is no character") from None


def _wrong(url: str, why: str) -> InvalidInput:
    return InvalidInput(f"{masked_url(url)!r} is no store: {why} (allowed: {ALLOWED})")
