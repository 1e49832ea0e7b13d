"""The settings of librdkafka: ours, then the user's, who may set all but those that a log's promises rest on."""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from cordwood.errors import InvalidInput
from cordwood.url import KafkaUrl, is_secret

QUEUE_KBYTES = 64 * 1024
"""So much librdkafka holds without an ack; then appends wait."""
BATCH_BYTES = 1_000_000
"""The largest batch that a producer makes of several records; a single record may be larger."""

_LOGGER = logging.getLogger("cordwood.kafka")

# A log promises acks that hold, offsets without duplicates, and reads without a silent jump. These settings decide it.
_FIXED = {
    "acks": "an ack means all in-sync replicas",
    "request.required.acks": "an ack means all in-sync replicas",
    "enable.idempotence": "a retry must not write twice",
    "enable.gapless.guarantee": "a record that is refused must not have others written twice",
    "message.timeout.ms": "a record that is out of time must not have others written twice, and `timeout` says when",
    "delivery.timeout.ms": "a record that is out of time must not have others written twice, and `timeout` says when",
    "max.in.flight": "a request that is refused must not have others written twice",
    "max.in.flight.requests.per.connection": "a request that is refused must not have others written twice",
    "transactional.id": "appends are not transactions",
    "delivery.report.only.error": "offsets come from delivery reports",
    "auto.offset.reset": "a reader must report trimmed records, not skip them",
    "enable.auto.commit": "readers are in no group",
    "enable.auto.offset.store": "readers are in no group",
    "enable.partition.eof": "a reader must see its end",
    "allow.auto.create.topics": "create_topic makes topics",
    "metadata.broker.list": "the url names the servers",
}

_COMMON: Mapping[str, Any] = {
    "client.id": "cordwood",
    # A client that knows a topic as missing finds it within a moment after its creation.
    "topic.metadata.refresh.fast.interval.ms": 50,
    "reconnect.backoff.max.ms": 2000,
    # Where brokers allow it, a client would create a topic that it has written again after its deletion: minutes later,
    # when it refreshes the topics that it knows.
    "allow.auto.create.topics": False,
}

_PRODUCER: Mapping[str, Any] = {
    "enable.idempotence": True,
    # A client that drops a record, refused or out of time, renumbers the records after it. One of those that was
    # written, with its answer lost, and is sent again, would be there twice. With the first setting a refusal is fatal
    # to the client; with the second it never drops a late record: the sender gives that up together with the client.
    "enable.gapless.guarantee": True,
    "message.timeout.ms": 0,
    # The client also renumbers where a broker refuses a request for now, and with it those that follow. With one in
    # flight none follows. A broker serves one request of a connection at a time, so more would gain little.
    "max.in.flight": 1,
    "acks": "all",
    # A lone append is sent at once. In bulk the records that wait for the request under way make up the next batch.
    "linger.ms": 0,
    # Cordwood checks the topic's own limit before it sends a record.
    "message.max.bytes": 1_000_000_000,
    "queue.buffering.max.kbytes": QUEUE_KBYTES,
    # An append looks its topic up first: a missing topic was deleted, and the client reports it after so long.
    "topic.metadata.propagation.max.ms": 3000,
    "batch.num.messages": 10_000,
}

_CONSUMER: Mapping[str, Any] = {
    # librdkafka requires the name of a group; no client joins it or commits to it.
    "group.id": "cordwood",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    # Memory of a reader: the queue, and one fetch on top of it.
    "queued.max.messages.kbytes": 16 * 1024,
    "queued.min.messages": 100_000,
    "fetch.message.max.bytes": 4 * 1024 * 1024,
    # With the default of 1 s a fast reader waits until the client looks at a full queue again.
    "fetch.queue.backoff.ms": 1,
    "fetch.error.backoff.ms": 50,
    "topic.metadata.propagation.max.ms": 1000,
}

_SEVERAL_FETCH_BYTES = 256 * 1024
"""Of each log in one fetch, where a client reads several logs: a log that lags delays no other by more than that."""

_SILENT_SECONDS_MAX = 10.0
_SILENT_SECONDS_MIN = 2.0
"""How long a broker may leave a request without an answer before the client asks another one: a third of a call's
timeout, so that no call fails because a replaced leader hangs; and no less than librdkafka allows."""

_WORD_MIN = 4
"""A shorter word of a secret reveals nothing, and is part of half of all texts."""

_FETCH_WAIT_MS = 5
_FETCH_SEVERAL_WAIT_MS = 1
"""How long a broker may hold a fetch at the end of a log that is not followed: a consumer that is reused for another
log right after waits for that. Fetches of known offsets follow each other closely."""

_FOLLOW_SEVERAL_WAIT_MS = 50
"""As above, for a client that follows several logs: one that it reads in addition has to wait for that."""


