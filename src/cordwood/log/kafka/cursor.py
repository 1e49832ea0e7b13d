"""Reading one log from an offset on. It blocks and uses no event loop: readers and Spark's tasks share it."""

import logging
import time
from collections.abc import Sequence
from itertools import count
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from cordwood.errors import CordwoodError, NotFound, Timeout, Trimmed
from cordwood.log.calls.threads import in_a_thread
from cordwood.records import StoredBatch

from .consumers import Consumers
from .deadline import attempts
from .errors import TRANSIENT, is_missing, kafka_error, translate
from .messages import Rows
from .offsets import Offsets
from .same_topic import SameTopic
from .settings import Settings

_LOGGER = logging.getLogger("cordwood.kafka")

_MESSAGES_MAX = 10_000
_MESSAGES_FIRST = 500
_TAKEN_AT_ONCE = 500
"""Messages are unpacked while they are in the processor's cache: 10,000 at once took half as long again."""
_STEP_BYTES = 4 * 1024 * 1024
_ASK_SECONDS = 2.0
"""After so long without a record the cursor asks the cluster whether there is a reason."""
_LOOK_AGAIN_SECONDS = 0.05
_RENEW_SHARE = 1 / 3
"""After this part of the timeout without records that the log has, the cursor tries another client."""


class Cursor:
    """A position in a log, and a client that reads from there; `offset` is the next one to read.

    It skips no record. Where offsets jump, either there is no record (marks of transactions, compaction), or it was
    trimmed, and `read` raises `Trimmed`.
    """

    def __init__(
        self,
        consumers: Consumers,
        offsets: Offsets,
        settings: Settings,
        topic: str,
        partition: int,
        start: int,
        *,
        follow: bool = False,
        same_topic: SameTopic | None = None,
    ) -> None:
        self.offset = start
        self.broker_time = False
        """Whether the timestamps of the last batch are the broker's (LogAppendTime), not the writer's."""
        self._consumers = consumers
        self._offsets = offsets
        self._settings = settings
        self._topic = topic
        self._partition = partition
        self._follow = follow
        self._messages = _MESSAGES_FIRST
        self._end = -1  # where the client saw the end of the log
        self._left: list[Any] = []  # taken from the client, not yet returned: their timestamps are of the other kind
        # Only time spent waiting in here counts: the caller may take hours over a batch.
        self._unasked = 0.0  # seconds without a record since the cluster was last asked why
        self._missed = 0.0  # seconds without a record since all was well
        self._renewed = False
        # Checked once there is more to read than the first batch, or after that batch if the caller names the topic.
        self._same_topic = same_topic or SameTopic(offsets, topic, None, settings.timeout)
        self._checked = False
        self._silent = False
        self._consumer: Any = None
        self._begin(consumers.take(follow))

    def read(self, stop: int | None, seconds: float) -> StoredBatch | None:
        """Return the next records below `stop`, and advance `offset`; None if none came within so many seconds."""
        wanted = self._messages if stop is None else min(self._messages, stop - self.offset)
        rows = Rows()
        begun = time.monotonic()
        try:
            while len(rows) < wanted and self._take(rows, min(_TAKEN_AT_ONCE, wanted - len(rows)), stop, seconds):
                pass
        except KafkaException as error:
            self._sound = False
            raise translate(kafka_error(error), self._what, self._settings) from None
        more = stop is None or self.offset < stop
        # The client silently continues in a topic that was deleted and created again, once it is long enough. Before
        # that, it returns nothing for a moment.
        if (rows and self._silent) or (not self._checked and (more or self._same_topic.named)):
            self._check_same_topic()
        self._silent = not rows
        if not rows:
            if more:
                self._nothing_came(time.monotonic() - begun, stop)
            return None
        self._all_well()
        self.broker_time = rows.broker_time
        batch = rows.batch()
        average = batch.weight // len(batch) + 1
        self._messages = max(1, min(_MESSAGES_MAX, _STEP_BYTES // average))
        return batch

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            # A client that was getting no records may be stuck, and the next reader would be stuck with it.
            self._consumers.give_back(consumer, again=self._sound and not self._follow and not self._missed)

    @property
    def _what(self) -> str:
        return f"{self._topic}/{self._partition}: read at {self.offset}"

    def _begin(self, consumer: Any) -> None:
        """Make this client read from `offset` on."""
        self._consumer = consumer
        self._sound = False
        try:
            self._meet()
            self._assign()
            self._sound = True
        except KafkaException as error:
            raise translate(kafka_error(error), self._what, self._settings) from None
        finally:
            if not self._sound:
                self.close()

    def _meet(self) -> None:
        """Make the client look the topic up: it looks for the leader of an unknown topic only once a second."""
        for left in attempts(self._what, time.monotonic() + self._settings.timeout, self._replace):
            try:
                self._consumer.list_topics(self._topic, timeout=left)
                return
            except KafkaException as error:
                if kafka_error(error).code() not in TRANSIENT:
                    raise
                time.sleep(_LOOK_AGAIN_SECONDS)

    def _assign(self) -> None:
        self._consumer.assign([TopicPartition(self._topic, self._partition, self.offset)])

    def _take(self, rows: Rows, wanted: int, stop: int | None, seconds: float) -> bool:
        """Add the client's records to the rows; if these are empty, wait for some. Return whether there may be more."""
        messages = self._consume(wanted, 0 if rows else seconds)
        more = len(messages) == wanted
        said = [message for message in messages if message.error()] if any(map(Message.error, messages)) else []
        if said:
            messages = [message for message in messages if not message.error()]
        beyond = stop is not None and bool(messages) and messages[-1].offset() >= stop
        if beyond:
            messages = [message for message in messages if message.offset() < stop]
        if messages:
            offsets = rows.add(messages)
            self._left = messages[len(offsets) :]
            if offsets:
                self._check_dense(offsets)
                self.offset = offsets[-1] + 1
        for message in said:  # after the records: a client that starts again must not return them twice
            self._hear(message)
        if self._left:
            return False
        if beyond:
            assert stop is not None
            self.offset = stop  # there is no record between the last one and `stop`
            return False
        self.offset = max(self.offset, self._end)
        return more

    def _consume(self, wanted: int, seconds: float) -> list[Any]:
        """Take the messages that are ready; if there are none, wait for one, and take those that came with it."""
        messages: list[Any]
        if self._left:
            messages, self._left = self._left, []
            return messages
        messages = self._consumer.consume(wanted, 0)
        if messages or not seconds:
            return messages
        first = self._consumer.poll(seconds)
        if first is None or wanted == 1:
            return [] if first is None else [first]
        return [first, *self._consumer.consume(wanted - 1, 0)]

    def _check_dense(self, offsets: Sequence[int]) -> None:
        """R19: in a gap there never was a record, or retention was faster than this reader, which is `Trimmed`."""
        if offsets[0] == self.offset and isinstance(offsets, range):
            return
        missing = next(
            expected for expected, offset in zip(count(self.offset), offsets, strict=False) if offset != expected
        )
        start = self._offsets.start(self._topic, self._partition, self._settings.timeout)
        if start > missing:
            self._sound = False
            raise self._trimmed(missing, start)

    def _hear(self, message: Any) -> None:
        """Handle an event of the client. The next record comes at the end that it saw, after marks of transactions."""
        error = message.error()
        if error.code() == KafkaError._PARTITION_EOF:
            self._end = message.offset()
            self._all_well()
        else:
            self._take_error(error)

    def _take_error(self, error: KafkaError) -> None:
        code = error.code()
        if code == KafkaError._AUTO_OFFSET_RESET:
            self._ask()
            # The cluster has the offset: the client was wrong for a moment. It reads the records in `_left` again.
            self._left, self._end = [], -1
            self._assign()
        elif is_missing(error):
            self._ask()
        elif code not in TRANSIENT and code != KafkaError.GROUP_AUTHORIZATION_FAILED:
            self._sound = False
            raise translate(error, self._what, self._settings)

    def _all_well(self) -> None:
        self._unasked = self._missed = 0.0
        self._renewed = False

    def _nothing_came(self, seconds: float, stop: int | None) -> None:
        """At the end of the log no records are expected, unless the topic is gone or no broker answers.

        A reader that does not follow has seen an end that is not below `stop`. If the log ends before `stop` now, the
        topic was created again, or a new leader does not know the end yet.
        """
        self._unasked += seconds
        self._missed += seconds
        if self._unasked < _ASK_SECONDS:
            return
        begun = time.monotonic()
        end = self._ask()
        self._check_same_topic()
        self._unasked = 0.0
        self._missed += time.monotonic() - begun
        if end <= self.offset and (self._follow or stop is None):
            self._all_well()
        elif end <= self.offset:
            if self._missed > self._settings.timeout:
                self._sound = False
                raise self._lost_end(end, f"the end was no nearer than {stop} when the read began")
        elif self._missed > self._settings.timeout:
            self._sound = False
            raise Timeout(
                f"{self._what}: nothing came for {self._missed:.0f} s, though the log ends at {end}: try again"
            )
        elif self._missed > self._settings.timeout * _RENEW_SHARE and not self._renewed:
            self._renew(end)

    def _renew(self, end: int) -> None:
        """The cluster answers, and the client returns none of the log's records: it may be stuck."""
        _LOGGER.warning(
            "%s: nothing came for %.0f s, though the log ends at %d: going on with a new client",
            *(self._what, self._missed, end),
        )
        self._renewed = True
        self._replace()
        self._begin(self._consumer)

    def _replace(self) -> None:
        """Continue with a new client."""
        lost, self._consumer = self._consumer, self._consumers.make(self._follow)
        # In a thread of its own: a client that is stuck may take long to close, or never do so.
        in_a_thread("cordwood-kafka-let-go", lambda: self._consumers.give_back(lost, again=False))

    def _ask(self) -> int:
        """Return the end of the log; raise if the log does not have `offset`."""
        try:
            start, end = self._offsets.bounds(self._topic, self._partition, self._settings.timeout)
            if self.offset < start:
                raise self._trimmed(self.offset, start)
            if self.offset > end:
                self._same_topic.check(self._what)
                raise self._lost_end(end, f"read from {start}")
        except CordwoodError:
            self._sound = False
            raise
        return end

    def _lost_end(self, end: int, more: str) -> NotFound:
        return NotFound(f"{self._what}: the log ends at {end}: the topic was made anew, or lost its end; {more}")

    def _check_same_topic(self) -> None:
        """Checked after the read: ids are never reused, so all its records are of the topic that has the id now."""
        try:
            self._checked = self._same_topic.check(self._what)
        except CordwoodError:
            self._sound = False
            raise

    def _trimmed(self, wanted: int, start: int) -> Trimmed:
        log = f"{self._topic}/{self._partition}"
        return Trimmed(
            f"{log} was trimmed before {start}, and offset {wanted} asked for: read from {start}", start=start
        )
