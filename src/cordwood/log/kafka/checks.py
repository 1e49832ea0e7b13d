"""Checks of an append before any record is sent. They block and use no event loop, so that every caller shares them."""

from typing import NamedTuple

from cordwood.errors import InvalidInput, NotFound, TooLarge
from cordwood.records import Batch

from .cluster import SharedCluster
from .producer import Sender
from .record_size import first_too_large
from .topics import TopicFacts, no_right_to_write

TIMESTAMP_MIN = 1


class Target(NamedTuple):
    """The destination of a batch: the facts of its topic, and the client that writes it."""

    facts: TopicFacts
    sender: Sender


def target_of(cluster: SharedCluster, topic: str, partition: int, batch: Batch) -> Target:
    """The target of a batch that its log can take. Blocks.

    The topic's limit may have been raised since the last look-up: it is looked up again before it refuses a batch.
    """
    try:
        return _checked_target(cluster, topic, partition, batch)
    except TooLarge:
        cluster.forget(topic)
        return _checked_target(cluster, topic, partition, batch)


def writable_topic(cluster: SharedCluster, topic: str, partition: int = 0) -> TopicFacts:
    """The facts of a topic that has this partition and that this user may write. Blocks."""
    facts = cluster.facts(topic)
    if partition >= facts.partitions:
        cluster.forget(topic)  # the topic may have more partitions since
        facts = cluster.facts(topic)
    if partition >= facts.partitions:
        raise NotFound(f"{topic}/{partition}: topic {topic!r} has the partitions 0 to {facts.partitions - 1}")
    if not facts.writable:
        cluster.forget(topic)
        raise no_right_to_write(topic)
    return facts


def check_batch(log: str, batch: Batch, facts: TopicFacts) -> None:
    """Refuse records that the log cannot store."""
    if not len(batch):
        raise InvalidInput(f"{log}: the batch is empty: a batch has at least 1 record")
    limit = facts.record_bytes_max
    if (found := first_too_large(batch, limit)) is not None:
        index, size = found
        which = "topic's max.message.bytes" if limit == facts.batch_bytes_max else "client's queue.buffering.max.kbytes"
        raise TooLarge(
            f"{log}: record {index} of the batch is {size:,} bytes, and the {which} is {limit:,}:"
            " split it, or raise the limit"
        )
    _, _, headers, stamps = batch.rows()
    if headers is not None and b"\0" in b"".join(filter(None, headers.compact()[1])):
        raise InvalidInput(f"{log}: a header's name has a NUL in it, where librdkafka would cut it off")
    if stamps is not None and (earliest := min(stamps)) < TIMESTAMP_MIN:
        index = stamps.tolist().index(earliest)
        raise InvalidInput(
            f"{log}: record {index} of the batch has the timestamp {earliest} ms, and the least on Kafka is"
            f" {TIMESTAMP_MIN}: librdkafka would take it for none, and set the time of the append"
        )


def _checked_target(cluster: SharedCluster, topic: str, partition: int, batch: Batch) -> Target:
    facts = writable_topic(cluster, topic, partition)
    check_batch(f"{topic}/{partition}", batch, facts)
    sender = cluster.sender(facts.batch_bytes_max)
    sender.meet(topic, facts.topic_id, facts.partitions)
    return Target(facts, sender)
