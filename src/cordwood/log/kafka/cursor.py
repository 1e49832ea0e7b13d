"""Reading logs of a topic from offsets on. It blocks and uses no event loop: readers and Spark's tasks share it."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import count, groupby
from typing import Any, Generic, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from cordwood.errors import CordwoodError, NotFound, Timeout, Trimmed
from cordwood.log.arguments import beyond_end
from cordwood.log.calls.threads import in_a_thread
from cordwood.records import StoredBatch

from .consumers import Consumers
from .deadline import attempts
from .errors import TRANSIENT, is_missing, kafka_error, translate
from .messages import Rows
from .offsets import Offsets
from .same_topic import SameTopic
from .settings import ClientKind, Settings

_LOGGER = logging.getLogger("cordwood.kafka")

_MESSAGES_MAX = 10_000
_MESSAGES_FIRST = 500
_TAKEN_AT_ONCE = 500
"""Messages are unpacked while they are in the processor's cache: 10,000 at once took half as long again."""
_STEP_BYTES = 4 * 1024 * 1024
_ASK_SECONDS = 2.0
"""After so long without a record the cursor asks the cluster whether there is a reason."""
_LOOK_AGAIN_SECONDS = 0.05
AGREE_SECONDS = 3.0
"""A broker may lag the others for so long: an answer that ends a read must be the same after it."""
_BEYOND_END_SECONDS = 0.25
"""How often the cursor looks for the end of a log that does not have its start yet."""
_RENEW_SHARE = 1 / 3
"""After this part of the timeout without records that the log has, the cursor tries another client."""


class Place:
    """The place of a cursor in one log: `offset` is the next one to read."""

    def __init__(self, topic: str, partition: int, start: int, stop: int | None = None) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = start
        self.stop = stop
        self.end = -1
        """Where the client saw the end of the log."""
        self.begun = False
        """Whether the log is known to have had the start."""
        self.paused = False
        # Only time spent waiting in the cursor counts: the caller may take hours over a batch.
        self.unasked = 0.0  # seconds without a record since the cluster was last asked why
        self.missed = 0.0  # seconds without a record since all was well
        self.renewed = False

    @property
    def name(self) -> str:
        return f"{self.topic}/{self.partition}"

    @property
    def what(self) -> str:
        return f"{self.name}: read at {self.offset}"

    @property
    def at_stop(self) -> bool:
        return self.stop is not None and self.offset >= self.stop

    def on_well(self) -> None:
        self.unasked = self.missed = 0.0
        self.renewed = False
        self.begun = True


P = TypeVar("P", bound=Place)


