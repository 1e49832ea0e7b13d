"""One log of a folder, in the process that writes it.

Locks: `_trim_lock`, `_open_lock` and `_publish_lock` are held during I/O. `_lock` guards the early appends and the
callers that wait for growth; it is never held during I/O.
"""

import logging
from collections.abc import Callable
from copy import copy
from functools import partial

from cordwood.errors import CordwoodError, InvalidInput, Timeout, Unavailable, reason_of
from cordwood.locks import new_lock
from cordwood.log.calls.completion import fail
from cordwood.log.calls.outcome import copy_for_caller
from cordwood.log.native.chain.durable import Durable
from cordwood.log.native.coordinator import Coordinator
from cordwood.log.native.env.workers import Done, Job, Workers, nothing
from cordwood.log.native.plog import PlogStore
from cordwood.log.native.stream.append import Append
from cordwood.log.native.stream.reading.cursor import Extent
from cordwood.log.native.stream.recovery import Recovered
from cordwood.log.native.stream.stream import Stream
from cordwood.log.native.stream.write_queue import QUEUE_BYTES_MAX

from .published import Owner, PublishedWriter

_LOGGER = logging.getLogger("cordwood.folder")

OpenStream = Callable[[Recovered, Callable[[Durable], None]], Stream]


class WrittenLog:
    """A stream that is opened on first use, the start of the log, and the callers that wait for it to grow.

    Opening reads the tail of the log, so it happens on a worker: appends that come before it is done are queued here.
    """

    def __init__(
        self,
        name: str,
        owner: Owner,
        slot: int,
        plogs: PlogStore,
        workers: Workers,
        coordinator: Coordinator,
        published: PublishedWriter,
        *,
        trimmed: tuple[int, int],
        recover: Callable[[], Recovered],
        open_stream: OpenStream,
    ) -> None:
        self.name = name
        self.plogs = plogs
        self.owner = owner
        self.topic_id = owner.topic_id
        self._slot = slot
        self._workers = workers
        self._coordinator = coordinator
        self._published = published
        self._start, self._next_offset = trimmed
        self._recover = recover
        self._open_stream = open_stream
        self._lock = new_lock("written_log")
        self._open_lock = new_lock("written_log.open")
        self._trim_lock = new_lock("written_log.trim")
        self._stream: Stream | None = None
        self._first_durable: Durable | None = None
        self._publish_lock = new_lock("written_log.publish")
        self._publish_due = False
        self._early: list[Append] = []
        self._early_bytes = 0
        self._opening = False
        self._growth_wanted: set[Job] = set()
        self._closed: CordwoodError | None = None
        # Called when a close ends; None once it has.
        self._close_wanted: list[Done] | None = []
        self._failure: CordwoodError | None = None

    @property
    def stream(self) -> Stream | None:
        """None until the log is first used."""
        return self._stream

    def submit(self, append: Append) -> bool:
        """Queue an append; False if the queue is full."""
        if self._stream is not None and self._failure is None:
            return self._stream.submit(append)
        self.raise_failure()
        with self._lock:
            if self._closed is not None:
                raise copy_for_caller(self._closed)
            if self._stream is not None:
                return self._stream.submit(append)
            if self._early and self._early_bytes + append.weight > QUEUE_BYTES_MAX:
                return False
            self._early.append(append)
            self._early_bytes = append.weight if len(self._early) == 1 else self._early_bytes + append.weight
            first, self._opening = not self._opening, True
        if first:
            self._workers.spawn(self._open_for_early)
        return True

    def keep_background_failure(self, what: str, error: CordwoodError | OSError) -> None:
        """Keep the error of a background task for the next call on this log: no caller was there to get it."""
        text = f"{self.name}: {what} failed in the background, and is tried again: {error}"
        failure = copy(error) if isinstance(error, CordwoodError) else Unavailable(text, reason=reason_of(error))
        failure.__cause__ = error
        # The outcome of the call that will raise it, which writes nothing.
        failure.outcome = "not_written"
        self._failure = failure

    def raise_failure(self) -> None:
        """Raise the last failure of a background task, once."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def when_room(self, job: Job) -> None:
        stream = self._stream
        if stream is None:
            self._workers.spawn(partial(self._open_then, job))
        else:
            stream.when_room(job)

    def open(self) -> Stream:
        """The stream, recovered on the first call. Blocks on the disk."""
        with self._open_lock:
            if self._stream is not None:
                return self._stream
            self._check_open()
            recovered = self._recover()
            recovered = recovered._replace(next_offset=max(recovered.next_offset, self._next_offset))
            if recovered.seal_due:
                _LOGGER.info(
                    "%s: recovered after a crash: continues at offset %d; %d bytes of a torn write truncated",
                    self.name,
                    recovered.next_offset,
                    recovered.truncated_bytes,
                )
            if recovered.chain.links and not self._start:
                self._start = recovered.chain.links[0].first_offset
            stream = self._open_stream(recovered, self._on_durable)
            self._first_durable = stream.durable
            self._publish(stream.durable)
            with self._lock:
                self._check_open()
                for append in self._early:
                    stream.submit(append)
                self._early = []
                self._stream = stream
            if recovered.chain.droppable(self._start):
                # Trimmed just before a crash.
                stream.drop(self._start, nothing)
            return stream

    def extent(self, beyond: int | None = None) -> Extent:
        self._check_open()
        stream = self.open()
        # In this order: the chain may then be ahead of the durable end, never behind it.
        durable = stream.durable
        return Extent(self._start, durable, stream.chain)

    def end_now(self) -> int | None:
        """One past the last durable offset, without I/O; None while the log has not been opened."""
        stream = self._stream
        if stream is None:
            # Early appends may be acked before `open` has released the lock: a caller with an ack must see its records.
            with self._lock:
                stream = self._stream
        return None if stream is None else stream.durable.next_offset

    def first_end(self) -> int:
        """The end that `open` found."""
        self.open()
        assert self._first_durable is not None
        return self._first_durable.next_offset

    def when_grown(self, beyond: int, job: Job) -> None:
        """Call `job` once when the log ends beyond `beyond`, or is closed; at once if it does already."""
        stream = self.open()
        with self._lock:
            # Add first: the writer extends the log, then looks without the lock whether any job waits.
            self._growth_wanted.add(job)
            if stream.durable.next_offset <= beyond and self._closed is None:
                return
            self._growth_wanted.discard(job)
        job()

    def forget(self, job: Job) -> None:
        """Drop this job of `when_grown`: its caller has given up."""
        with self._lock:
            self._growth_wanted.discard(job)

    def trim(self, before: int, done: Done) -> None:
        """Trim the records below `before`; `done` is called when their space is free."""
        with self._trim_lock:
            view = self.extent()
            if before > view.durable.next_offset:
                raise InvalidInput(
                    f"{self.name}: cannot trim before {before}: the log ends at {view.durable.next_offset}"
                )
            if before <= view.start:
                done()
                return
            # R7: durable before any plog is dropped, so that reads below stay refused and offsets continue.
            self._coordinator.trim(self.owner.topic_id, self.owner.partition, before, view.durable.next_offset)
            self._published.put_starts({(self._slot, self.owner): before})
            # Last: if one of the two failed, the same call repeats both.
            self._start = before
        stream = self.open()
        stream.drop(before, done)

    def close(self, error: CordwoodError, done: Done) -> None:
        """Finish the queued appends and seal; later calls raise `error`. A second call waits for the first to end."""
        with self._lock:
            first = self._closed is None
            self._closed = self._closed or error
            closed = self._close_wanted is None
            if self._close_wanted is not None:
                self._close_wanted.append(done)
            early, self._early = self._early, []
            stream = self._stream
        if closed:
            done()
        if not first:
            return
        fail(early, copy_for_caller(error, "not_written"))
        self._tell_growth()
        if stream is None:
            self._tell_closed()
        else:
            stream.finish(error, self._tell_closed)

    def _tell_closed(self) -> None:
        with self._lock:
            wanted, self._close_wanted = self._close_wanted or [], None
        for done in wanted:
            done()

    def _check_open(self) -> None:
        if self._closed is not None:
            raise copy_for_caller(self._closed)

    def _open_then(self, job: Job) -> None:
        self._open_for_early()
        job()

    def _open_for_early(self) -> None:
        try:
            self.open()
        except Exception as error:
            # On any error the waiting callers get it, and the next append tries again.
            reason = str(error) or repr(error)
            failure = (
                error
                if isinstance(error, CordwoodError)
                else Unavailable(f"{self.name}: {reason}", reason=reason_of(error))
            )
            failure.outcome = "not_written"
            with self._lock:
                early, self._early, self._opening = self._early, [], False
            fail(early, failure)

    def expire(self, now: float) -> None:
        """Time out callers whose deadline has passed, including those that wait for the log to be opened."""
        with self._lock:
            late = [append for append in self._early if append.deadline <= now]
            if late:
                self._early = [append for append in self._early if append.deadline > now]
                self._early_bytes = sum(append.weight for append in self._early)
        if late:
            fail(
                late,
                Timeout(f"{self.name}: the log was still being opened when the time ran out", outcome="not_written"),
            )
        if self._stream is not None:
            self._stream.expire(now)

    def publish_again(self) -> None:
        """Publish the end, if that failed when it was due; the timer calls it regularly."""
        if self._publish_due and self._stream is not None:
            with self._publish_lock:
                self._put_end(self._stream.durable)

    def _publish(self, durable: Durable) -> None:
        with self._publish_lock:
            self._put_end(durable)

    def _put_end(self, durable: Durable) -> None:
        # Durability and acks do not depend on it: readers in other processes see less for a while.
        try:
            self._published.put_end(self._slot, self.owner, durable)
            self._publish_due = False
        except OSError:
            self._publish_due = True

    def _on_durable(self, durable: Durable) -> None:
        self._publish(durable)
        if self._growth_wanted:
            self._tell_growth()

    def _tell_growth(self) -> None:
        with self._lock:
            wanted, self._growth_wanted = self._growth_wanted, set()
        for job in wanted:
            job()
