"""The properties of a Kafka server, as text, without I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cordwood.testing.servers.ports import LOOPBACK

PLAINTEXT = "PLAINTEXT"
"""The listener that every server has: for other servers, for `bootstrap`, and for probes."""

_CONTROLLER = "CONTROLLER"

# For tests: small, quick to start, and no topics that the tests did not create.
_COMMON = {
    "auto.create.topics.enable": "false",
    # The default of 25 ms, a wait for more changes, is most of the time to create a topic.
    "controller.quorum.append.linger.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "2097152",  # the default of 128 MiB does not fit into a small heap
    "num.network.threads": "2",
    "num.io.threads": "4",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}

# The cluster notices a dead server in 1.5 s. With less time the controllers of a busy machine depose each other.
_FAST_FAILOVER = {
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "200",
    "controller.quorum.fetch.timeout.ms": "1500",
    "controller.quorum.election.timeout.ms": "1000",
    "replica.lag.time.max.ms": "3000",
    "replica.socket.timeout.ms": "3000",
    "replica.fetch.wait.max.ms": "200",
}


@dataclass(frozen=True)
class Node:
    """One server of a cluster: its number, the port of its controller, and a port for each listener."""

    number: int
    controller: int
    listeners: Mapping[str, int]

    def address(self, listener: str) -> str:
        """`host:port` of a listener."""
        return f"{LOOPBACK}:{self.listeners[listener]}"


def server_properties(node: Node, nodes: Sequence[Node], folder: str, settings: Mapping[str, str]) -> str:
    """The file `server.properties` of `node`, one of `nodes`; `settings` override all others."""
    copies = min(3, len(nodes))
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(node.number),
        "controller.quorum.voters": ",".join(f"{each.number}@{LOOPBACK}:{each.controller}" for each in nodes),
        "controller.listener.names": _CONTROLLER,
        "inter.broker.listener.name": PLAINTEXT,
        "listeners": ",".join(
            [
                *(f"{name}://{node.address(name)}" for name in node.listeners),
                f"{_CONTROLLER}://{LOOPBACK}:{node.controller}",
            ]
        ),
        "listener.security.protocol.map": ",".join(
            [*(f"{name}:{name}" for name in node.listeners), f"{_CONTROLLER}:{PLAINTEXT}"]
        ),
        "log.dirs": folder,
        "default.replication.factor": str(copies),
        "min.insync.replicas": str(max(1, copies - 1)),
        "offsets.topic.replication.factor": str(copies),
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": str(max(1, copies - 1)),
        "share.coordinator.state.topic.replication.factor": str(copies),
        "share.coordinator.state.topic.min.isr": str(max(1, copies - 1)),
        **_COMMON,
        **_FAST_FAILOVER,
        **settings,
    }
    return "".join(f"{name}={_escaped(value)}\n" for name, value in properties.items())


def _escaped(value: str) -> str:
    """A value of a Java properties file: a backslash escapes, and a line end ends it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")
