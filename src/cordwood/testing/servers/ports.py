"""Ports for servers on this machine."""

import random
import socket
from collections.abc import Sequence

LOOPBACK = "127.0.0.1"

# Below the range of the local ports of outgoing connections (32768 and up on Linux): a server that restarts finds its
# port free.
_PORTS = range(20_000, 32_000)


def free_ports(count: int, hosts: Sequence[str] = (LOOPBACK,)) -> list[int]:
    """Different ports that are free now, on all of these addresses; another process may take one before the server.

    >>> len(free_ports(3))
    3
    """
    ports: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if len(ports) == count:
            break
        if all(_is_free(host, port) for host in hosts):
            ports.append(port)
    return ports


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a port counts as free while the system still remembers its last connections.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
