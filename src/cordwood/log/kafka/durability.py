"""R19: what an ack of a topic promises, in words."""

from collections.abc import Mapping


def durability(config: Mapping[str, str], replication: int) -> str:
    """What an ack means on a topic with these settings and so many replicas.

    >>> durability({"min.insync.replicas": "2"}, 3)
    'replicated: an ack means the page cache of at least 2 of 3 replicas'
    >>> durability({"min.insync.replicas": "1", "flush.messages": "1", "cleanup.policy": "compact"}, 1)
    'synced: an ack means fsync on at least 1 of 1 replicas; compacted: of a key only the last record stays'
    """
    needed = min(int(config.get("min.insync.replicas", "1")), replication)
    synced = config.get("flush.messages") == "1"
    where = "fsync on" if synced else "the page cache of"
    name = "synced" if synced else "replicated" if needed > 1 else "in memory"
    promise = [f"{name}: an ack means {where} at least {needed} of {replication} replicas"]
    if config.get("unclean.leader.election.enable") == "true":
        promise.append("unclean election: a replica that lacks acked records may become the leader")
    if is_compacted(config):
        promise.append("compacted: of a key only the last record stays")
    return "; ".join(promise)


def is_compacted(config: Mapping[str, str]) -> bool:
    """
    >>> is_compacted({"cleanup.policy": "compact,delete"})
    True
    """
    return "compact" in config.get("cleanup.policy", "delete")
