"""The url of a store, parsed and checked.

sqlite:./store.db  sqlite:/abs/store.db  sqlite:///abs/store.db    a file
cassandra://HOST,HOST:9042/KEYSPACE?local_dc=DC&consistency=QUORUM    a keyspace

No url has a secret in it: a login and the files for TLS are in the config of a store.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, TypeAlias
from urllib.parse import quote, unquote_to_bytes

from cordwood.errors import InvalidInput, Unavailable, reason_of
from cordwood.url import masked_url

ALLOWED = "sqlite:PATH or cassandra://HOST:PORT,…/KEYSPACE?local_dc=DC&consistency=LEVEL"
CASSANDRA_PORT: Final = 9042
CONSISTENCIES: Final = ("LOCAL_QUORUM", "QUORUM")
"""Reads and writes of a majority meet each other. A lower level would lose acked events, and a higher one lives with no
node that is away."""


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


@dataclass(frozen=True)
class CassandraUrl:
    """A keyspace, and some nodes of its cluster as `host:port`; the others are found through them.

    >>> str(CassandraUrl(("c1:9042",), "journal", local_dc="dc1"))
    'cassandra://c1:9042/journal?local_dc=dc1'
    """

    hosts: tuple[str, ...]
    keyspace: str
    local_dc: str | None = None
    consistency: str = CONSISTENCIES[0]
    scheme: ClassVar = "cassandra"

    def __str__(self) -> str:
        settings = [] if self.local_dc is None else [f"local_dc={quote(self.local_dc)}"]
        if self.consistency != CONSISTENCIES[0]:
            settings.append(f"consistency={self.consistency}")
        query = f"?{'&'.join(settings)}" if settings else ""
        return f"cassandra://{','.join(self.hosts)}/{self.keyspace}{query}"


StoreUrl: TypeAlias = SqliteUrl | CassandraUrl


def parse_store_url(url: str, base: Path | None = None) -> StoreUrl:
    """Parse the url of a store. A relative path begins at `base`, or at the current folder if that is None.

    InvalidInput names the mistake. `Unavailable` if there is no current folder.

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
            return _cassandra_url(url, rest)
    raise _wrong(url, f"the scheme {scheme!r} is unknown")


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_HOST = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?")
_KEYSPACE = re.compile(r"[A-Za-z0-9_]{1,48}")
_SETTINGS = ("local_dc", "consistency")


def _cassandra_url(url: str, rest: str) -> CassandraUrl:
    address, _, query = rest.partition("?")
    if not address.startswith("//"):
        raise _wrong(url, "two slashes come before the nodes: write cassandra://HOST/KEYSPACE")
    authority, _, keyspace = address[2:].partition("/")
    if "@" in address:
        raise _wrong(url, "a login has no place in it: put username and password into the store's config")
    hosts = tuple(_host(url, host) for host in authority.split(","))
    if not _KEYSPACE.fullmatch(keyspace):
        raise _wrong(url, "after the nodes comes /KEYSPACE: 1 to 48 letters, digits and '_'")
    settings = _settings(url, query)
    consistency = settings.get("consistency", CONSISTENCIES[0]).upper()
    if consistency not in CONSISTENCIES:
        raise _wrong(url, f"consistency is {settings['consistency']!r}: it is one of {', '.join(CONSISTENCIES)}")
    return CassandraUrl(hosts, keyspace, settings.get("local_dc"), consistency)


def _host(url: str, text: str) -> str:
    found = _HOST.fullmatch(text)
    if found is None:
        raise _wrong(url, "each node is HOST or HOST:PORT, and a comma separates two of them")
    port = int(found["port"] or CASSANDRA_PORT)
    if not 0 < port < 65536:
        raise _wrong(url, f"the port {port} of {found['host']!r} is not between 1 and 65535")
    return f"{found['host']}:{port}"


def _settings(url: str, query: str) -> dict[str, str]:
    settings: dict[str, str] = {}
    for setting in filter(None, query.split("&")):
        name, _, value = setting.partition("=")
        if name not in _SETTINGS:
            raise _wrong(url, f"its setting {name!r} is unknown: they are {' and '.join(_SETTINGS)}")
        if name in settings:
            raise _wrong(url, f"{name} is set twice: keep one")
        try:
            settings[name] = _unescape(url, value).decode()
        except UnicodeDecodeError:
            raise _wrong(url, f"{name} is not UTF-8") from None
        if not settings[name]:
            raise _wrong(url, f"{name} has no value")
    return settings


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
