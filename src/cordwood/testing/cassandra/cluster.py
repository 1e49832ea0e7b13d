"""Several Cassandra nodes as one cluster."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from cordwood.errors import InvalidInput

from .node import JAVA_OPTIONS, NO_SETTINGS, START_SECONDS, Node, is_port_taken, new_places

CLUSTER_JAVA_OPTIONS = (*(option for option in JAVA_OPTIONS if not option.startswith("-Xmx")), "-Xmx512m")

_STARTS_MAX = 3  # each with other ports


class Cluster:
    """Three Cassandra nodes, at 127.0.0.1, 127.0.0.2 and 127.0.0.3; a keyspace may have a copy on each.

    All nodes answer, and know each other, when the constructor returns.

    ```python
    with Cluster() as cassandra:
        cassandra.nodes[2].kill()
        ...
        cassandra.heal()
    ```
    """

    def __init__(
        self,
        nodes: int = 3,
        settings: Mapping[str, Any] = NO_SETTINGS,
        *,
        java_options: Sequence[str] = CLUSTER_JAVA_OPTIONS,
    ) -> None:
        if nodes < 3:
            raise InvalidInput(f"a cluster of {nodes} nodes: it has at least 3; `Node` is a single one")
        self.nodes: list[Node] = []
        for last in (False,) * (_STARTS_MAX - 1) + (True,):
            places = new_places(nodes)
            try:
                for place in places:
                    self.nodes.append(Node.of_cluster(place, places, settings, java_options))
                    if place is places[0]:
                        self.nodes[0].wait_ready()  # the others ask it for the ring
                self.wait_ready()
                return
            except BaseException as error:
                self.close()
                if last or not is_port_taken(error):
                    raise

    @property
    def address(self) -> str:
        """`host:port` of all nodes, for the url of a store."""
        return ",".join(node.address for node in self.nodes)

    def wait_ready(self, seconds: float = START_SECONDS) -> None:
        """Wait until every node answers and reaches all others."""
        for node in self.nodes:
            node.wait_ready(len(self.nodes), seconds)

    def heal(self, seconds: float = START_SECONDS) -> None:
        """Resume or start each node that does not run, and wait until all reach each other."""
        for node in self.nodes:
            node.resume()
            if not node.running:
                node.start()
        self.wait_ready(seconds)

    def close(self) -> None:
        """End all nodes, and remove their data; a second call has no effect."""
        for node in self.nodes:
            node.close()
        self.nodes.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Cluster {self.nodes}>"
