"""The topics of a cluster: creating, listing, describing, altering and deleting them. Blocking."""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    DescribeClusterResult,
    NewTopic,
    TopicDescription,
)

from cordwood.errors import InvalidInput, NotFound, Unavailable
from cordwood.log.interface import TopicInfo
from cordwood.log.topics import TopicChange, TopicConfig, milliseconds_of

from .admin import Admin
from .deadline import ATTEMPT_SECONDS, answer, attempts, seconds_left
from .durability import durability, is_compacted
from .errors import TRANSIENT, is_missing, kafka_error, translate
from .settings import Settings

T = TypeVar("T")

Ask = Callable[[AdminClient, float], Future[T]]
"""Sends a request with this timeout in seconds."""

BATCH_BYTES_DEFAULT = 1_048_588
"""The max.message.bytes of a topic that does not set it: Kafka's own default."""

_BATCH_BYTES_MAX = 2 * 1024 * 1024  # as the frame of the folder engine
_REPLICAS_MAX = 3
_REPLICATION_MAX = 10_000  # librdkafka takes no more
_LONGEST = str(2**63 - 1)
_INTERNAL = {"__consumer_offsets", "__transaction_state", "__share_group_state"}
_LOOK_AGAIN_SECONDS = 0.02
_BEHIND_SECONDS = 3.0  # the brokers of a cluster learn of a new topic one after the other


@dataclass
class TopicFacts:
    """The facts of a topic that appends need, as of one time."""

    partitions: int
    batch_bytes_max: int | None
    """None if this user may not see the topic's settings."""
    record_bytes_max: int
    """That, or the client's own limit if it is less."""
    writable: bool
    topic_id: str
    expires: float
    """By the monotonic clock; 0 once the facts are known to be wrong."""


