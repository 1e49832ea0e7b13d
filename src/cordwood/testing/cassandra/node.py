"""One Cassandra node."""

import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from cordwood.errors import Unavailable
from cordwood.testing.servers.ports import LOOPBACK, free_ports
from cordwood.testing.servers.process import ServerProcess

from .java import java
from .probe import answers
from .settings import Place, cassandra_yaml, logback_xml, properties

NO_SETTINGS: Mapping[str, Any] = MappingProxyType({})

JAVA_OPTIONS = (
    "-Xms64m",
    "-Xmx768m",
    "-XX:MaxDirectMemorySize=512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
)
"""Options for a fast start and little memory. For throughput use the whole compiler: `("-Xmx2g",)`."""

START_SECONDS = 120.0
STOP_SECONDS = 30.0

_PROBE_SECONDS = 0.05
_STARTS_MAX = 3  # each with other ports
_PORT_TAKEN = ("Address already in use", "is in use by another process")


class Node:
    """A Cassandra node of its own, on free ports of 127.0.0.1; it ends with the process that made it.

    It answers when the constructor returns. `settings` are those of `cassandra.yaml`, and override ours; `login` is a
    name and a password where they ask for one. Its data are in a new folder, in `folder` or in the system's temporary
    folder. `address` stays the same until `close`, also after a restart.

    ```python
    with Node() as cassandra:
        store = await open_store(f"cassandra://{cassandra.address}/journal")
        cassandra.kill()
        cassandra.restart()
    ```
    """

    def __init__(
        self,
        settings: Mapping[str, Any] = NO_SETTINGS,
        *,
        login: tuple[str, str] | None = None,
        java_options: Sequence[str] = JAVA_OPTIONS,
        folder: Path | None = None,
    ) -> None:
        for last in (False,) * (_STARTS_MAX - 1) + (True,):
            (place,) = new_places(1)
            self._launch(place, [place], settings, java_options, login, folder)
            try:
                self.wait_ready()
                return
            except BaseException as error:
                self.close()
                if last or not is_port_taken(error):
                    raise

    @classmethod
    def of_cluster(
        cls, place: Place, places: Sequence[Place], settings: Mapping[str, Any], java_options: Sequence[str]
    ) -> Self:
        """One node of several, started but not ready: it becomes ready when it has found the others."""
        node = cls.__new__(cls)
        node._launch(place, places, settings, java_options, None)
        return node

    @property
    def host(self) -> str:
        """The address that it listens on."""
        return self._place.host

    @property
    def port(self) -> int:
        """The port for programs."""
        return self._place.port

    @property
    def address(self) -> str:
        """`host:port` for programs."""
        return self._place.address

    @property
    def pid(self) -> int | None:
        """The process id of the node's last start."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process exists; a paused one does."""
        return self._process.wait(0) is None

    def kill(self) -> None:
        """End the node at once (SIGKILL); it loses all data that were only in its memory."""
        self._process.signal(signal.SIGKILL)
        self._process.wait(STOP_SECONDS)

    def pause(self) -> None:
        """Stop the node's threads (SIGSTOP): its connections stay, and it answers nothing."""
        self._process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue a paused node (SIGCONT)."""
        self._process.signal(signal.SIGCONT)

    def stop(self) -> None:
        """Shut the node down as an operator would; kill it if that takes too long."""
        self.resume()
        self._process.signal(signal.SIGTERM)
        if self._process.wait(STOP_SECONDS) is None:
            self.kill()

    def restart(self) -> None:
        """Stop the node if it runs, and start it again: same ports, same data. It answers on return."""
        self.start()
        self.wait_ready()

    def start(self) -> None:
        """As `restart`, but return at once."""
        if self.running:
            self.stop()
        self._process.start(self._command)

    def wait_ready(self, nodes: int = 1, seconds: float = START_SECONDS) -> None:
        """Wait until the node answers, and reaches so many nodes of its cluster."""
        deadline = time.monotonic() + seconds
        while not answers(self.address, nodes, self._login):
            status = self._process.wait(_PROBE_SECONDS)
            if status is not None:
                raise Unavailable(
                    f"Cassandra at {self.address} ended with status {status}; it said last:\n{self.log_tail()}",
                    reason="failed",
                )
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"Cassandra at {self.address} does not answer after {seconds:.0f} s:\n{self.log_tail()}",
                    reason="unreachable",
                )

    def log_tail(self) -> str:
        """The last lines that the node printed."""
        return self._process.log_tail()

    def close(self) -> None:
        """End the node for good, and remove its data; a second call has no effect."""
        self._process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Node at {self.address}, pid {self.pid}>"

    def _launch(
        self,
        place: Place,
        places: Sequence[Place],
        settings: Mapping[str, Any],
        java_options: Sequence[str],
        login: tuple[str, str] | None,
        folder: Path | None = None,
    ) -> None:
        line = java()
        self._place = place
        self._login = login
        self._process = ServerProcess(folder)
        home = self._process.folder
        (home / "cassandra.yaml").write_text(cassandra_yaml(place, places, settings))
        (home / "logback.xml").write_text(logback_xml())
        main = "org.apache.cassandra.service.CassandraDaemon"
        self._command = [*line, *properties(str(home)), *java_options, main]
        try:
            self._process.start(self._command)
        except BaseException:
            self.close()
            raise


def new_places(count: int) -> list[Place]:
    """So many places: a program finds all nodes of a cluster at one port, so each has an address of its own."""
    hosts = [LOOPBACK, *(f"127.0.0.{number}" for number in range(2, count + 1))]
    port, storage_port = free_ports(2, hosts)
    return [Place(host, port, storage_port) for host in hosts]


def is_port_taken(error: BaseException) -> bool:
    """Whether a node did not start because another process had taken its port."""
    return isinstance(error, Unavailable) and any(text in str(error) for text in _PORT_TAKEN)
