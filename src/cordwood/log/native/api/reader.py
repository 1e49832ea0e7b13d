"""Reading a log from an event loop: threads read ahead, and the loop only takes steps that are ready.

Locks: `_disk` is held while the cursor reads; `_lock` guards the steps that were read ahead, never during I/O.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, thread
from typing import NoReturn

from cordwood.errors import Conflict, CordwoodError, Corrupt, NotFound, Timeout, Trimmed, Unavailable, reason_of
from cordwood.locks import new_lock
from cordwood.log.arguments import beyond_end, checked_range
from cordwood.log.calls.completion import Wanted
from cordwood.log.calls.deadline import deadline
from cordwood.log.calls.reader_lock import Turns
from cordwood.log.interface import Follow, Reader
from cordwood.log.native.folder.written_log import WrittenLog
from cordwood.log.native.stream.reading.cursor import Extent, LogCursor, Source, Step
from cordwood.records import StoredBatch

# Two threads: copying out of the page cache and checking CRCs take about equally long, and neither holds the
# interpreter lock. Few steps: data that was read long before its use has left the processor's cache.
_THREADS = 2
_STEPS_AHEAD = 3
_POLL_SECONDS_MIN = 0.002
_POLL_SECONDS_MAX = 0.05


class _Slot:
    """The place of one step in the order of the log, taken when its read begins, filled when it is decoded.

    `damage` is raised after its batches; no step follows.
    """

    __slots__ = ("damage", "step")

    def __init__(self) -> None:
        self.step: list[StoredBatch] | Exception | None = None
        self.damage: Corrupt | None = None


class FolderReader(Reader):
    """Holds at most four steps of about 4 MiB: the one being consumed, and three that are read or ready.

    Two threads read ahead, step after step, without asking the loop: a hop between threads for every step would cost a
    third of the speed. One thread reads while the other checks and decodes its last read. They end when enough steps
    are ready, or at the end of the log, and the loop starts them again.
    """

    def __init__(
        self,
        name: str,
        executor: Executor,
        resolve: Callable[[], Source],
        *,
        start: int | None,
        stop: int | None,
        follow: Follow,
        end_at_call: "int | Future[int] | None",
        check: Callable[[], None],
        timeout: float,
    ) -> None:
        self._cursor: LogCursor | None = None
        self._slots: deque[_Slot] = deque()
        self._start, self._stop = checked_range(start, stop)
        self._name = name
        self._executor = executor
        self._resolve = resolve
        self._follow = follow
        self._end_at_call = end_at_call
        self._check = check
        self._timeout = timeout
        self._source: Source | None = None
        self._ready: deque[StoredBatch] = deque()
        self._damage: Corrupt | None = None
        self._failure: Exception | None = None  # found, but not raised yet
        self._closed = False
        self._pid = os.getpid()
        self._poll_seconds = _POLL_SECONDS_MIN
        self._turns = Turns()
        self._wanted: Wanted | None = None

        self._lock = new_lock("api.reader")
        self._disk = new_lock("api.reader.disk")
        self._jobs: set[Future[None]] = set()
        self._threads = 0
        self._ended = False

    def __repr__(self) -> str:
        return f"<cordwood.Reader of {self._name}{' closed' if self._closed else ''}>"

    async def __anext__(self) -> StoredBatch:
        while True:
            if not self._closed:
                # In a forked child, the lock and all steps belong to the parent.
                self._check()
            if not self._ready:
                async with self._turns.here():
                    await self._make_ready()
            try:
                return self._ready.popleft()
            except IndexError:
                # Closed in another loop, just now.
                continue

    async def close(self) -> None:
        if os.getpid() != self._pid:
            # The threads to wait for, and any locks they held, are the parent's.
            self._check()
        self._failure = None
        await self._end_reading()

    async def _end_reading(self) -> None:
        self._closed = True
        self._ready.clear()
        wanted = self._wanted
        if wanted is not None:
            wanted.wake()
        with self._lock:
            jobs = list(self._jobs)
        try:
            async with asyncio.timeout(self._timeout):
                for job in jobs:
                    # Not an asyncio future: the reader may be closed in another loop than the one it was read in.
                    # Shielded: a caller that stops waiting must not cancel the job for other callers of close.
                    await asyncio.shield(asyncio.wrap_future(job))
        except TimeoutError:
            # The disk has not answered yet. The job holds the reader until then, and the file is closed with the
            # reader.
            return
        self._let_go()

    def __del__(self) -> None:
        # The reader was iterated without `async with`, and left before its end.
        self._let_go()

    def _let_go(self) -> None:
        cursor = self._cursor
        if cursor is not None:
            cursor.close()
        self._slots.clear()

    async def _make_ready(self) -> None:
        """Have a batch ready, or raise StopAsyncIteration."""
        while not self._ready:
            if self._closed:
                failure, self._failure = self._failure, None
                raise failure or StopAsyncIteration
            self._check()
            step = await self._next_step()
            if step:
                self._ready.extend(step)
                self._poll_seconds = _POLL_SECONDS_MIN
            elif not self._follow or self._at_stop():
                await self.close()
            else:
                await self._growth()

    async def _next_step(self) -> list[StoredBatch]:
        """The next batches; none at the durable end, or once the reader is closed."""
        # The loop gets a turn for each step. If reads are faster than their user, no other task would run, and the user
        # could not be cancelled. The turn comes before a step is taken, so that a cancelled call loses none.
        await asyncio.sleep(0)
        if self._damage is not None and not self._closed:
            await self._fail(self._damage)
        while not self._closed:
            arrived = Wanted()
            with self._lock:
                step = self._slots[0].step if self._slots else None
                if step is not None:
                    self._damage = self._slots.popleft().damage
                else:
                    self._wanted = arrived
                    if not self._slots:
                        # The log may have grown since its end was reached.
                        self._ended = False
                reading = self._threads > 0 or self._ended or self._start_thread()
            if step is None and not reading:
                await self._broken_off()
            elif step is None:
                await self._answer(arrived)
            elif isinstance(step, Exception):
                await self._fail(step)
            else:
                return step
        return []

    async def _fail(self, error: Exception) -> NoReturn:
        """End the reading, and raise the error. If the caller is cancelled meanwhile, the next call raises it."""
        if isinstance(error, OSError) and not isinstance(error, CordwoodError):
            cause, error = error, Unavailable(f"reading {self._name} failed: {error}", reason=reason_of(error))
            error.__cause__ = cause
        self._failure = error
        await self._end_reading()
        self._failure = None
        raise error

    async def _answer(self, arrived: Wanted) -> None:
        """Wait for the disk, or until the reader is closed. If a step comes too late, the next call gets it."""
        late = (
            f"reading {self._name} took more than {self._timeout} s: go on reading, which loses nothing,"
            " or connect with more time"
        )
        try:
            async with deadline(self._timeout, lambda: Timeout(late)):
                # Checked again: a close in another loop may have found no waiter to wake.
                if not self._closed:
                    await arrived.wait()
        finally:
            self._wanted = None

    def _start_thread(self) -> bool:
        """With the lock held. False if no thread can be started, for example while the program ends."""
        try:
            job = self._executor.submit(self._read_ahead)
        except RuntimeError:
            return False
        self._threads += 1
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return True

    async def _broken_off(self) -> None:
        """End a follower with the program. Other readers raise: a partial read must not look complete."""
        # Only Python's pools know this: the main thread is alive while it waits for them.
        if not getattr(thread, "_shutdown", False):
            await self._fail(
                Unavailable(
                    f"reading {self._name} was broken off: no thread could be started; are there too many?",
                    reason="failed",
                )
            )
        if self._follow:
            await self.close()
            return
        await self._fail(
            Unavailable(
                f"reading {self._name} was broken off: the program is ending;"
                " let the main thread wait for the one that reads",
                reason="closed",
            )
        )

    def _read_ahead(self) -> None:
        """On a thread: read until enough steps are ready, or there is nothing more to read now."""
        while True:
            with self._disk:
                slot = self._claim_slot()
                if slot is None:
                    return
                step = self._try_fetch()
                if not isinstance(step, Step):
                    self._ended = True
            if isinstance(step, Step) and step.frames.large:
                self._share()
            self._fill(slot, *_decode(step))

    def _claim_slot(self) -> _Slot | None:
        """The place of the next step; None if this thread is to end."""
        with self._lock:
            if self._ended or self._closed or len(self._slots) >= _STEPS_AHEAD:
                self._threads -= 1
                return None
            slot = _Slot()
            self._slots.append(slot)
            return slot

    def _share(self) -> None:
        with self._lock:
            if self._threads < _THREADS and len(self._slots) < _STEPS_AHEAD and not self._closed:
                self._start_thread()

    def _fill(self, slot: _Slot, step: list[StoredBatch] | Exception, damage: Corrupt | None) -> None:
        slot.damage = damage
        slot.step = step
        with self._lock:
            if damage is not None or isinstance(step, Exception):
                self._ended = True
            if not self._slots or self._slots[0].step is None:
                return
            wanted, self._wanted = self._wanted, None
        if wanted is not None:
            wanted.wake()

    def _try_fetch(self) -> Step | Exception | None:
        try:
            return None if self._closed else self._fetch()
        except NotFound as error:
            return self._gone(error)
        except Exception as error:
            return error

    def _gone(self, error: NotFound) -> CordwoodError:
        """The error after the topic was deleted: `Conflict` if the reader has a topic id and there is a new topic."""
        try:
            self._resolve()
        except Conflict as conflict:
            return conflict
        except Exception:
            return error
        return error

    def _fetch(self) -> Step | None:
        begins = self._cursor is None
        if self._cursor is None:
            source = self._resolve()
            view = source.extent()
            if self._stop is not None or self._follow:
                self._check_start(view.durable.next_offset)
            else:
                end = self._end(source, view)
                self._check_start(end)
                self._stop = end
            self._cursor = LogCursor(source, view.start if self._start is None else self._start)
            self._source = source
        while not self._at_stop():
            try:
                return self._cursor.fetch(self._stop)
            except Trimmed as error:
                if not begins or self._start is not None:
                    raise
                # A trim came after the look at the extent: a reader without a start begins at the first kept offset.
                self._cursor.offset = error.start
        return None

    def _check_start(self, end: int) -> None:
        start, stop = self._start, self._stop
        if start is None or start <= end or self._follow == "wait":
            return
        # An empty range asks for nothing, wherever the log ends.
        if stop is None or start < stop:
            raise beyond_end(self._name, start, end)

    def _end(self, source: Source, view: Extent) -> int:
        """Where the log ended at the call."""
        if isinstance(self._end_at_call, Future):
            # Computed on a thread that was started before this one.
            return self._end_at_call.result()
        if self._end_at_call is not None:
            return self._end_at_call
        return source.first_end() if isinstance(source, WrittenLog) else view.durable.next_offset

    def _at_stop(self) -> bool:
        return self._stop is not None and self._cursor is not None and self._cursor.offset >= self._stop

    async def _growth(self) -> None:
        """Wait until there may be more to read, or the reader is closed."""
        self._wanted = grown = Wanted()
        if self._closed:
            # Checked only now: an earlier close in another loop found no waiter to wake.
            return
        source, cursor = self._source, self._cursor
        assert source is not None
        assert cursor is not None
        if isinstance(source, WrittenLog):
            wake_up = grown.wake
            source.when_grown(cursor.offset, wake_up)
            try:
                await grown.wait()
            finally:
                source.forget(wake_up)
        else:
            # Another process writes: poll again soon, and less often while nothing comes.
            try:
                async with asyncio.timeout(self._poll_seconds):
                    await grown.wait()
            except TimeoutError:
                self._poll_seconds = min(2 * self._poll_seconds, _POLL_SECONDS_MAX)
        self._wanted = None


def _decode(step: Step | Exception | None) -> tuple[list[StoredBatch] | Exception, Corrupt | None]:
    if step is None or isinstance(step, Exception):
        return step or [], None
    try:
        batches, damage = step.decode()
    except Exception as error:
        return error, None
    return batches or damage or [], damage
