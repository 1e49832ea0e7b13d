"""A client that writes, and the one thread that serves it.

Lock: `_lock` guards the queue and the appends under way. It is never held during a call of librdkafka that waits.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from confluent_kafka import KafkaError, KafkaException, Producer

from cordwood.errors import CordwoodError, NotFound, Outcome, Timeout, TooLarge, Unavailable
from cordwood.locks import new_lock
from cordwood.log.calls.completion import deliver
from cordwood.log.calls.outcome import copy_for_caller

from .deadline import ATTEMPT_SECONDS
from .delivery import CHUNK_RECORDS, Append
from .errors import is_refused, kafka_error, translate
from .settings import Settings

_LOGGER = logging.getLogger("cordwood.kafka")

QUEUE_BYTES_MAX = 64 * 1024 * 1024
"""So many bytes may wait in the queue; the client holds as many again."""

# The caller itself hands over up to so many records of its append, which saves a change of threads. More would block
# its event loop, and in bulk its thread and the one that takes the reports would fight for the interpreter.
_OWN_THREAD_RECORDS = 16
_POLL_SECONDS = 0.02
# An idle thread continues to wait for reports for a while, longer each time, since they wake it faster than a caller
# does; then it sleeps until the next append.
_REST_SECONDS_MIN = 0.002
_REST_SECONDS_MAX = 0.1
_EXPIRE_SECONDS = 0.1
_PURGE_SECONDS = 5.0
_SETTLE_SECONDS = 0.5
_MET_MAX = 10_000


class Sender:
    """Sends appends in the order of their calls, to all logs of a cluster.

    The thread hands over the queued appends, takes the reports, wakes the callers once a group, and expires late
    appends. Records of two appends are not mixed: while the thread hands over a large one, all others queue.
    """

    def __init__(self, settings: Settings, batch_bytes: int, forget: Callable[[str], None]) -> None:
        """`forget` is called with the topic of a refused append: the facts of that topic are wrong."""
        self._settings = settings
        self._batch_bytes = batch_bytes
        self._forget = forget
        self._fatal: KafkaError | None = None  # why the client must be replaced
        self._producer = self._new_producer()
        self._lock = new_lock("kafka.producer")
        self._work = threading.Condition(self._lock)
        self._idle = False
        self._rest_seconds = _REST_SECONDS_MIN
        self._queue: deque[Append] = deque()
        self._queued_bytes = 0
        self._handing_over = False
        self._under_way: dict[Append, None] = {}
        self._to_check: list[Append] = []  # may be complete: their last record was reported, or they were cut
        self._room_wanted: list[Callable[[], None]] = []
        self._closing: float | None = None
        self._expire_next = 0.0
        self._met: dict[str, tuple[str, int]] = {}
        self.failed = False
        """The thread ended by a defect: this sender takes no more appends, and the cluster makes another one."""
        self._looks = 0  # how many callers look up a topic with the client
        self._thread = threading.Thread(target=self._run, name="cordwood-kafka-write", daemon=True)
        self._thread.start()

    def submit(self, append: Append) -> bool:
        """Take an append; False if the queue is full."""
        append.given_up = max(append.deadline, time.monotonic() + self._settings.timeout)
        with self._lock:
            if self._closing is not None:
                raise Unavailable(
                    f"{append.name}: the connection is closed: connect again", outcome="not_written", reason="closed"
                )
            if self._queue and self._queued_bytes + append.weight > QUEUE_BYTES_MAX:
                return False
            if not self._queue and not self._handing_over and self._fatal is None:
                # Of a large append only the first records: their reports wake the thread, which sends the rest.
                self._hand_over(append, _OWN_THREAD_RECORDS)
            if not append.handed_over:
                self._queue.append(append)
                self._queued_bytes += append.weight
            if self._idle:
                self._work.notify()
            return True

    def meet(self, topic: str, topic_id: str, partitions: int) -> None:
        """Make the client look up an existing topic, unless it has done so. Blocks.

        Otherwise the client reports a topic that was deleted and created again as missing for a while, and added
        partitions for minutes.
        """
        with self._lock:
            if self._met.get(topic) == (topic_id, partitions) or self._fatal is not None or self._closing is not None:
                return
            self._looks += 1
        try:
            with suppress(KafkaException):  # the next append tries again, or the client finds out by itself
                found = self._producer.list_topics(topic, timeout=ATTEMPT_SECONDS).topics[topic]
                if len(self._met) >= _MET_MAX:
                    self._met.clear()
                if len(found.partitions) >= partitions:  # else the broker that was asked lags
                    self._met[topic] = topic_id, partitions
        finally:
            with self._lock:
                self._looks -= 1
                self._work.notify_all()

    def when_room(self, wake: Callable[[], None]) -> None:
        """Call `wake` when the queue has become shorter."""
        with self._lock:
            if self._queued_bytes:
                self._room_wanted.append(wake)
                return
        wake()

    def close(self, timeout: float) -> None:
        """Send the queue, take the reports, and end; an append without reports in time has the outcome "unknown"."""
        with self._lock:
            self._closing = time.monotonic() + timeout
            self._work.notify()
        self._thread.join()

    def handles(self) -> list[object]:
        """The clients, which a forked child must not free."""
        return [self._producer]

    # -- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._next_round():
                self._round()
        except Exception:
            # A defect: no caller may wait for a thread that has ended.
            _LOGGER.exception("the thread that writes to Kafka failed")
            self.failed = True
        finally:
            with self._lock:
                self._closing = self._closing or time.monotonic()
            self._end()

    def _round(self) -> None:
        if self._queue:
            self._hand_over_queue()
        else:
            self._take_reports(_POLL_SECONDS if self._under_way else self._rest_seconds)
        if self._fatal is not None:
            self._rebuild()
        now = time.monotonic()
        if now >= self._expire_next:
            self._expire_next = now + _EXPIRE_SECONDS
            self._expire(now)

    def _next_round(self) -> bool:
        """Wait while there is nothing to do; False when it is time to end."""
        with self._lock:
            busy = self._queue or self._under_way
            if self._closing is not None:
                return bool(busy) and time.monotonic() < self._closing
            if not busy and self._rest_seconds < _REST_SECONDS_MAX:
                self._rest_seconds *= 2
                return True
            self._rest_seconds = _REST_SECONDS_MIN
            while not self._queue and not self._under_way and self._closing is None:
                self._idle = True
                self._work.wait()
                self._idle = False
            return True

    def _hand_over_queue(self) -> None:
        """Hand over the oldest append, or as many of its records as the client takes now."""
        with self._lock:
            append = self._queue[0]
            self._handing_over = True
        if not append.sent and append.waiter.cancelled():
            append.cut = True  # cancelled while it waited
            self._to_check.append(append)
        while not append.handed_over and self._fatal is None and time.monotonic() < append.deadline:
            room = self._hand_over(append, CHUNK_RECORDS)
            self._take_reports(0 if room else _POLL_SECONDS)
            if not room:
                break
        if not append.handed_over and time.monotonic() >= append.deadline:
            self._expire(time.monotonic())
        with self._lock:
            self._handing_over = False
            if append.handed_over and self._queue and self._queue[0] is append:
                self._take_oldest()

    def _take_oldest(self) -> None:
        """Remove the oldest append, and wake the callers that wait for room. The caller holds the lock."""
        self._queued_bytes -= self._queue.popleft().weight
        for wake in self._room_wanted:
            wake()
        self._room_wanted.clear()

    def _hand_over(self, append: Append, records: int) -> bool:
        """Hand over the next records; False if the client is full, or is about to be replaced."""
        self._under_way[append] = None
        try:
            append.send(self._producer, records, self._to_check.append)
        except BufferError:
            return False
        except Exception as raised:
            # An exception that is not Kafka's is about the record.
            error = kafka_error(raised) if isinstance(raised, KafkaException) else _refused(raised)
            if error.fatal() or error.code() == KafkaError._FATAL:
                self._fatal = error
                return False
            append.cut = True
            append.errors.append(error)
            append.sent += 1  # its error counts as its report
            self._to_check.append(append)
        return True

    def _take_reports(self, seconds: float) -> None:
        """Wait for reports at most so long, and complete the appends that have all of theirs."""
        try:
            self._producer.poll(seconds)
        except KafkaException as raised:
            # The client raises a fatal error instead of calling back.
            self._fatal = kafka_error(raised)
        if not self._to_check:
            return
        some = len(self._to_check)  # another thread may add to it
        check = list(dict.fromkeys(self._to_check[:some]))
        del self._to_check[:some]
        # Where records failed, the last one's report may come before others'.
        self._to_check.extend(append for append in check if not append.reported)
        self._decide([append for append in check if append.reported])

    def _decide(self, appends: list[Append]) -> None:
        for append in appends:
            if append.error is not None:
                continue
            if append.errors or append.cut or not append.succeed():
                append.error = error = failure(append, self._settings)
                if isinstance(error, (NotFound, TooLarge)):
                    self._forget(append.topic)
        with self._lock:
            for append in appends:
                self._under_way.pop(append, None)
        deliver(appends)

    def _expire(self, now: float) -> None:
        """Complete late appends with `Timeout`. The client may still send their records until `given_up`, when it is
        replaced.

        The client is not configured to drop records itself, since it would renumber the records after them. A record
        that was written, with its answer lost, would then be written again under its new number.
        """
        with self._lock:
            late = [append for append in {**dict.fromkeys(self._queue), **self._under_way} if now >= append.deadline]
            told = [append for append in late if append.error is None]
            for append in told:
                outcome: Outcome = "unknown" if append.sent else "not_written"
                append.error = Timeout(f"{append.name} took more than the time given", outcome=outcome)
                if append.sent < append.count:
                    append.cut = True
                    self._to_check.append(append)
            while self._queue and self._queue[0].cut:
                self._take_oldest()
            if any(append.outstanding and now >= append.given_up for append in self._under_way):
                self._fatal = self._fatal or KafkaError(KafkaError._MSG_TIMED_OUT)
        deliver(told)

    def _rebuild(self) -> None:
        """Replace the client after a fatal error, or after a record that was given up. Records in flight may or may not
        be written; queued appends continue."""
        fatal = self._fatal
        assert fatal is not None
        with self._lock:
            self._handing_over = True  # no caller uses the client meanwhile
        if fatal.code() == KafkaError._MSG_TIMED_OUT:
            self._settle()
        self._give_up(translate(fatal, "append", self._settings, "unknown"))
        self._close_producer()
        self._producer = self._new_producer()
        _LOGGER.info("kafka://%s: reconnected: a new client writes", ",".join(self._settings.servers))
        with self._lock:
            self._fatal = None
            self._handing_over = False

    def _settle(self) -> None:
        """Take the reports that come at once: other logs may be healthy."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        while (now := time.monotonic()) < deadline and any(now < append.given_up for append in self._under_way):
            self._take_reports(_POLL_SECONDS)

    def _give_up(self, error: CordwoodError) -> None:
        """Complete every append that the client does not report now with this error."""
        self._producer.purge()
        deadline = time.monotonic() + _PURGE_SECONDS
        while len(self._producer) and time.monotonic() < deadline:
            self._take_reports(_POLL_SECONDS)
        with self._lock:
            left = [append for append in self._under_way if append.sent]
            self._under_way.clear()
            for append in left:
                append.cut = append.cut or append.sent < append.count
                append.error = copy_for_caller(error)
            while self._queue and self._queue[0].cut:
                self._take_oldest()
        self._to_check.clear()
        deliver(left)

    def _end(self) -> None:
        self._give_up(
            Unavailable("append: the connection was closed before Kafka answered", outcome="unknown", reason="closed")
        )
        unsent = list(self._queue)
        for append in unsent:
            append.error = Unavailable(
                f"{append.name}: the connection was closed before it", outcome="not_written", reason="closed"
            )
        with self._lock:
            while self._queue:
                self._take_oldest()
        deliver(unsent)
        self._close_producer()

    def _close_producer(self) -> None:
        """Close the client once no caller looks up a topic with it: no call outlives its client."""
        with self._lock:
            self._work.wait_for(lambda: not self._looks)
        self._producer.close()

    def _new_producer(self) -> Producer:
        return Producer(self._settings.producer(self._batch_bytes, self._on_error))

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = error


def _refused(error: Exception) -> KafkaError:
    return KafkaError(KafkaError._INVALID_ARG, f"librdkafka cannot take it: {error}")


def failure(append: Append, settings: Settings) -> CordwoodError:
    """The error of an append, not every record of which was delivered with an offset."""
    if append.cut and not append.errors:
        return Timeout(f"{append.name} was cut short", outcome="unknown")
    if not append.errors:
        return Unavailable(
            f"{append.name}: it is written, but the answer with its offsets was lost: read the log's end",
            outcome="unknown",
            reason="failed",
        )
    if append.errors[0].code() == KafkaError._DESTROY:
        # Seen once, when a topic was deleted during an append. Appends of a client that we close are given up before,
        # so the client must have dropped the partition. Whether the record was written is unknown.
        return NotFound(
            f"{append.name}: the client dropped the partition, as it does when a topic is deleted: check the topic",
            outcome="unknown",
        )
    # A record that was purged from the client's queue is not refused: it may be a retry of one that was written.
    unsent = not append.offsets and all(map(is_refused, append.errors))
    error = translate(append.errors[0], append.name, settings, "not_written" if unsent else "unknown")
    if append.offsets:
        error.args = (f"{error}; of its {append.count} records {len(append.offsets)} were written",)
    return error
