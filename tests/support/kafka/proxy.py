"""A stretch of network between clients and a server: slow, or a firewall that forgets the connections it knew."""

import socket
import threading
import time
from contextlib import suppress
from queue import SimpleQueue
from typing import Self

from cordwood.testing.servers.ports import LOOPBACK


class Proxy:
    """Hands bytes on between clients, at `address`, and a server, until it is stopped."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.delay = 0.0
        """How many seconds an answer is on its way."""
        self._listener = socket.create_server((LOOPBACK, 0))
        self.address = f"{LOOPBACK}:{self._listener.getsockname()[1]}"
        self._pairs: list[_Pair] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def lose_answers(self) -> None:
        """From now on nothing comes back on the connections that there are; new ones are well."""
        for pair in self._pairs:
            pair.mute = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # closing alone wakes nobody
        self._thread.join()
        self._listener.close()
        for pair in self._pairs:
            pair.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                self._pairs.append(_Pair(client, self))
            except OSError:
                client.close()


class _Pair:
    """A client's connection, and ours to the server."""

    def __init__(self, client: socket.socket, proxy: Proxy) -> None:
        host, _, port = proxy.target.partition(":")
        self.mute = False
        self._proxy = proxy
        self._client, self._server = client, socket.create_connection((host, int(port)))
        self._answers: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
        for work in (self._requests, self._receive, self._deliver):
            threading.Thread(target=work, daemon=True).start()

    def close(self) -> None:
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _requests(self) -> None:
        with suppress(OSError):
            while data := self._client.recv(1 << 16):
                self._server.sendall(data)
        self.close()

    def _receive(self) -> None:
        with suppress(OSError):
            while data := self._server.recv(1 << 16):
                self._answers.put((time.monotonic() + self._proxy.delay, data))
        self._answers.put((0.0, b""))

    def _deliver(self) -> None:
        with suppress(OSError):
            while True:
                due, data = self._answers.get()
                if not data:
                    break
                time.sleep(max(0.0, due - time.monotonic()))
                if not self.mute:
                    self._client.sendall(data)
        self.close()
