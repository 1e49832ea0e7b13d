"""Topics and records on a server, by nothing but the client library."""

import secrets
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic

from cordwood.testing.kafka.probe import leader_of

_SECONDS = 30
_ATTEMPT_SECONDS = 3


def create(
    bootstrap: str, topic: str, partitions: int = 1, replication: int = 1, settings: dict[str, str] | None = None
) -> None:
    """Make a topic, with Kafka's settings of it, that is known on return; one that is being deleted is waited for."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, partitions, replication, config=settings or {})
    deadline = time.monotonic() + _SECONDS
    asked_before = False
    while True:
        try:
            admin.create_topics([new], request_timeout=_SECONDS / 3)[topic].result()
            break
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.TOPIC_ALREADY_EXISTS and asked_before:
                break
            if code not in (KafkaError.TOPIC_ALREADY_EXISTS, KafkaError._TIMED_OUT) or time.monotonic() > deadline:
                raise
            # A server that has just started may lose the request on its way to itself.
            asked_before = code == KafkaError._TIMED_OUT
    while leader_of(bootstrap, topic, partitions - 1) is None:
        assert time.monotonic() < deadline, f"{topic} has no leader"


def configure(bootstrap: str, topic: str, settings: dict[str, str]) -> None:
    """Change a topic's settings; they hold on return."""
    _change(bootstrap, topic, settings)
    # A server knows of a change before it acts by it, and makes one after the other: of the second it knows once the
    # first one holds.
    _change(bootstrap, topic, {"index.interval.bytes": str(5000 + secrets.randbelow(1000))})


def widen(bootstrap: str, topic: str, partitions: int) -> None:
    """Give a topic more partitions, so many in all, which have leaders on return."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, partitions)], request_timeout=_SECONDS)[topic].result(_SECONDS)
    deadline = time.monotonic() + _SECONDS
    while leader_of(bootstrap, topic, partitions - 1) is None:
        assert time.monotonic() < deadline, f"{topic} has no {partitions} partitions"


def delete(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(_SECONDS)


def write(bootstrap: str, topic: str, *values: bytes) -> None:
    """Returns when all are acked."""
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(2 * _SECONDS) == 0
    assert errors == [None] * len(values)


def read(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "tests", "log_level": 0})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages = consumer.consume(count, timeout=2 * _SECONDS)
        assert [message.error() for message in messages] == [None] * count
        return [message.value() for message in messages]
    finally:
        consumer.close()


def _change(bootstrap: str, topic: str, settings: dict[str, str]) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
    deadline = time.monotonic() + _SECONDS
    while True:
        # Each time a new one: a client that believes in a server that is away stays with it.
        admin = AdminClient({"bootstrap.servers": bootstrap})
        try:
            admin.incremental_alter_configs([resource], request_timeout=_ATTEMPT_SECONDS)[resource].result(_SECONDS)
            found = admin.describe_configs([asked], request_timeout=_ATTEMPT_SECONDS)[asked].result(_SECONDS)
            if all(found[name].value == value for name, value in settings.items()):
                return
        except KafkaException as error:
            if error.args[0].code() not in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT):
                raise
        assert time.monotonic() < deadline, f"{topic} does not take {settings}"
