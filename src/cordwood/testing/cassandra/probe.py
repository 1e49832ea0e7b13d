"""Requests to a node in Cassandra's native protocol, without a driver: whether it answers, and knows its cluster."""

import socket
import struct
from collections.abc import Sequence
from typing import Final

SECONDS: Final = 2.0

_STARTUP, _AUTHENTICATE, _QUERY, _AUTH_RESPONSE = 0x01, 0x03, 0x07, 0x0F
_ERROR = 0x00
_ONE: Final = 0x0001
_ALL: Final = 0x0005

# Every node of a cluster of three has a copy of this table, from its start on.
_OF_ALL: Final = (
    "SELECT keyspace_name FROM system_distributed.repair_history"
    " WHERE keyspace_name = 'cordwood' AND columnfamily_name = 'probe'"
)


def answers(address: str, nodes: int, login: tuple[str, str] | None = None) -> bool:
    """Whether the node at `host:port` answers within two seconds, and reaches so many nodes: one, or at least three."""
    try:
        if nodes < 3:
            _ask(address, "SELECT key FROM system.local", _ONE, login)
        else:
            _ask(address, _OF_ALL, _ALL, login)
    except (OSError, _Refused, struct.error):
        return False
    return True


def execute(address: str, statements: Sequence[str], login: tuple[str, str] | None = None) -> None:
    """Execute statements one after the other; an error of the node is an OSError with its text."""
    for statement in statements:
        try:
            _ask(address, statement, _ONE, login, 30.0)
        except _Refused as error:
            raise OSError(f"{statement}: {error}") from error


class _Refused(Exception):
    """The node answered with an error."""


def _ask(address: str, query: str, consistency: int, login: tuple[str, str] | None, seconds: float = SECONDS) -> None:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), seconds) as connection:
        options = struct.pack(">H", 1) + _string("CQL_VERSION") + _string("3.0.0")
        if _exchange(connection, _STARTUP, options) == _AUTHENTICATE and login is not None:
            token = b"\0" + login[0].encode() + b"\0" + login[1].encode()
            _exchange(connection, _AUTH_RESPONSE, struct.pack(">i", len(token)) + token)
        text = query.encode()
        _exchange(connection, _QUERY, struct.pack(">i", len(text)) + text + struct.pack(">HB", consistency, 0))


def _exchange(connection: socket.socket, code: int, body: bytes) -> int:
    """Send a request in version 4 of the protocol; the code of the answer."""
    connection.sendall(struct.pack(">BBhBi", 4, 0, 0, code, len(body)) + body)
    _, _, _, answer, length = struct.unpack(">BBhBi", _receive(connection, 9))
    said = _receive(connection, length)
    if answer == _ERROR:
        raise _Refused(said[6:].decode(errors="replace"))
    return int(answer)


def _receive(connection: socket.socket, length: int) -> bytes:
    received = b""
    while len(received) < length:
        part = connection.recv(length - len(received))
        if not part:
            raise ConnectionResetError("the node closed the connection")
        received += part
    return received


def _string(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
