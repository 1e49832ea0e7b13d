"""Requests to a Kafka server: whether it answers, the leader of a partition, and the copies that lag."""

import logging
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, ClusterMetadata

_SECONDS = 2.0
_silent = logging.getLogger("cordwood.testing.kafka.probe")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


def answers(address: str, brokers: int) -> bool:
    """Whether the server at `host:port` reports, within two seconds, so many live servers in its cluster."""
    # A plain connection first: frequent attempts are cheap while no server listens yet.
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _SECONDS).close()
    except OSError:
        return False
    metadata = _metadata(address)
    return metadata is not None and len(metadata.brokers) >= brokers


def leader_of(bootstrap: str, topic: str, partition: int) -> int | None:
    """The number of the server that leads a partition; None if there is none, or no server answers."""
    metadata = _metadata(bootstrap)
    if metadata is None or topic not in metadata.topics:
        return None
    found = metadata.topics[topic].partitions.get(partition)
    return None if found is None or found.leader < 0 else found.leader


def lagging(bootstrap: str) -> list[str]:
    """The partitions, as `topic/partition`, with a copy that is not up to date; all if no server answers."""
    metadata = _metadata(bootstrap)
    if metadata is None:
        return ["all"]
    return [
        f"{topic.topic}/{partition.id}"
        for topic in metadata.topics.values()
        for partition in topic.partitions.values()
        if len(partition.isrs) < len(partition.replicas) or partition.leader < 0
    ]


def _metadata(bootstrap: str) -> "ClusterMetadata | None":
    from confluent_kafka import KafkaException

    try:
        return _admin(bootstrap).list_topics(timeout=_SECONDS)
    except KafkaException:
        return None


def _admin(bootstrap: str) -> "AdminClient":
    from confluent_kafka.admin import AdminClient

    # The library would log every connection that is refused while a server starts to stderr.
    return AdminClient({"bootstrap.servers": bootstrap, "socket.timeout.ms": int(_SECONDS * 1000)}, logger=_silent)
