"""The store in a keyspace of Cassandra, with the tables of the Scala library.

`settings` has the url and the secrets, `driver` is the one module that knows the driver, `schema` has the tables,
`session` the calls, `statements` the CQL, `reading` and `writing` what they do, `write_time` the rule that orders
writes, and `store` the `EventStore`. It needs the extra `cassandra`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cordwood.errors import Unavailable
from cordwood.store.url import CassandraUrl

if TYPE_CHECKING:
    from .store import CassandraStore


async def open_cassandra(
    url: CassandraUrl, config: Mapping[str, str], *, read_only: bool = False, timeout: float = 30
) -> "CassandraStore":
    """Open the keyspace of a url; `Unavailable` if the driver is missing.

    ```python
    store = await open_cassandra(parse_store_url("cassandra://127.0.0.1/journal"), {})
    ```
    """
    try:
        from .store import open_cassandra as opened
    except ImportError as error:
        if error.name is not None and error.name.split(".")[0] == "cordwood":
            raise
        raise Unavailable(
            f"{url} needs cassandra-driver: pip install 'cordwood[cassandra]'", reason="missing-extra"
        ) from error
    return await opened(url, config, read_only=read_only, timeout=timeout)


__all__ = ["open_cassandra"]
