"""Opening the log and the store of a job."""

import re
from collections.abc import Sequence

from cordwood.client import Client, connect
from cordwood.store import EventStore
from cordwood.store.opening import open_store
from cordwood.url import KafkaUrl, parse_url

from .job import Places

TIMEOUT_SECONDS = 30.0


async def open_log(places: Places) -> Client:
    """A connection that only reads. R21: uncommitted, whatever the url says."""
    url = parse_url(places.url, places.config)
    if isinstance(url, KafkaUrl):
        config = {**url.config, "isolation.level": "read_uncommitted"}
        return await connect(f"kafka://{','.join(url.servers)}", config=config, timeout=TIMEOUT_SECONDS, read_only=True)
    return await connect(places.url, timeout=TIMEOUT_SECONDS, read_only=True)


async def open_events(places: Places, *, read_only: bool = False, timeout: float = TIMEOUT_SECONDS) -> EventStore:
    """The store."""
    return await open_store(places.store, config=places.store_config, read_only=read_only, timeout=timeout)


async def names_of(client: Client, names: Sequence[str], pattern: str | None) -> Sequence[str]:
    """The named topics, or those whose whole name the pattern matches."""
    if pattern is None:
        return names
    wanted = re.compile(pattern)
    return [name for name in await client.topics() if wanted.fullmatch(name)]
