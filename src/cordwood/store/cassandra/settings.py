"""The settings of a store on Cassandra, checked, without I/O: the url, and the secrets of its config."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from cordwood.errors import InvalidInput
from cordwood.store.url import CassandraUrl

_PAIRS: Final = (("username", "password"), ("password", "username"), ("tls.cert", "tls.ca"), ("tls.key", "tls.cert"))
NAMES: Final = ("username", "password", "tls.ca", "tls.cert", "tls.key")


@dataclass(frozen=True)
class Settings:
    """How to connect to a cluster. Neither its `repr` nor an error shows a secret."""

    url: CassandraUrl
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls_ca: str | None = None
    """The certificates that sign those of the nodes; with it, connections are encrypted."""
    tls_cert: str | None = None
    tls_key: str | None = field(default=None, repr=False)

    @property
    def hosts(self) -> list[tuple[str, int]]:
        """The nodes of the url.

        >>> Settings(CassandraUrl(("c1:9042", "[::1]:9043"), "journal")).hosts
        [('c1', 9042), ('::1', 9043)]
        """
        pairs = (host.rpartition(":") for host in self.url.hosts)
        return [(host.strip("[]"), int(port)) for host, _, port in pairs]


def parse_settings(url: CassandraUrl, config: Mapping[str, str]) -> Settings:
    """The settings of a url and a config; InvalidInput names a wrong one, and shows no value.

    >>> parse_settings(CassandraUrl(("c1:9042",), "journal"), {"username": "me", "password": "x"}).username
    'me'
    """
    if not isinstance(config, Mapping):
        raise TypeError(f"the config of a store is a mapping of str to str, not {type(config).__name__}")
    for name, value in config.items():
        if not isinstance(value, str):
            raise TypeError(f"the config of a store is a mapping of str to str: {name!r} has a {type(value).__name__}")
    unknown = sorted(config.keys() - set(NAMES))
    if unknown:
        raise InvalidInput(f"{url}: config has {', '.join(unknown)}: it may have {', '.join(NAMES)}")
    empty = sorted(name for name, value in config.items() if not value)
    if empty:
        raise InvalidInput(f"{url}: {', '.join(empty)} of config is empty: leave it out, or give it a value")
    for one, other in _PAIRS:
        if one in config and other not in config:
            raise InvalidInput(f"{url}: config has {one} and no {other}: name both")
    return Settings(
        url,
        config.get("username"),
        config.get("password"),
        config.get("tls.ca"),
        config.get("tls.cert"),
        config.get("tls.key"),
    )
