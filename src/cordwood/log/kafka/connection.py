"""One connection to a cluster that it may share with others."""

import weakref

from cordwood.errors import Unavailable
from cordwood.log.interface import Reader

from .cluster import SharedCluster


class Connection:
    """Closed for itself, while the clients may stay open for others; read-only for itself, too."""

    def __init__(self, cluster: SharedCluster, read_only: bool) -> None:
        self.cluster = cluster
        self.read_only = read_only
        self.closed = False
        self.readers: weakref.WeakSet[Reader] = weakref.WeakSet()

    def check(self) -> None:
        """`Unavailable` once it is closed, and in a forked child."""
        self.cluster.check()
        if self.closed:
            raise Unavailable(
                f"the connection to {self.cluster} is closed: connect again", outcome="not_written", reason="closed"
            )

    def check_writable(self) -> None:
        self.check()
        if self.read_only:
            raise Unavailable(
                f"{self.cluster} is connected with read_only=True: connect without it to write",
                outcome="not_written",
                reason="read-only",
            )
