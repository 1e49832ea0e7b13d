"""One Kafka server."""

import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Self

from cordwood.errors import Unavailable
from cordwood.testing.servers.ports import free_ports
from cordwood.testing.servers.process import ServerProcess

from .java import java
from .probe import answers
from .settings import PLAINTEXT, Node, server_properties

NO_SETTINGS: Mapping[str, str] = MappingProxyType({})

JAVA_OPTIONS = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options for a fast start and little memory. For throughput use the whole compiler and more heap: `("-Xmx1g",)`."""

START_SECONDS = 60.0
STOP_SECONDS = 30.0

_PROBE_SECONDS = 0.05
_STARTS_MAX = 3  # each with other ports
_CLUSTER_ID = "Y29yZHdvb2QtdGVzdGluZw"  # 16 bytes, as base64: the form that Kafka requires
_PORT_TAKEN = "Address already in use"


class Broker:
    """A Kafka server of its own, on free ports of 127.0.0.1; it ends with the process that made it.

    It answers when the constructor returns. `listeners` are added to the plain one, by their security protocol;
    `settings` are Kafka's own for the server, and override ours. Its data are in a new folder, in `folder` or in the
    system's temporary folder. `bootstrap` and `url` stay the same until `close`, also after a restart.

    ```python
    with Broker(settings={"log.retention.check.interval.ms": "500"}) as kafka:
        async with cordwood.connect(kafka.url) as cw:
            await cw.create_topic("events")
        kafka.kill()
        kafka.restart()
    ```
    """

    def __init__(
        self,
        settings: Mapping[str, str] = NO_SETTINGS,
        *,
        listeners: Sequence[str] = (),
        java_options: Sequence[str] = JAVA_OPTIONS,
        folder: Path | None = None,
    ) -> None:
        names = (PLAINTEXT, *listeners)
        for last in (False,) * (_STARTS_MAX - 1) + (True,):
            (node,) = new_nodes(1, names)
            self._launch(node, [node], settings, java_options, folder)
            try:
                self.wait_ready()
                return
            except BaseException as error:
                self.close()
                if last or not is_port_taken(error):
                    raise

    @classmethod
    def of_cluster(
        cls, node: Node, nodes: Sequence[Node], settings: Mapping[str, str], java_options: Sequence[str]
    ) -> Self:
        """One server of several, started but not ready: it becomes ready when most of them run."""
        broker = cls.__new__(cls)
        broker._launch(node, nodes, settings, java_options)
        return broker

    @property
    def bootstrap(self) -> str:
        """`host:port` of the plain listener, for `bootstrap.servers`."""
        return self.address(PLAINTEXT)

    @property
    def url(self) -> str:
        """The url for `cordwood.connect`."""
        return f"kafka://{self.bootstrap}"

    @property
    def number(self) -> int:
        """Kafka's `node.id`, from 1."""
        return self._node.number

    @property
    def pid(self) -> int | None:
        """The process id of the server's last start."""
        return self._process.pid

    def address(self, listener: str) -> str:
        """`host:port` of a listener, such as that of `"SASL_PLAINTEXT"`."""
        return self._node.address(listener)

    @property
    def running(self) -> bool:
        """Whether the process exists; a paused one does."""
        return self._process.wait(0) is None

    def kill(self) -> None:
        """End the server at once (SIGKILL); it loses all data that were only in its memory."""
        self._process.signal(signal.SIGKILL)
        self._process.wait(STOP_SECONDS)

    def pause(self) -> None:
        """Stop the server's threads (SIGSTOP): its connections stay, and it answers nothing."""
        self._process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue a paused server (SIGCONT)."""
        self._process.signal(signal.SIGCONT)

    def stop(self) -> None:
        """Shut the server down as an operator would; kill it if that takes too long."""
        self.resume()
        self._process.signal(signal.SIGTERM)
        if self._process.wait(STOP_SECONDS) is None:
            self.kill()

    def restart(self) -> None:
        """Stop the server if it runs, and start it again: same ports, same data. It answers on return."""
        self.start()
        self.wait_ready()

    def start(self) -> None:
        """As `restart`, but return at once."""
        if self.running:
            self.stop()
        self._run()

    def wait_ready(self, brokers: int = 1, seconds: float = START_SECONDS) -> None:
        """Wait until the server answers, and knows so many servers of its cluster."""
        deadline = time.monotonic() + seconds
        while not answers(self.bootstrap, brokers):
            status = self._process.wait(_PROBE_SECONDS)
            if status is not None:
                raise Unavailable(
                    f"Kafka at {self.bootstrap} ended with status {status}; it said last:\n{self.log_tail()}",
                    reason="failed",
                )
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"Kafka at {self.bootstrap} does not answer after {seconds:.0f} s:\n{self.log_tail()}",
                    reason="unreachable",
                )

    def log_tail(self) -> str:
        """The last lines that the server printed."""
        return self._process.log_tail()

    def close(self) -> None:
        """End the server for good, and remove its data; a second call has no effect."""
        self._process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Broker {self.number} at {self.bootstrap}, pid {self.pid}>"

    def _launch(
        self,
        node: Node,
        nodes: Sequence[Node],
        settings: Mapping[str, str],
        java_options: Sequence[str],
        folder: Path | None = None,
    ) -> None:
        self._command = [*java(), *java_options]
        self._node = node
        self._process = ServerProcess(folder)
        self._properties = self._process.folder / "server.properties"
        self._properties.write_text(server_properties(node, nodes, str(self._process.folder / "data"), settings))
        try:
            self._format()
            self._run()
        except BaseException:
            self.close()
            raise

    def _format(self) -> None:
        format = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(self._properties)]
        self._process.start([*self._command, *format])
        status = self._process.wait(START_SECONDS)
        if status != 0:
            said = self.log_tail()
            raise Unavailable(
                f"Kafka's folder cannot be formatted (status {status}); it said last:\n{said}", reason="failed"
            )

    def _run(self) -> None:
        self._process.start([*self._command, "kafka.Kafka", str(self._properties)])


def new_nodes(count: int, listeners: Sequence[str]) -> list[Node]:
    """So many servers with these listeners, on ports that are free now."""
    ports = iter(free_ports(count * (1 + len(listeners))))
    return [Node(number, next(ports), {name: next(ports) for name in listeners}) for number in range(1, count + 1)]


def is_port_taken(error: BaseException) -> bool:
    """Whether a server did not start because another process had taken its port."""
    return isinstance(error, Unavailable) and _PORT_TAKEN in str(error)