class TopicCursor(Generic[P]):
    """Places in several logs of one topic, and one client that reads from there.

    It skips no record. Where offsets jump, either there is no record (marks of transactions, compaction), or it was
    trimmed, and `read` raises `Trimmed`.
    """

    def __init__(
        self,
        consumers: Consumers,
        offsets: Offsets,
        settings: Settings,
        topic: str,
        places: Iterable[P],
        kind: ClientKind,
        *,
        same_topic: SameTopic | None = None,
        beyond: Iterable[P] = (),
        waits: bool = False,
    ) -> None:
        """`beyond` are the places beyond the end of their logs; with `waits` they wait until the logs are that long."""
        self.broker_time = False
        """Whether the timestamps of the last batch are the broker's (LogAppendTime), not the writer's."""
        self._consumers = consumers
        self._offsets = offsets
        self._settings = settings
        self._topic = topic
        self._kind = kind
        self._waits = waits
        self._places = {place.partition: place for place in places}
        # Places beyond the end, and until when a second look has to agree.
        self._beyond = {place.partition: time.monotonic() + AGREE_SECONDS for place in beyond}
        self._look_at = 0.0
        self._messages = _MESSAGES_FIRST
        self._left: list[Any] = []  # taken from the client, not yet returned: their timestamps are of the other kind
        self._at_end: set[Place] = set()  # where the client has just seen the end
        # Checked once there is more to read than the first batch, or after that batch if the caller names the topic.
        self._same_topic = same_topic or SameTopic(offsets, topic, None, settings.timeout)
        self._checked = False
        self._silent = False
        self._consumer: Any = None
        self._begin(consumers.take(kind))

    @property
    def at_stop(self) -> bool:
        """Whether no place has another record to read."""
        return all(place.at_stop for place in self._places.values())

    @property
    def waiting(self) -> bool:
        """Whether a place is beyond the end of its log."""
        return bool(self._beyond)

    def read_batches(self, seconds: float) -> list[tuple[P, StoredBatch]]:
        """Return the next records, at most one batch of a log, and advance the places; none if none came in time.

        A log at its stop is paused, and the client fetches nothing more of it.
        """
        found = [(self._places[partition], rows) for partition, rows in self._read(self._messages, seconds).items()]
        self._pause([place for place, _ in found if place.at_stop])
        if self._beyond and time.monotonic() >= self._look_at:
            self._look_beyond()
        return [(place, self._batch(place, rows)) for place, rows in found]

    def add(self, place: P) -> None:
        """Also read from this place on."""
        self._places[place.partition] = place
        self._change(self._consumer.incremental_assign, place)

    def drop(self, place: P) -> None:
        """Read no more there."""
        if self._places.get(place.partition) is not place:
            return
        del self._places[place.partition]
        self._left = [message for message in self._left if message.partition() != place.partition]
        self._at_end.discard(place)
        if self._beyond.pop(place.partition, None) is None:
            if place.paused:  # else it is still paused when it is added again
                self._change(self._consumer.resume, place)
            self._change(self._consumer.incremental_unassign, place)

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            # A client that was getting no records may be stuck, and the next reader would be stuck with it.
            again = self._sound and not any(place.missed for place in self._places.values())
            if again and (paused := [self._spot(place) for place in self._places.values() if place.paused]):
                consumer.resume(paused)  # else they are paused for the next reader
            self._consumers.give_back(self._kind, consumer, again=again)

    @property
    def _what(self) -> str:
        return f"{self._topic}: read"

    def _read(self, wanted: int, seconds: float) -> dict[int, Rows]:
        """Take the records of the next messages, by partition; wait for the first ones."""
        found: dict[int, Rows] = {}
        begun = time.monotonic()
        taken = 0
        try:
            while taken < wanted:
                asked = min(_TAKEN_AT_ONCE, wanted - taken)
                messages = self._consume(asked, 0 if found else seconds)
                self._take(messages, found)
                taken += len(messages)
                if self._left or len(messages) < asked:
                    break
        except KafkaException as error:
            self._sound = False
            raise translate(kafka_error(error), self._what, self._settings) from None
        more = not self.at_stop
        # The client silently continues in a topic that was deleted and created again, once it is long enough. Before
        # that, it returns nothing for a moment.
        if (found and self._silent) or (not self._checked and (more or self._same_topic.named)):
            self._check_same_topic()
        self._silent = not found
        for partition in found:
            self._places[partition].on_well()
        if more:
            self._nothing_came(
                [
                    place
                    for partition, place in self._places.items()
                    if partition not in found and partition not in self._beyond and not place.at_stop
                ],
                time.monotonic() - begun,
            )
        return found

    def _batch(self, place: Place, rows: Rows) -> StoredBatch:
        self.broker_time = rows.broker_time
        batch = rows.batch()
        batch.partition = place.partition
        average = batch.weight // len(batch) + 1
        self._messages = max(1, min(_MESSAGES_MAX, _STEP_BYTES // average))
        return batch

    def _change(self, assign: Callable[[list[TopicPartition]], None], place: Place) -> None:
        try:
            assign([self._spot(place)])
        except KafkaException as error:
            self._sound = False
            raise translate(kafka_error(error), place.what, self._settings) from None

    def _spot(self, place: Place) -> TopicPartition:
        return TopicPartition(self._topic, place.partition, place.offset)

    def _begin(self, consumer: Any) -> None:
        """Make this client read from all places on."""
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
        """Read from the places on; records that were taken before and not returned are read again."""
        self._left = []
        self._at_end.clear()
        reading = [place for partition, place in self._places.items() if partition not in self._beyond]
        for place in reading:
            place.end = -1
            place.paused = False
        self._consumer.assign([self._spot(place) for place in reading])
        self._pause([place for place in reading if place.at_stop])

    def _assign_again(self, place: Place) -> None:
        self._left = [message for message in self._left if message.partition() != place.partition]
        self._at_end.discard(place)
        place.end = -1
        self._consumer.incremental_unassign([self._spot(place)])
        self._consumer.incremental_assign([self._spot(place)])

    def _pause(self, places: Sequence[Place]) -> None:
        """The client fetches no more of these. A new assignment would cost all others the records fetched ahead."""
        places = [place for place in places if not place.paused]
        if places:
            self._consumer.pause([self._spot(place) for place in places])
            for place in places:
                place.paused = True

    def _take(self, messages: list[Any], found: dict[int, Rows]) -> None:
        """Add the records of messages to the rows of their logs, and handle the events among them."""
        said = [message for message in messages if message.error()] if any(map(Message.error, messages)) else []
        if said:
            messages = [message for message in messages if not message.error()]
        if len(self._places) == 1:
            if messages:
                self._take_of(messages[0].partition(), messages, found)
        else:
            for partition, group in groupby(messages, Message.partition):
                self._take_of(partition, list(group), found)
        for message in said:  # after the records: a client that starts again must not return them twice
            self._hear(message)
        if not self._left:
            for place in self._at_end:
                place.offset = max(place.offset, place.end)
            self._at_end.clear()

    def _take_of(self, partition: int | None, messages: list[Any], found: dict[int, Rows]) -> None:
        place = self._places.get(partition)  # type: ignore[arg-type]  # all have one
        if place is None:
            return  # dropped meanwhile
        stop = place.stop
        beyond = stop is not None and messages[-1].offset() >= stop
        if beyond:
            messages = [message for message in messages if message.offset() < stop]
        if messages:
            rows = found.get(place.partition)
            if rows is None:
                rows = found[place.partition] = Rows()
            offsets = rows.add(messages)
            left = messages[len(offsets) :]
            self._left += left
            if offsets:
                self._check_dense(place, offsets)
                place.offset = offsets[-1] + 1
            beyond = beyond and not left
        if beyond:
            assert stop is not None
            place.offset = stop  # there is no record between the last one and `stop`

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

    def _check_dense(self, place: Place, offsets: Sequence[int]) -> None:
        """R19: in a gap there never was a record, or retention was faster than this reader, which is `Trimmed`."""
        if offsets[0] == place.offset and isinstance(offsets, range):
            return
        missing = next(
            expected for expected, offset in zip(count(place.offset), offsets, strict=False) if offset != expected
        )
        start = self._offsets.start(self._topic, place.partition, self._settings.timeout)
        if start > missing:
            self._sound = False
            raise trimmed(place.name, missing, start)

    def _hear(self, message: Any) -> None:
        """Handle an event of the client. The next record comes at the end that it saw, after marks of transactions."""
        error = message.error()
        place = self._places.get(message.partition())
        if place is None and message.topic() is not None and message.partition() >= 0:
            return  # of a log that was dropped meanwhile
        if place is not None and error.code() == KafkaError._PARTITION_EOF:
            place.end = message.offset()
            self._at_end.add(place)
            place.on_well()
        else:
            self._take_error(error, place)

    def _take_error(self, error: KafkaError, place: Place | None) -> None:
        code = error.code()
        if place is not None and code == KafkaError._AUTO_OFFSET_RESET:
            if not place.begun and self._is_beyond(place):
                return
            self._ask([place])
            # The cluster has the offset: the client was wrong for a moment.
            self._assign_again(place)
        elif place is not None and is_missing(error):
            self._ask([place])
        elif code not in TRANSIENT and code != KafkaError.GROUP_AUTHORIZATION_FAILED:
            self._sound = False
            raise translate(error, self._what if place is None else place.what, self._settings)

    def _is_beyond(self, place: Place) -> bool:
        """Whether the log does not have this start yet; then the cursor looks for it from time to time."""
        end = self._bounds([place])[place.partition][1]
        if place.offset <= end:
            return False
        self._beyond[place.partition] = time.monotonic() + AGREE_SECONDS
        self._consumer.incremental_unassign([self._spot(place)])
        return True

    def _look_beyond(self) -> None:
        """Read the logs that have grown up to their place; raise for one that did not, if it need not be waited for."""
        now = time.monotonic()
        places = [self._places[partition] for partition in self._beyond]
        bounds = self._bounds(places)
        # After that look-up: a new topic that is long enough must not pass for the one that the reader waits for.
        self._check_same_topic()
        self._look_at = time.monotonic() + _BEYOND_END_SECONDS
        for place in places:
            start, end = bounds[place.partition]
            if place.offset < start:
                self._sound = False
                raise trimmed(place.name, place.offset, start)
            if place.offset <= end:
                del self._beyond[place.partition]
                place.begun = True
                self._consumer.incremental_assign([self._spot(place)])
            elif not self._waits and now >= self._beyond[place.partition]:
                self._sound = False
                raise beyond_end(place.name, place.offset, end)

    def _nothing_came(self, places: Sequence[Place], seconds: float) -> None:
        """At the end of a log no records are expected, unless the topic is gone or no broker answers.

        A reader that does not follow has seen an end that is not below `stop`. If the log ends before `stop` now, the
        topic was created again, or a new leader does not know the end yet.
        """
        longest = 0.0
        for place in places:
            place.unasked += seconds
            place.missed += seconds
            longest = max(longest, place.unasked)
        if longest < _ASK_SECONDS:
            return
        begun = time.monotonic()
        ends = self._ask(places)
        self._check_same_topic()
        asked = time.monotonic() - begun
        stuck = []
        for place in places:
            place.unasked = 0.0
            place.missed += asked
            if self._is_stuck(place, ends[place.partition]):
                stuck.append(place)
        if stuck:
            self._renew(stuck, ends)

    def _is_stuck(self, place: Place, end: int) -> bool:
        """Whether the client should be replaced: the cluster has records of this log, and the client returns none."""
        timeout = self._settings.timeout
        if end <= place.offset and (self._kind.follow or place.stop is None):
            place.on_well()
            return False
        if end <= place.offset:
            if place.missed > timeout:
                self._sound = False
                raise _lost_end(place, end, f"the end was no nearer than {place.stop} when the read began")
            return False
        if place.missed > timeout:
            self._sound = False
            raise Timeout(
                f"{place.what}: nothing came for {place.missed:.0f} s, though the log ends at {end}: try again"
            )
        return place.missed > timeout * _RENEW_SHARE and not place.renewed

    def _renew(self, places: Sequence[Place], ends: dict[int, int]) -> None:
        """The cluster answers, and the client returns none of the records of these logs: it may be stuck."""
        for place in places:
            _LOGGER.warning(
                "%s: nothing came for %.0f s, though the log ends at %d: continuing with a new client",
                *(place.what, place.missed, ends[place.partition]),
            )
            place.renewed = True
        self._replace()
        self._begin(self._consumer)

    def _replace(self) -> None:
        """Continue with a new client."""
        kind = self._kind
        lost, self._consumer = self._consumer, self._consumers.make(kind)
        # In a thread of its own: a client that is stuck may take long to close, or never do so.
        in_a_thread("cordwood-kafka-let-go", lambda: self._consumers.give_back(kind, lost, again=False))

    def _ask(self, places: Sequence[Place]) -> dict[int, int]:
        """Return the ends of the logs; raise if one does not have its `offset`."""
        bounds = self._bounds(places)
        try:
            for place in places:
                start, end = bounds[place.partition]
                if place.offset < start:
                    raise trimmed(place.name, place.offset, start)
                if place.offset > end:
                    self._same_topic.check(place.what)
                    raise _lost_end(place, end, f"read from {start}")
        except CordwoodError:
            self._sound = False
            raise
        return {partition: end for partition, (_, end) in bounds.items()}

    def _bounds(self, places: Sequence[Place]) -> dict[int, tuple[int, int]]:
        try:
            return self._offsets.bounds_of(
                self._topic,
                [place.partition for place in places],
                self._settings.timeout,
                uncommitted=self._kind.uncommitted,
            )
        except CordwoodError:
            self._sound = False
            raise

    def _check_same_topic(self) -> None:
        """Checked after the read: ids are never reused, so all its records are of the topic that has the id now."""
        try:
            self._checked = self._same_topic.check(self._what)
        except CordwoodError:
            self._sound = False
            raise


class Cursor(TopicCursor[Place]):
    """A place in one log, and a client that reads from there; `offset` is the next one to read."""

    def __init__(
        self,
        consumers: Consumers,
        offsets: Offsets,
        settings: Settings,
        topic: str,
        partition: int,
        start: int,
        kind: ClientKind | None = None,
        *,
        same_topic: SameTopic | None = None,
        known: bool = True,
    ) -> None:
        """Unless the log is `known` to have the start, a start beyond the end is no error: `waiting` says so."""
        self.place = Place(topic, partition, start)
        self.place.begun = known
        super().__init__(consumers, offsets, settings, topic, [self.place], kind or ClientKind(), same_topic=same_topic)

    @property
    def offset(self) -> int:
        return self.place.offset

    @property
    def at_end(self) -> bool:
        """Whether the client has seen that the log ends here."""
        return self.place.end >= self.place.offset

    def seek(self, offset: int) -> None:
        """Continue at another place, which the log may not have."""
        self.place.offset, self.place.stop = offset, None
        self.place.begun = False
        self._assign()

    def read(self, stop: int | None, seconds: float) -> StoredBatch | None:
        """Return the next records below `stop`, and advance `offset`; None if none came within so many seconds."""
        place = self.place
        place.stop = stop
        wanted = self._messages if stop is None else min(self._messages, stop - place.offset)
        for rows in self._read(wanted, seconds).values():
            return self._batch(place, rows)
        return None

    @property
    def _what(self) -> str:
        return self.place.what


def trimmed(log: str, wanted: int, start: int) -> Trimmed:
    """The error of a read below the first kept offset."""
    return Trimmed(f"{log} was trimmed before {start}, and offset {wanted} asked for: read from {start}", start=start)


def _lost_end(place: Place, end: int, more: str) -> NotFound:
    return NotFound(f"{place.what}: the log ends at {end}: the topic was made anew, or lost its end; {more}")
