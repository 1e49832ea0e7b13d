"""A Kafka url where nothing listens: plain connections find that out long before the client's timeout."""

import asyncio
import socket
from collections.abc import Sequence

from cordwood.errors import Unavailable
from cordwood.url import KafkaUrl

REFUSED_SECONDS = 2.0
"""A server that is being restarted refuses connections for a moment."""

_LOOK_AGAIN_SECONDS = 0.1


async def check_listening(url: KafkaUrl, timeout: float) -> None:
    """Raise `Unavailable` if every server of the url refuses connections for 2 s, or for the timeout if that is less.

    Returns as soon as one of them does not refuse. A server that is slow, or whose name is unknown, refuses nothing:
    for those the client has the whole timeout.
    """
    seconds = min(REFUSED_SECONDS, timeout)
    refused = False
    try:
        async with asyncio.timeout(seconds):
            while True:
                refused = await _all_refuse(url.servers)
                if not refused:
                    return
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
    except TimeoutError:
        if refused:
            raise Unavailable(
                f"kafka://{','.join(url.servers)}: nothing listens there, every connection was refused for"
                f" {seconds:g} s: is Kafka running?",
                reason="unreachable",
            ) from None


async def _all_refuse(servers: Sequence[str]) -> bool:
    for server in servers:
        if not await _refuses(server):
            return False
    return True


async def _refuses(server: str) -> bool:
    """Whether an address of the server refuses a connection, and none accepts one."""
    host, _, port = server.rpartition(":")
    loop = asyncio.get_running_loop()
    try:
        addresses = await loop.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except OSError:
        return False
    refused = False
    for family, kind, protocol, _, address in addresses:
        with socket.socket(family, kind, protocol) as probe:
            probe.setblocking(False)
            try:
                await loop.sock_connect(probe, address)
            except ConnectionRefusedError:
                refused = True
            except OSError:
                # Such as an IPv6 address on a machine that has none.
                continue
            else:
                return False
    return refused