@dataclass(frozen=True)
class ClientKind:
    """What a client for reading is made for. Clients of one kind, except followers, replace each other."""

    follow: bool = False
    several: bool = False
    """It reads several logs, or jumps in one: its fetches are small."""
    uncommitted: bool = False
    """It also reads records of open transactions, whatever the url says."""


@dataclass(frozen=True)
class Settings:
    """The settings of one connection; connections with equal settings share their clients.

    >>> Settings(("b1:9092",), {"sasl.password": "x y z"}, 30).masked("wrong: x y z")
    'wrong: ***'
    """

    servers: tuple[str, ...]
    config: Mapping[str, str] = field(repr=False)
    timeout: float
    learned: list[str] = field(default_factory=list, repr=False, compare=False)
    """The brokers that the cluster has reported: a client that is made later may find none of the url's."""

    @staticmethod
    def of(url: KafkaUrl, timeout: float) -> "Settings":
        """Check the user's settings."""
        for name in url.config:
            if name in _FIXED:
                raise InvalidInput(f"{name} cannot be set for {url}: {_FIXED[name]}; leave it out")
        return Settings(url.servers, dict(url.config), timeout)

    @property
    def key(self) -> tuple[Any, ...]:
        """Connections with equal keys share their clients."""
        return self.servers, tuple(sorted(self.config.items())), self.timeout

    @property
    def record_bytes_max(self) -> int:
        """The largest record that can be sent: a full client takes no more."""
        return 1024 * int(self.config.get("queue.buffering.max.kbytes", QUEUE_KBYTES))

    def learn(self, metadata: Any) -> None:
        """Keep the brokers of a client's metadata. There are none while the controller treats the only one as dead."""
        brokers = [(str(broker.host), broker.port) for broker in metadata.brokers.values()]
        if brokers:
            self.learned[:] = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in brokers]

    def admin(self, on_error: Callable[[Any], None]) -> dict[str, Any]:
        return self._all({}, on_error)

    def producer(self, batch_bytes: int, on_error: Callable[[Any], None]) -> dict[str, Any]:
        own = {**_PRODUCER, "batch.size": batch_bytes, "request.timeout.ms": self._silent_ms}
        config = self._all(own, on_error)
        if int(config["batch.size"]) > batch_bytes:
            config["batch.size"] = batch_bytes  # a broker refuses whole batches above a topic's limit
        return config

    def consumer(self, kind: ClientKind, on_error: Callable[[Any], None]) -> dict[str, Any]:
        own = dict(_CONSUMER)
        if not kind.follow:
            own["fetch.wait.max.ms"] = _FETCH_SEVERAL_WAIT_MS if kind.several else _FETCH_WAIT_MS
        elif kind.several:
            own["fetch.wait.max.ms"] = _FOLLOW_SEVERAL_WAIT_MS
        if kind.several:
            # librdkafka itself keeps the whole fetch within the queue's limit, and above the largest record.
            own["fetch.message.max.bytes"] = _SEVERAL_FETCH_BYTES
        config = self._all(own, on_error)
        if kind.uncommitted:
            config["isolation.level"] = "read_uncommitted"
        return config

    def masked(self, text: str) -> str:
        """`text` without any value of a secret setting: librdkafka quotes settings in its errors and logs.

        Also without a word of one: of a setting that is a list, such as `sasl.oauthbearer.config`, it quotes the wrong
        part.
        """
        return text if self._secrets is None else self._secrets.sub("***", text)

    @cached_property
    def _secrets(self) -> re.Pattern[str] | None:
        secrets = {value for name, value in self.config.items() if is_secret(name) and value}
        words = {word for value in secrets for word in value.split()}
        words |= {word.partition("=")[2] for word in words}
        secrets |= {word for word in words if len(word) >= _WORD_MIN}
        # The longest first: one secret may be a part of another.
        return re.compile("|".join(map(re.escape, sorted(secrets, key=len, reverse=True)))) if secrets else None

    @property
    def _silent_ms(self) -> int:
        return round(1000 * min(_SILENT_SECONDS_MAX, max(_SILENT_SECONDS_MIN, self.timeout / 3)))

    def _all(self, own: Mapping[str, Any], on_error: Callable[[Any], None]) -> dict[str, Any]:
        return {
            **_COMMON,
            "socket.timeout.ms": self._silent_ms,
            **own,
            **self.config,
            "bootstrap.servers": ",".join(dict.fromkeys([*self.servers, *self.learned])),
            "error_cb": on_error,
            "logger": _MaskedLogger(self),
        }


class _MaskedLogger:
    """Forwards the log lines of librdkafka without secrets.

    Never above INFO: librdkafka logs an unreachable broker many times a second, and a call that needs that broker
    raises an error.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def log(self, level: int, message: str, *args: object) -> None:
        level = min(level, logging.INFO)
        if _LOGGER.isEnabledFor(level):
            _LOGGER.log(level, "%s", self._settings.masked(message % args))
