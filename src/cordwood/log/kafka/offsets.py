"""The bounds of a log, the offset at a time, and trimming. Blocking."""

import time
from collections.abc import Iterable, Sequence
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
        self._uncommitted = settings.config.get("isolation.level") == "read_uncommitted"

    def bounds(self, topic: str, partition: int, timeout: float, *, uncommitted: bool = False) -> tuple[int, int]:
        """The first kept offset, and one past the last; with `uncommitted` also past open transactions."""
        return self.bounds_of(topic, [partition], timeout, uncommitted=uncommitted)[partition]

    def bounds_of(
        self, topic: str, partitions: Iterable[int] | None, timeout: float, *, uncommitted: bool = False
    ) -> dict[int, tuple[int, int]]:
        """The bounds of several logs of a topic, by default of all: two requests for each leader."""
        deadline = time.monotonic() + timeout
        if partitions is None:
            partitions = range(self._topics.partitions(topic, deadline))
        logs = list(partitions)
        if not logs:
            return {}
        seconds = deadline - time.monotonic()
        starts, ends = self._ask(topic, logs, "bounds", seconds, _FIRST, _END, uncommitted=uncommitted)
        return {log: (starts[log], max(starts[log], ends[log])) for log in logs}

    def start(self, topic: str, partition: int, timeout: float) -> int:
        (starts,) = self._ask(topic, [partition], "start", timeout, _FIRST)
        return starts[partition]

    def topic_id(self, topic: str, timeout: float) -> str:
        """The id of the topic that these offsets belong to."""
        return self._topics.id(topic, timeout)

    def at(self, topic: str, partition: int, timestamp: int, timeout: float) -> int:
        """The first offset with a timestamp at or after this one; the end if there is none."""
        at_time = OffsetSpec.for_timestamp(timestamp)
        found, end = self._ask(topic, [partition], "offset_at", timeout, at_time, _END)
        return end[partition] if found[partition] < 0 else found[partition]

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

    def _ask(
        self,
        topic: str,
        partitions: Sequence[int],
        what: str,
        timeout: float,
        *specs: OffsetSpec,
        uncommitted: bool = False,
    ) -> list[dict[int, int]]:
        """For each spec the offsets by partition."""
        deadline = time.monotonic() + timeout
        for partition in partitions:
            if partition > _PARTITION_MAX:
                self._check_partition(topic, partition, f"{topic}/{partition}: {what}", deadline)
        logs = {partition: TopicPartition(topic, partition) for partition in partitions}
        asker = f"{topic}/{partitions[0]}: {what}" if len(partitions) == 1 else f"{topic}: {what}"
        tries = attempts(asker, deadline, self._admin.renew)
        while True:
            left, client = next(tries), self._admin.client  # kept until the answers are there
            place = partitions[0]
            try:
                asked: list[dict[TopicPartition, Future[ListOffsetsResultInfo]]] = [
                    client.list_offsets(
                        dict.fromkeys(logs.values(), spec),
                        isolation_level=self._isolation(uncommitted),
                        request_timeout=left,
                    )
                    for spec in specs
                ]
                found: list[dict[int, int]] = [{} for _ in specs]
                for place, log in logs.items():
                    for answers, offsets in zip(asked, found, strict=True):
                        offset = answer(f"{topic}/{place}: {what}", answers[log], left).offset
                        if offset == OFFSET_INVALID:
                            # After the death of a leader the client returns an answer without an offset, and no error.
                            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
                        offsets[place] = offset
                return found
            except KafkaException as error:
                self._go_on(topic, place, f"{topic}/{place}: {what}", kafka_error(error), deadline)

    def _isolation(self, uncommitted: bool) -> IsolationLevel:
        if uncommitted or self._uncommitted:
            return IsolationLevel.READ_UNCOMMITTED
        return IsolationLevel.READ_COMMITTED

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
