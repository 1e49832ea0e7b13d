"""The configuration of a Cassandra node, as text, without I/O."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

DATACENTER: Final = "datacenter1"
"""The data centre of all nodes: the name that Cassandra gives where nobody names one."""

# For tests: small, and durable. `periodic`, the default, loses acked rows when a node is killed.
_COMMON: Final[Mapping[str, Any]] = {
    "cluster_name": "cordwood-testing",
    "num_tokens": 1,
    "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
    "endpoint_snitch": "SimpleSnitch",
    "auto_bootstrap": False,
    "auto_snapshot": False,
    "commitlog_sync": "batch",
    "concurrent_reads": 8,
    "concurrent_writes": 16,
    "concurrent_compactors": 1,
    "memtable_heap_space": "64MiB",
    "memtable_offheap_space": "32MiB",
    "file_cache_size": "32MiB",
    "networking_cache_size": "16MiB",
    "commitlog_total_space": "256MiB",
    "key_cache_size": "4MiB",
    "hinted_handoff_throttle": "10240KiB",  # the default takes minutes for what a node has missed in seconds
}

_LOGGING: Final = """<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%-5level %date{ISO8601} %logger{0}: %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="OUT"/></root>
</configuration>
"""


@dataclass(frozen=True)
class Place:
    """Where a node listens: an address of this machine, and the ports for programs and for other nodes."""

    host: str
    port: int
    storage_port: int

    @property
    def address(self) -> str:
        """`host:port` for programs."""
        return f"{self.host}:{self.port}"


def cassandra_yaml(place: Place, places: Sequence[Place], settings: Mapping[str, Any]) -> str:
    """The file `cassandra.yaml` of the node at `place`, one of `places`; `settings` override all others.

    JSON is YAML.
    """
    seed = places[0]
    seeds = {"class_name": "org.apache.cassandra.locator.SimpleSeedProvider"}
    chosen = {
        **_COMMON,
        "seed_provider": [{**seeds, "parameters": [{"seeds": f"{seed.host}:{seed.storage_port}"}]}],
        "listen_address": place.host,
        "rpc_address": place.host,
        "storage_port": place.storage_port,
        "native_transport_port": place.port,
        **settings,
    }
    return json.dumps(chosen, indent=1)


def logback_xml() -> str:
    """The configuration of its logging: warnings, on standard output."""
    return _LOGGING


def properties(folder: str) -> list[str]:
    """The system properties of a node that has its files in this folder."""
    return [
        f"-Dcassandra.config=file://{folder}/cassandra.yaml",
        f"-Dlogback.configurationFile=file://{folder}/logback.xml",
        f"-Dcassandra.storagedir={folder}/data",
        "-Dcassandra-foreground=yes",
        "-Dcassandra.skip_wait_for_gossip_to_settle=0",
        "-Dcassandra.ring_delay_ms=1000",
        "-Dcassandra.superuser_setup_delay_ms=0",
        "-Dcassandra.shutdown_announce_in_ms=0",
    ]