class Topics:
    """The topics of one cluster."""

    def __init__(self, admin: Admin, settings: Settings) -> None:
        self._admin = admin
        self._settings = settings
        self._made: dict[str, float] = {}
        """Topics that this process has created. Until the time here, a broker that does not know one only lags."""

    def create(self, name: str, config: TopicConfig, timeout: float) -> TopicInfo:
        """Create a topic, and return once each of its partitions has a leader."""
        deadline = time.monotonic() + timeout
        what = f"creating topic {name!r}"
        replication = config.replication
        if replication is None:
            replication = min(_REPLICAS_MAX, self._brokers(what, deadline))
        if replication > _REPLICATION_MAX:
            raise InvalidInput(f"{what}: replication is {replication}, more than the cluster has brokers")
        new = NewTopic(name, config.partitions or 1, replication, config=_settings_of(config, replication))
        self._ask(what, deadline, lambda client, left: client.create_topics([new], request_timeout=left)[name])
        now = time.monotonic()
        for old, end in list(self._made.items()):  # in place: other threads create topics at the same time
            if end < now:
                self._made.pop(old, None)
        self._made[name] = now + _BEHIND_SECONDS
        return self.usable(name, deadline)

    def usable(self, name: str, deadline: float) -> TopicInfo:
        """Wait until a new topic is known, and all its partitions have a leader."""
        while True:
            try:
                description = self._describe(name, deadline)
                if all(partition.leader is not None for partition in description.partitions):
                    return self._info(description, deadline)
            except NotFound:
                pass
            self._pause(f"creating topic {name!r}: waiting until it is usable", deadline)

    def alter(self, name: str, change: TopicChange, timeout: float) -> TopicInfo:
        """Change the settings of a topic, and return once the cluster shows them."""
        deadline = time.monotonic() + timeout
        what = f"altering topic {name!r}"
        wanted = _limits(change.named())
        entries = [
            ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
            for setting, value in wanted.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=entries)
        self._ask(
            what,
            deadline,
            lambda client, left: client.incremental_alter_configs([resource], request_timeout=left)[resource],
        )
        while True:
            shown = self._config_of(name, deadline)
            if all(shown[setting] == value for setting, value in wanted.items()):
                return self._info(self._describe(name, deadline), deadline)
            self._pause(f"{what}: waiting until the cluster shows it", deadline)

    def names(self, prefix: str, timeout: float) -> list[str]:
        """The sorted names, without Kafka's internal topics."""
        known = self._metadata("listing topics", time.monotonic() + timeout).topics
        return sorted(name for name in known if name.startswith(prefix) and name not in _INTERNAL)

    def info(self, name: str, timeout: float) -> TopicInfo:
        deadline = time.monotonic() + timeout
        return self._info(self._describe(name, deadline), deadline)

    def facts(self, name: str, timeout: float, lifetime: float) -> TopicFacts:
        """The facts that appends need; they expire after `lifetime` seconds."""
        deadline = time.monotonic() + timeout
        description = self._describe(name, deadline)
        operations: Any = description.authorized_operations  # None from a broker that does not report them
        try:
            limit: int | None = _limit(self._config_of(name, deadline))
        except Unavailable:
            limit = None  # a user that may only write and describe sees no settings: the brokers check the size
        return TopicFacts(
            partitions=len(description.partitions),
            batch_bytes_max=limit,
            record_bytes_max=self._settings.record_bytes_max if limit is None else self._record_bytes_max(limit),
            writable=operations is None or AclOperation.WRITE in operations,
            topic_id=str(description.topic_id),
            expires=time.monotonic() + lifetime,
        )

    def look_up(self, names: Iterable[str], timeout: float) -> list[tuple[str, str, int]]:
        """Name, id and number of partitions of those topics that exist."""
        deadline = time.monotonic() + timeout
        there = []
        for name in names:
            with suppress(NotFound):
                description = self._describe(name, deadline)
                there.append((name, str(description.topic_id), len(description.partitions)))
        return there

    def id(self, name: str, timeout: float) -> str:
        """The id of a topic, which differs when the topic is deleted and created again."""
        return str(self._describe(name, time.monotonic() + timeout).topic_id)

    def partitions(self, name: str, deadline: float) -> int:
        """The present number of partitions of a topic."""
        return len(self._describe(name, deadline).partitions)

    def refresh(self, name: str, deadline: float) -> None:
        """Make the client look up the leaders of an existing topic: on its own it keeps the old ones."""
        what = f"looking for the leaders of topic {name!r}"
        try:
            self._admin.client.list_topics(name, timeout=min(ATTEMPT_SECONDS, seconds_left(what, deadline)))
        except KafkaException as error:
            self._raise_unless_it_passes(error, what)

    def delete(self, name: str, timeout: float) -> None:
        """Delete a topic, and return once it is gone."""
        deadline = time.monotonic() + timeout
        what = f"deleting topic {name!r}"
        self._made.pop(name, None)
        try:
            self._ask(what, deadline, lambda client, left: client.delete_topics([name], request_timeout=left)[name])
        except NotFound:
            raise NotFound(f"topic {name!r} does not exist: topics() lists those that do") from None
        while True:
            try:
                self._describe(name, deadline)
            except NotFound:
                return
            self._pause(f"{what}: waiting until it is gone", deadline)

    def _info(self, description: TopicDescription, deadline: float) -> TopicInfo:
        config = self._config_of(description.name, deadline)
        replication = min(len(partition.replicas) for partition in description.partitions)
        retention_ms, retention_bytes = int(config["retention.ms"]), int(config["retention.bytes"])
        return TopicInfo(
            name=description.name,
            id=str(description.topic_id),
            partitions=len(description.partitions),
            replication=replication,
            retention=None if retention_ms < 0 else timedelta(milliseconds=retention_ms),
            retention_bytes=None if retention_bytes < 0 else retention_bytes,
            durability=durability(config, replication),
            batch_bytes_max=self._record_bytes_max(_limit(config)),
            compacted=is_compacted(config),
        )

    def _record_bytes_max(self, limit: int) -> int:
        return min(limit, self._settings.record_bytes_max)

    def _describe(self, name: str, deadline: float) -> TopicDescription:
        def ask(client: AdminClient, left: float) -> "Future[TopicDescription]":
            wanted = TopicCollection([name])
            asked = client.describe_topics(wanted, include_authorized_operations=True, request_timeout=left)
            return asked[name]

        return self._look_up(name, f"looking up topic {name!r}", deadline, ask, self._made.get(name, 0.0))

    def _config_of(self, name: str, deadline: float) -> Mapping[str, str]:
        """The settings of a topic that was described before: a broker that does not know it lags the one that did."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        behind_until = max(time.monotonic() + ATTEMPT_SECONDS, self._made.get(name, 0.0))

        def ask(client: AdminClient, left: float) -> "Future[dict[str, Any]]":
            return client.describe_configs([resource], request_timeout=left)[resource]

        entries = self._look_up(name, f"looking up the settings of topic {name!r}", deadline, ask, behind_until)
        return {key: entry.value for key, entry in entries.items()}

    def _brokers(self, what: str, deadline: float) -> int:
        """The number of brokers. Not by `_metadata`, which transfers all topics."""

        def ask(client: AdminClient, left: float) -> "Future[DescribeClusterResult]":
            return client.describe_cluster(request_timeout=left)

        return len(self._look_up(None, what, deadline, ask).nodes)

    def _metadata(self, what: str, deadline: float) -> Any:
        tries = attempts(what, deadline, self._admin.renew)
        while True:
            try:
                found = self._admin.client.list_topics(timeout=next(tries))
                self._settings.learn(found)
                return found
            except KafkaException as error:
                self._raise_unless_it_passes(error, what)
            self._pause(what, deadline)

    def _look_up(
        self,
        name: str | None,
        what: str,
        deadline: float,
        ask: Ask[T],
        behind_until: float = 0.0,
    ) -> T:
        """As `_ask`, for a request that changes nothing: it is retried until the deadline.

        A broker that does not know the topic before `behind_until` only lags.
        """
        tries = attempts(what, deadline, self._admin.renew)
        while True:
            try:
                left = next(tries)
                # Kept until the answer is there: a replaced client that is freed cancels its requests.
                client = self._admin.client
                return answer(what, ask(client, left), left)
            except KafkaException as error:
                behind = time.monotonic() + _LOOK_AGAIN_SECONDS < min(behind_until, deadline)
                if not (behind and is_missing(kafka_error(error))):
                    self._raise_unless_it_passes(error, what)
            # For admin requests the client waits for a broker that it has lost; a request for metadata makes it look
            # for another one.
            with suppress(KafkaException):
                self._admin.client.list_topics(name, timeout=min(ATTEMPT_SECONDS, seconds_left(what, deadline)))
            self._pause(what, deadline)

    def _raise_unless_it_passes(self, error: KafkaException, what: str) -> None:
        """Return for errors of a dying broker: another one can answer the request."""
        cause = kafka_error(error)
        if cause.code() not in TRANSIENT:
            raise translate(cause, what, self._settings) from None

    def _ask(self, what: str, deadline: float, ask: Ask[T]) -> T:
        """The answer to a request of the admin client, by the deadline."""
        try:
            left = seconds_left(what, deadline)
            client = self._admin.client  # kept until the answer is there
            return answer(what, ask(client, left), left)
        except KafkaException as error:
            # Not chained: librdkafka's words may hold a secret, and are in the message without it.
            raise translate(kafka_error(error), what, self._settings) from None

    def _pause(self, what: str, deadline: float) -> None:
        time.sleep(min(_LOOK_AGAIN_SECONDS, seconds_left(what, deadline)))


def _settings_of(config: TopicConfig, replication: int) -> dict[str, str]:
    """R19: the promises of a topic must not depend on the defaults of a cluster."""
    return {
        "cleanup.policy": "delete",
        **_limits({"retention": config.retention, "retention_bytes": config.retention_bytes}),
        "min.insync.replicas": "2" if replication >= _REPLICAS_MAX else "1",
        "unclean.leader.election.enable": "false",
        "max.message.bytes": str(_BATCH_BYTES_MAX),
        # A record's timestamp is its writer's, as on every engine, without limits.
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": _LONGEST,
        "message.timestamp.after.max.ms": _LONGEST,
    }


def _limits(named: Mapping[str, Any]) -> dict[str, str]:
    """Kafka's settings for these limits; -1 for none, since the cluster's default may differ."""
    limits = {}
    if "retention" in named:
        limits["retention.ms"] = milliseconds_of(named["retention"])
    if "retention_bytes" in named:
        limits["retention.bytes"] = named["retention_bytes"]
    return {setting: str(-1 if value is None else value) for setting, value in limits.items()}


def _limit(config: Mapping[str, str]) -> int:
    return int(config.get("max.message.bytes", BATCH_BYTES_DEFAULT))


def no_right_to_write(topic: str) -> Unavailable:
    """The error of an append by a user without the right to write."""
    return Unavailable(
        f"appending to {topic!r}: this user lacks the right WRITE on the topic: ask for it, or connect as another",
        outcome="not_written",
        reason="permission",
    )
