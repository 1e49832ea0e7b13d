"""The appends and jobs of one stream, done one at a time.

One worker at a time runs for a stream: it takes all waiting appends as a group, and continues until none wait.
Housekeeping (giving space back, dropping plogs, stopping) runs there too, so none of it races with a write.

Lock: `_lock` guards the queue and is never held during I/O: event loops submit appends.
"""

import logging
from collections import deque
from collections.abc import Callable
from math import inf

from cordwood.errors import CordwoodError, Timeout, Unavailable, reason_of
from cordwood.locks import new_lock
from cordwood.log.calls.completion import fail
from cordwood.log.calls.outcome import copy_for_caller
from cordwood.log.native.env.workers import Job, Workers

from .append import Append

GROUP_BYTES_MAX = 8 * 1024 * 1024
QUEUE_BYTES_MAX = 64 * 1024 * 1024

_LOGGER = logging.getLogger("cordwood.folder")


class WriteQueue:
    """The appends and jobs that wait for one stream, and at most one worker that does them.

    `write` gets a group of appends; it returns those that must wait for room, until `retry`.
    """

    def __init__(self, name: str, workers: Workers, write: Callable[[list[Append]], list[Append]]) -> None:
        self.in_flight: list[Append] = []
        self._name = name
        self._workers = workers
        self._write = write
        self._lock = new_lock("stream.queue")
        self._acquire, self._release = self._lock.acquire, self._lock.release
        self._queue: deque[Append] = deque()
        self._queue_bytes = 0
        # No append in the queue expires before this.
        self._deadline = inf
        self._jobs: deque[Job] = deque()
        self._room_wanted: list[Job] = []
        self._running = False
        self._stalled = False
        self._closed: CordwoodError | None = None

    def submit(self, append: Append) -> bool:
        """Queue an append; False, and nothing queued, if the queue is full: then ask `when_room`."""
        weight = append.weight
        # A `with` takes 0.1 µs more, and every record that is appended alone comes through here.
        self._acquire()
        try:
            if self._closed is not None:
                raise copy_for_caller(self._closed)
            queued = self._queue_bytes
            if queued and queued + weight > QUEUE_BYTES_MAX:
                return False
            self._queue.append(append)
            self._queue_bytes = queued + weight
            if append.deadline < self._deadline:
                self._deadline = append.deadline
            if self._running or self._stalled:
                return True
            self._running = True
        finally:
            self._release()
        self._workers.spawn(self._run)
        return True

    def when_room(self, job: Job) -> None:
        """Call `job` once after the worker has taken appends from the queue; at once if it is empty."""
        with self._lock:
            if self._queue:
                self._room_wanted.append(job)
                return
        job()

    def run(self, job: Job) -> None:
        """Run `job` where it cannot race with a write, before the waiting appends."""
        with self._lock:
            self._jobs.append(job)
            if self._running:
                return
            self._running = True
        self._workers.spawn(self._run)

    def run_here_if_idle(self, job: Job) -> None:
        """Run `job` on this thread, unless a worker runs: for a caller that must not wait for another stream."""
        with self._lock:
            if self._running:
                return
            self._running = True
        self._run_job(job)
        with self._lock:
            # Callers that came meanwhile have left their appends and jobs to this thread.
            if not self._jobs and not self._room_wanted and (self._stalled or not self._queue):
                self._running = False
                return
        self._workers.spawn(self._run)

    def run_last(self, job: Job, error: CordwoodError) -> None:
        """Refuse new appends with `error`, finish the waiting ones, then run `job`."""
        with self._lock:
            self._closed = error
        self.run(lambda: self._finish(job))

    def retry(self) -> None:
        """Retry the appends that `write` returned."""
        with self._lock:
            if self._running or not self._stalled:
                return
            self._running, self._stalled = True, False
        self._workers.spawn(self._run)

    def waiting(self) -> bool:
        """Whether appends or jobs wait after the current ones."""
        return bool(self._queue or self._jobs)

    def stalled(self) -> bool:
        return self._stalled

    def expire(self, now: float) -> None:
        """Fail queued appends whose deadline has passed: they were not written."""
        with self._lock:
            if now < self._deadline:
                return
            late = [append for append in self._queue if append.deadline <= now]
            self._queue = deque(append for append in self._queue if append.deadline > now)
            self._queue_bytes = sum(append.weight for append in self._queue)
            self._deadline = min((append.deadline for append in self._queue), default=inf)
            room, self._room_wanted = self._room_wanted, []
        for wanted in room:
            wanted()
        if late:
            fail(
                late,
                Timeout(f"{self._name}: the append was still queued when its time ran out", outcome="not_written"),
            )

    def _run(self) -> None:
        while True:
            with self._lock:
                job = self._jobs.popleft() if self._jobs else None
                group = self._take_group() if job is None and not self._stalled else []
                room, self._room_wanted = self._room_wanted, []
                if job is None and not group and (self._stalled or not self._queue):
                    self._running = False
                    finished = True
                else:
                    finished = False
            for wanted in room:
                wanted()
            if finished:
                return
            if job is not None:
                self._run_job(job)
            elif group:
                self._write_group(group)

    def _run_job(self, job: Job) -> None:
        try:
            job()
        except Exception:
            # The other jobs must continue; the caller that asked for this one has its own deadline.
            _LOGGER.exception("%s: housekeeping failed", self._name)

    def _take_group(self) -> list[Append]:
        """Group commit: all waiting appends, up to a limit, share the next sync."""
        taken, size = self._queue, self._queue_bytes
        if size <= GROUP_BYTES_MAX:
            self._queue = deque()
        else:
            taken, size = deque(), 0
            while self._queue and size < GROUP_BYTES_MAX:
                append = self._queue.popleft()
                size += append.weight
                taken.append(append)
        self._queue_bytes -= size
        return [append for append in taken if not append.waiter.cancelled()]

    def _write_group(self, group: list[Append]) -> None:
        self.in_flight = group
        try:
            kept = self._write(group)
        except Exception as error:
            failure = Unavailable(
                f"{self._name}: the write failed, and may be durable or not: {error}",
                outcome="unknown",
                reason=reason_of(error),
            )
            failure.__cause__ = error
            fail(group, failure)
            kept = []
        self.in_flight = []
        if kept:
            with self._lock:
                self._queue.extendleft(reversed(kept))
                self._queue_bytes += sum(append.weight for append in kept)
                self._stalled = True

    def _finish(self, job: Job) -> None:
        while True:
            with self._lock:
                if not self._queue or self._stalled:
                    break
                # Empty if every caller in it has given up; more appends may follow.
                group = self._take_group()
            if group:
                self._write_group(group)
        self._run_job(job)
