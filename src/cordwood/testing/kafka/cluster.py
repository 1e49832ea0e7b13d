"""Several Kafka servers as one cluster."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Self

from cordwood.errors import InvalidInput, Unavailable

from .broker import JAVA_OPTIONS, NO_SETTINGS, START_SECONDS, Broker, is_port_taken, new_nodes
from .probe import lagging, leader_of
from .settings import PLAINTEXT, Node

_STARTS_MAX = 3  # each with other ports


class Cluster:
    """Kafka servers with replication: three copies of a topic, two of which must have a record before its ack.

    Its settings replace a dead server within seconds. All servers answer when the constructor returns.

    ```python
    with Cluster() as kafka:
        leader = kafka.leader("events", 0)
        leader.kill()
        ...
        kafka.heal()
    ```
    """

    def __init__(
        self,
        brokers: int = 3,
        settings: Mapping[str, str] = NO_SETTINGS,
        *,
        java_options: Sequence[str] = JAVA_OPTIONS,
    ) -> None:
        if brokers < 1:
            raise InvalidInput(f"a cluster of {brokers} brokers: it has at least 1")
        self.brokers: list[Broker] = []
        for last in (False,) * (_STARTS_MAX - 1) + (True,):
            nodes = new_nodes(brokers, [PLAINTEXT])
            try:
                self._launch(nodes, settings, java_options)
                self.wait_ready()
                return
            except BaseException as error:
                self.close()
                if last or not is_port_taken(error):
                    raise

    @property
    def bootstrap(self) -> str:
        """`host:port` of all servers, for `bootstrap.servers`."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    @property
    def url(self) -> str:
        """The url for `cordwood.connect`."""
        return f"kafka://{self.bootstrap}"

    def leader(self, topic: str, partition: int = 0) -> Broker:
        """The server that takes the writes of a partition now."""
        number = leader_of(self.bootstrap, topic, partition)
        for broker in self.brokers:
            if broker.number == number:
                return broker
        raise Unavailable(f"{topic}/{partition} has no leader among {self.brokers}", reason="unreachable")

    def wait_ready(self, seconds: float = START_SECONDS) -> None:
        """Wait until every server answers and knows all others."""
        for broker in self.brokers:
            broker.wait_ready(len(self.brokers), seconds)

    def heal(self, seconds: float = START_SECONDS) -> None:
        """Resume or start each server that does not run, and wait until every copy of every topic is up to date."""
        for broker in self.brokers:
            broker.resume()
            if not broker.running:
                broker.start()
        self.wait_ready(seconds)
        deadline = time.monotonic() + seconds
        while behind := lagging(self.bootstrap):
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"after {seconds:.0f} s these have too few copies: {', '.join(behind)}", reason="unreachable"
                )
            time.sleep(0.05)

    def close(self) -> None:
        """End all servers, and remove their data; a second call has no effect."""
        for broker in self.brokers:
            broker.close()
        self.brokers.clear()

    def _launch(self, nodes: list[Node], settings: Mapping[str, str], java_options: Sequence[str]) -> None:
        # All at once: each formats its folder, and none is ready before most of them run.
        launch = partial(Broker.of_cluster, nodes=nodes, settings=settings, java_options=java_options)
        with ThreadPoolExecutor(len(nodes)) as threads:
            started = [threads.submit(launch, node) for node in nodes]
        self.brokers = [each.result() for each in started if each.exception() is None]
        for each in started:
            each.result()  # raises its error, now that the others can be closed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Cluster {self.brokers}>"
