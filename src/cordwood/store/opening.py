"""Opening a store by its url."""

from collections.abc import Mapping
from numbers import Real
from types import MappingProxyType

from cordwood.errors import InvalidInput
from cordwood.store.interface import EventStore
from cordwood.store.url import CassandraUrl, parse_store_url

NO_CONFIG: Mapping[str, str] = MappingProxyType({})
TIMEOUT_SECONDS_MAX = 86_400.0
"""SQLite counts the milliseconds that it waits in 32 bits."""


async def open_store(
    url: str, *, config: Mapping[str, str] = NO_CONFIG, read_only: bool = False, timeout: float = 30
) -> EventStore:
    """Open the store of a url, and create it if it does not exist.

    `read_only=True` writes nothing, and raises `NotFound` for a store that does not exist. `timeout` applies to the
    opening and to each call. `config` has the secrets of a store on Cassandra: `username` and `password`, and the paths
    `tls.ca`, `tls.cert` and `tls.key`.

    ```python
    async with await open_store("sqlite:./store.db") as store:
        print(await store.topics())
    ```
    """
    target = parse_store_url(url)
    seconds = _checked_timeout(timeout)
    # A library is loaded where it is used.
    if isinstance(target, CassandraUrl):
        from cordwood.store.cassandra import open_cassandra

        return await open_cassandra(target, config, read_only=read_only, timeout=seconds)
    if config:
        names = ", ".join(sorted(map(str, config)))
        raise InvalidInput(f"{target} takes no settings, and config has {names}: leave them out")
    from cordwood.store.sqlite import open_sqlite

    return await open_sqlite(target, read_only=read_only, timeout=seconds)


def _checked_timeout(timeout: float) -> float:
    if not isinstance(timeout, Real):
        raise TypeError(f"timeout is a number of seconds, not {type(timeout).__name__}")
    if not timeout > 0:  # NaN too
        raise InvalidInput(f"timeout is {timeout!r} seconds: it must be more than 0")
    return min(float(timeout), TIMEOUT_SECONDS_MAX)
