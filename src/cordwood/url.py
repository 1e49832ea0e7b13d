"""The target of a connection: the url of `connect`, parsed and checked.

    file:./data  file:/abs/data  file:///abs/data    a folder; a path object means the same
    kafka://b1:9092,b2:9092?name=value               brokers and librdkafka settings
    plog://host:7400/CLUSTER                         Cordwood's own log servers

A result holds secrets as they are, but neither its `repr` or `str` nor the message of an error shows one.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias
from urllib.parse import quote, unquote, unquote_to_bytes

from cordwood.errors import InvalidInput, Unavailable, reason_of

ALLOWED = "file:FOLDER, kafka://HOST:PORT,…?NAME=VALUE&…, plog://HOST:PORT,…/CLUSTER or a path object"
KAFKA_PORT = 9092  # librdkafka's port for a broker without one
NO_CONFIG: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class FileUrl:
    """A folder, by its absolute path.

    >>> str(FileUrl(Path("/srv/my data")))
    'file:/srv/my%20data'
    """

    path: Path
    scheme: ClassVar = "file"

    def __str__(self) -> str:
        return f"file:{quote(os.fsencode(self.path))}"


@dataclass(frozen=True, repr=False)
class KafkaUrl:
    """Kafka brokers as `host:port`, and librdkafka settings by name.

    >>> KafkaUrl(("b1:9092",), {"sasl.password": "x"})
    KafkaUrl(servers=('b1:9092',), config={'sasl.password': '***'})
    """

    servers: tuple[str, ...]
    config: Mapping[str, str] = field(default_factory=dict, hash=False)
    scheme: ClassVar = "kafka"

    def __post_init__(self) -> None:
        object.__setattr__(self, "config", MappingProxyType(dict(self.config)))

    def __repr__(self) -> str:
        return f"KafkaUrl(servers={self.servers!r}, config={masked_config(self.config)!r})"

    def __str__(self) -> str:
        shown = masked_config(self.config).items()
        query = "&".join(f"{_escape(name)}={_escape(value)}" for name, value in shown)
        return f"kafka://{','.join(self.servers)}" + (f"?{query}" if query else "")

    # A mapping proxy cannot be pickled.
    def __reduce__(self) -> tuple[Any, ...]:
        return KafkaUrl, (self.servers, dict(self.config))


@dataclass(frozen=True)
class PlogUrl:
    """The coordinators of a cluster of log servers as `host:port`, and the cluster's name.

    >>> str(PlogUrl(("c1:7400",), "main"))
    'plog://c1:7400/main'
    """

    servers: tuple[str, ...]
    cluster: str
    scheme: ClassVar = "plog"

    def __str__(self) -> str:
        return f"plog://{','.join(self.servers)}/{self.cluster}"


Url: TypeAlias = FileUrl | KafkaUrl | PlogUrl


def parse_url(url: str | os.PathLike[str], config: Mapping[str, str] = NO_CONFIG) -> Url:
    """Parse `url`, and add the settings of `config`; InvalidInput names the mistake.

    `Unavailable` if a relative path has no base: the current folder was removed.

    >>> parse_url("kafka://b1:9092,b2?client.id=me", {"sasl.password": "x"})
    KafkaUrl(servers=('b1:9092', 'b2:9092'), config={'client.id': 'me', 'sasl.password': '***'})
    """
    _check_types(url, config)
    if not isinstance(url, str):
        _check_no_config(os.fspath(url), config)
        return _folder(os.fspath(url), os.fspath(url))
    scheme, colon, rest = url.partition(":")
    if not colon or not _SCHEME.fullmatch(scheme):
        raise _wrong(url, f"it has no scheme; did you mean {_guess(url)}?" if url else "it is empty")
    match scheme.lower():
        case "file":
            _check_no_config(url, config)
            return _file_url(url, rest)
        case "kafka":
            return _kafka_url(url, rest, config)
        case "plog":
            _check_no_config(url, config)
            return _plog_url(url, rest)
    if _PORT.fullmatch(rest):
        raise _wrong(url, f"it has no scheme; did you mean 'kafka://{url}'?")
    raise _wrong(url, f"the scheme {scheme!r} is unknown")


def masked_config(config: Mapping[str, str]) -> dict[str, str]:
    """The settings with every secret as `***`: by their name, and logins inside of a value.

    >>> masked_config({"sasl.password": "x", "client.id": "me"})
    {'sasl.password': '***', 'client.id': 'me'}
    """
    return {name: _MASK if is_secret(name) else _mask_login(value) for name, value in config.items()}


def masked_url(url: str) -> str:
    """`url`, however wrong it is, with the login before an `@` and the secret settings as `***`.

    >>> masked_url("kafka://me:x@b1:9092?ssl.key.password=y")
    'kafka://***@b1:9092?ssl.key.password=***'
    """
    head, question, query = url.partition("?")
    shown = _mask_query(query)
    if "@" in query and shown != query:  # a secret and a login may be entangled: show neither
        return f"{_before_login(url)}{_MASK}"
    return _mask_login(head + question + shown)


_MASK = "***"
_SECRET = re.compile("password|passwd|passphrase|secret|token|key|credential|oauth|jaas", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_PATH_ONLY = re.compile(r"file:(?!//[^/])", re.IGNORECASE)
_BEFORE_LOGIN = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?(?://)?")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SERVER = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?")
_PORT = re.compile(r"[0-9]{1,5}")
_CLUSTER = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


def _file_url(url: str, rest: str) -> FileUrl:
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        if authority not in ("", "localhost"):
            raise _wrong(url, "a folder is on this machine: write file:/abs/path or file:./relative")
        rest = slash + path
    for character, escape in (("?", "%3F"), ("#", "%23")):
        if character in rest:
            raise _wrong(url, f"file: takes no settings; a {character!r} in a path is written {escape}")
    if not rest:
        raise _wrong(url, "the path is missing: write file:./data")
    if rest == "~" or rest.startswith("~/"):
        # A shell does not expand it after "file:", and a folder named ~ should not be created, or removed, by mistake.
        raise _wrong(url, "'~' is not the home folder here: write its path, or file:./~ for a folder of that name")
    return _folder(url, os.fsdecode(_unescape(url, rest)))


def _folder(url: str, path: str) -> FileUrl:
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        raise _wrong(url, "the path cannot be encoded for this system") from None
    if b"\0" in encoded:
        raise _wrong(url, "a path has no NUL characters")
    try:
        return FileUrl(Path(path).absolute())
    except OSError as error:
        why = f"its path is relative, and there is no current folder: {error}"
        raise Unavailable(f"cannot connect to {masked_url(url)!r}: {why}", reason=reason_of(error)) from error


def _kafka_url(url: str, rest: str, config: Mapping[str, str]) -> KafkaUrl:
    address, _, query = rest.partition("?")
    servers, path = _servers(url, address, default_port=KAFKA_PORT)
    if path not in ("", "/"):
        raise _wrong(url, "kafka:// takes no path: topics are named in the calls, as in client.log('events')")
    settings = _settings(url, query)
    twice = sorted(settings.keys() & config.keys())
    if twice:
        raise _wrong(url, f"{', '.join(twice)} is set in the url and in config as well: keep one")
    settings.update(config)
    if "bootstrap.servers" in settings:
        raise _wrong(url, "bootstrap.servers is set, but the url names the servers: leave it out")
    return KafkaUrl(servers, settings)


def _plog_url(url: str, rest: str) -> PlogUrl:
    if "?" in rest:
        raise _wrong(url, "plog:// takes no settings")
    servers, path = _servers(url, rest, default_port=None)
    cluster = path.removeprefix("/")
    if not _CLUSTER.fullmatch(cluster):
        raise _wrong(url, "after the servers comes /CLUSTER: 1 to 249 letters, digits, '.', '_' and '-'")
    return PlogUrl(servers, cluster)


def _servers(url: str, address: str, default_port: int | None) -> tuple[tuple[str, ...], str]:
    """The servers between `//` and the path, and the path."""
    if not address.startswith("//"):
        raise _wrong(url, "two slashes come before the servers, as in kafka://HOST:PORT")
    authority, slash, path = address[2:].partition("/")
    if "@" in address:
        raise _wrong(url, "a login has no place in it: put it into config, as sasl.username and sasl.password")
    servers = tuple(_server(url, server, default_port) for server in authority.split(","))
    return servers, slash + path


def _server(url: str, server: str, default_port: int | None) -> str:
    found = _SERVER.fullmatch(server)
    if found is None:
        raise _wrong(url, "each server is HOST:PORT, and a comma separates two of them")
    port = int(found["port"]) if found["port"] else default_port
    if port is None:
        raise _wrong(url, f"the server {found['host']!r} has no port: write {found['host']}:PORT")
    if not 0 < port < 65536:
        raise _wrong(url, f"the port {port} of {found['host']!r} is not between 1 and 65535")
    return f"{found['host']}:{port}"


def _settings(url: str, query: str) -> dict[str, str]:
    settings: dict[str, str] = {}
    for setting in filter(None, query.split("&")):
        name, equals, value = (_unescape_text(url, part) for part in setting.partition("="))
        if not name or not equals:
            raise _wrong(url, "a setting is NAME=VALUE; '&' in a value is written %26")
        if name in settings:
            raise _wrong(url, f"{name} is set twice: keep one")
        settings[name] = value
    return settings


def _unescape(url: str, text: str) -> bytes:
    if _BAD_ESCAPE.search(text):
        raise _wrong(url, "a '%' is followed by two hexadecimal digits; '%' itself is written %25")
    try:
        return unquote_to_bytes(os.fsencode(text))
    except UnicodeEncodeError:
        raise _wrong(url, "it has a lone surrogate in it, which is no character") from None


def _unescape_text(url: str, text: str) -> str:
    try:
        return _unescape(url, text).decode()
    except UnicodeDecodeError:
        raise _wrong(url, "the settings are not UTF-8") from None


def _escape(text: str) -> str:
    return quote(text, safe="/:*", errors="replace")


def _check_types(url: object, config: object) -> None:
    if not isinstance(url, str | os.PathLike) or not isinstance(os.fspath(url), str):
        raise TypeError(f"url is a str or a path object, not {type(url).__name__}")
    if not isinstance(config, Mapping):
        raise TypeError(f"config is a mapping of str to str, not {type(config).__name__}")
    for name, value in config.items():
        if not isinstance(name, str):
            raise TypeError(f"a name in config is a str, not {type(name).__name__}")
        if not isinstance(value, str):
            raise TypeError(f"config[{name!r}] is a str, not {type(value).__name__}")


def _check_no_config(url: str, config: Mapping[str, str]) -> None:
    if config:
        raise _wrong(url, f"only kafka:// takes settings, and config has {', '.join(sorted(config))}")


def _wrong(url: str, why: str) -> InvalidInput:
    return InvalidInput(f"cannot connect to {masked_url(url)!r}: {why} (allowed: {ALLOWED})")


def _guess(url: str) -> str:
    path = quote(masked_url(url), safe="/*~", errors="replace")
    return f"'file:{path}'" if path.startswith(("/", "./", "../")) else f"'file:./{path}'"


def is_secret(name: str) -> bool:
    return _SECRET.search(name) is not None


def _mask_login(text: str) -> str:
    """Hide all from the scheme to the last `@`, since a password may hold any character, also unescaped."""
    if "@" not in text or _PATH_ONLY.match(text):
        return text
    return f"{_before_login(text)}{_MASK}@{text.rpartition('@')[2]}"


def _before_login(text: str) -> str:
    found = _BEFORE_LOGIN.match(text)
    return found[0] if found else ""


def _mask_query(query: str) -> str:
    shown: list[str] = []
    hiding = False
    for setting in query.split("&"):
        name, equals, _ = setting.partition("=")
        # A part without "=" may be the rest of a secret that has an unescaped "&".
        hiding = is_secret(unquote(name)) or (hiding and not equals)
        shown.append((f"{name}={_MASK}" if equals else _MASK) if hiding else setting)
    return "&".join(shown)
