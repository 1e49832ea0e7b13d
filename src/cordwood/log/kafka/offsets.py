"""The bounds of a log, the offset at a time, and trimming. Blocking."""

import time
from concurrent.futures import Future

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo, OffsetSpec

from cordwood.errors import InvalidInput, NotFound

from .admin import Admin
from .deadline import answer, attempts, seconds_left
from .errors import TRANSIENT, is_missing, kafka_error, translate
from .settings import Settings
from .topics import Topics

_LOOK_AGAIN_SECONDS = 0.05
_OFFSET_MAX = 2**63 - 1
_PARTITION_MAX = 2**31 - 1

_FIRST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # confluent_kafka types its classes only in part
_END: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class Offsets:
    """The offsets of all logs of one cluster.

    The end is the end for readers: with the default `isolation.level` they get no record after an open transaction.
    """

    def __init__(self, admin: Admin, topics: Topics, settings: Settings) -> None:
        self._admin = admin
        self._topics = topics
        self._settings = settings
        uncommitted = settings.config.get("isolation.level") == "read_uncommitted"
        self._isolation = IsolationLevel.READ_UNCOMMITTED if uncommitted else IsolationLevel.READ_COMMITTED

    def bounds(self, topic: str, partition: int, timeout: float) -> tuple[int, int]:
        """The first kept offset, and one past the last."""
        start, end = self._ask(topic, partition, "bounds", timeout, _FIRST, _END)
        return start, max(start, end)

    def start(self, topic: str, partition: int, timeout: float) -> int:
        (start,) = self._ask(topic, partition, "start", timeout, _FIRST)
        return start

    def topic_id(self, topic: str, timeout: float) -> str:
        """The id of the topic that these offsets belong to."""
        return self._topics.id(topic, timeout)

    def at(self, topic: str, partition: int, timestamp: int, timeout: float) -> int:
        """The first offset with a timestamp at or after this one; the end if there is none."""
        at_time = OffsetSpec.for_timestamp(timestamp)
        found, end = self._ask(topic, partition, "offset_at", timeout, at_time, _END)
        return end if found < 0 else found

    def trim(self, topic: str, partition: int, before: int, timeout: float) -> None:
        """Delete the records below `before`."""
        deadline = time.monotonic() + timeout
        what = f"{topic}/{partition}: trim"
        if partition > _PARTITION_MAX:
            self._check_partition(topic, partition, what, deadline)
        if before > _OFFSET_MAX:
            raise self._beyond_end(topic, partition, what, before, deadline)
        log = TopicPartition(topic, partition, before)
        tries = attempts(what, deadline, self._admin.renew)
        while True:
            try:
                left, client = next(tries), self._admin.client  # kept until the answer is there
                answer(what, client.delete_records([log], request_timeout=left)[log], left)
                return
            except KafkaException as error:
                cause = kafka_error(error)
                if cause.code() == KafkaError.OFFSET_OUT_OF_RANGE:
                    raise self._beyond_end(topic, partition, what, before, deadline) from None
                self._go_on(topic, partition, what, cause, deadline)

    def _ask(self, topic: str, partition: int, what: str, timeout: float, *specs: OffsetSpec) -> list[int]:
        what = f"{topic}/{partition}: {what}"
        deadline = time.monotonic() + timeout
        if partition > _PARTITION_MAX:
            self._check_partition(topic, partition, what, deadline)
        log = TopicPartition(topic, partition)
        tries = attempts(what, deadline, self._admin.renew)
        while True:
            left, client = next(tries), self._admin.client  # kept until the answers are there
            try:
                asked: list[Future[ListOffsetsResultInfo]] = [
                    client.list_offsets({log: spec}, isolation_level=self._isolation, request_timeout=left)[log]
                    for spec in specs
                ]
                found = [answer(what, future, left).offset for future in asked]
                if OFFSET_INVALID not in found:
                    return found
                # After the death of a leader the client returns an answer without an offset, and no error.
                self._go_on(topic, partition, what, KafkaError(KafkaError._TRANSPORT), deadline)
            except KafkaException as error:
                self._go_on(topic, partition, what, kafka_error(error), deadline)

    def _go_on(self, topic: str, partition: int, what: str, error: KafkaError, deadline: float) -> None:
        """Return if a retry may help, since the topic is there and the error is about its leader; else raise."""
        if not is_missing(error) and error.code() != KafkaError._NOENT and error.code() not in TRANSIENT:
            raise translate(error, what, self._settings) from None
        self._check_partition(topic, partition, what, deadline)
        self._topics.refresh(topic, deadline)
        time.sleep(min(_LOOK_AGAIN_SECONDS, seconds_left(what, deadline)))

    def _check_partition(self, topic: str, partition: int, what: str, deadline: float) -> None:
        partitions = self._topics.partitions(topic, deadline)
        if partition >= partitions:
            raise NotFound(f"{what}: topic {topic!r} has the partitions 0 to {partitions - 1}") from None

    def _beyond_end(self, topic: str, partition: int, what: str, before: int, deadline: float) -> InvalidInput:
        end = self.bounds(topic, partition, seconds_left(what, deadline))[1]
        return InvalidInput(f"{what} before {before} is beyond its end, which is {end}")
