"""Reading logs from an event loop: threads read ahead, and the loop only takes steps that are ready.

Locks: `_disk` is held while a cursor reads; `_lock` guards the steps that were read ahead and the states of the parts,
never during I/O.
"""

import asyncio
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, thread
from typing import NamedTuple, NoReturn

from cordwood.errors import CordwoodError, Corrupt, NotFound, Timeout, Unavailable, reason_of
from cordwood.locks import new_lock
from cordwood.log.calls.completion import Wanted
from cordwood.log.calls.deadline import deadline
from cordwood.log.calls.reader_lock import Turns
from cordwood.log.interface import Follow, Reader
from cordwood.log.native.folder.written_log import WrittenLog
from cordwood.log.native.stream.reading.blocks import READ_BYTES
from cordwood.log.native.stream.reading.cursor import Step
from cordwood.records import FRAME_HEADER_BYTES, StoredBatch

from .part import Part, PartState


class Pace(NamedTuple):
    """How far a reader reads ahead of its consumer."""

    step_bytes: int
    steps_ahead: int


# Two threads: copying out of the page cache and checking CRCs take about equally long, and neither holds the
# interpreter lock. Few steps: data that was read long before its use has left the processor's cache.
_THREADS = 2
# A reader moves to the next pace with each step that its consumer comes back for, and to the first at the log's end.
# So a reader whose consumer has taken a batch and left holds little memory: a program may have many of them. Not only
# for a consumer that waits: on a busy machine steps are ready when its turn comes, and small ones cost more turns.
# A first step is small enough to have its own memory: buffers that are used again have 4 MiB.
PACES = (
    Pace(64 * 1024 - FRAME_HEADER_BYTES, 1),
    Pace(512 * 1024, 2),
    Pace(READ_BYTES, 3),
)
_POLL_SECONDS_MIN = 0.002
_POLL_SECONDS_MAX = 0.05


class _Slot:
    """The place of one step in the order of the reads, taken when its read begins, filled when it is decoded.

    `damage` is raised after its batches; no step follows.
    """

    __slots__ = ("damage", "part", "step")

    def __init__(self) -> None:
        self.part: Part | None = None
        self.step: list[StoredBatch] | Exception | None = None
        self.damage: Corrupt | None = None

    @property
    def dropped(self) -> bool:
        return self.part is not None and self.part.state is PartState.DROPPED


class FolderReader(Reader):
    """Holds at most four steps of about 4 MiB: the one being consumed, and three that are read or ready.

    It holds so much only for a consumer that has come back for several steps (`PACES`).

    Two threads read ahead, step after step, without asking the loop: a hop between threads for every step would cost a
    third of the speed. One thread reads while the other checks and decodes its last read. They end when enough steps
    are ready, or at the end of all logs, and the loop starts them again. Several logs take turns: each step is of the
    next log that has records.
    """

    def __init__(
        self,
        name: str,
        executor: Executor,
        parts: Iterable[Part] | Callable[[], list[Part]],
        *,
        follow: Follow,
        check: Callable[[], None],
        timeout: float,
    ) -> None:
        """`parts` is a function if finding them needs the disk: the first step calls it."""
        self._parts: dict[int, Part] = {}
        self._slots: deque[_Slot] = deque()
        self._left: list[Part] = []  # dropped: a thread that may use the disk closes them
        self._find_parts: Callable[[], list[Part]] | None = None
        self._unopened: deque[Part] = deque()
        self._turn: deque[Part] = deque()  # those that may have records, the next one first
        if callable(parts):
            self._find_parts = parts
        else:
            self._begin(parts)
        self._name = name
        self._executor = executor
        self._follow = follow
        self._check = check
        self._timeout = timeout
        self._ready: deque[tuple[Part, StoredBatch]] = deque()
        self._damage: tuple[Part, Corrupt] | None = None
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
        self._taken = 0
        """The steps that the consumer has taken since the start, or since it was at the end of the log."""

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
                part, batch = self._ready.popleft()
            except IndexError:
                # Closed in another loop, just now.
                continue
            part.position = batch.offsets[-1] + 1
            return batch

    async def close(self) -> None:
        self._check_inherited()
        self._failure = None
        await self._end_reading()

    def _check_inherited(self) -> None:
        """Raise in a forked child: the threads, and any locks they held, are the parent's."""
        if os.getpid() != self._pid:
            self._check()

    async def _end_reading(self) -> None:
        self._closed = True
        self._ready.clear()
        wanted = self._wanted
        if wanted is not None:
            wanted.wake()
        with self._lock:
            jobs = list(self._jobs)
            parts = [*self._parts.values()]
        for part in parts:
            part.forget_growth()
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
        for part in (*self._parts.values(), *self._left):
            part.close()
        self._slots.clear()

    async def _make_ready(self) -> None:
        """Have a batch ready, or raise StopAsyncIteration."""
        while not self._ready:
            if self._closed:
                failure, self._failure = self._failure, None
                raise failure or StopAsyncIteration
            self._check()
            part, step = await self._next_step()
            if step and part is not None:
                self._ready.extend([(part, batch) for batch in step])
                self._poll_seconds = _POLL_SECONDS_MIN
            elif self._at_end():
                await self.close()
            else:
                await self._growth()

    async def _next_step(self) -> tuple[Part | None, list[StoredBatch]]:
        """The next batches of a part; none at the durable end of all, or once the reader is closed."""
        # The loop gets a turn for each step. If reads are faster than their user, no other task would run, and the user
        # could not be cancelled. The turn comes before a step is taken, so that a cancelled call loses none.
        await asyncio.sleep(0)
        if self._damage is not None and not self._closed:
            part, damage = self._damage
            if part.state is not PartState.DROPPED:
                await self._fail(damage, part)
            self._damage = None
        while not self._closed:
            arrived = Wanted()
            with self._lock:
                slot = self._slots[0] if self._slots and self._slots[0].step is not None else None
                if slot is not None:
                    self._slots.popleft()
                    # An empty step is the end of the logs: more comes little by little there.
                    self._taken = self._taken + 1 if slot.step else 0
                else:
                    self._wanted = arrived
                    if not self._slots:
                        # The logs may have grown since their ends were reached.
                        self._ended = False
                reading = self._threads > 0 or self._ended or self._start_thread()
            if slot is None and not reading:
                await self._broken_off()
            elif slot is None:
                await self._answer(arrived)
            elif slot.dropped:
                return None, []
            elif isinstance(slot.step, Exception):
                await self._fail(slot.step, slot.part)
            else:
                if slot.part is not None and slot.damage is not None:
                    self._damage = slot.part, slot.damage
                return slot.part, slot.step or []
        return None, []

    async def _fail(self, error: Exception, part: Part | None = None) -> NoReturn:
        """End the reading, and raise the error. If the caller is cancelled meanwhile, the next call raises it."""
        if isinstance(error, OSError) and not isinstance(error, CordwoodError):
            name = self._name if part is None else part.name
            cause, error = error, Unavailable(f"reading {name} failed: {error}", reason=reason_of(error))
            error.__cause__ = cause
        self._failure = error
        await self._end_reading()
        self._failure = None
        raise error

    async def _answer(self, arrived: Wanted) -> None:
        """Wait for the disk, or until the reader is closed. If a step comes too late, the next call gets it."""
        late = (
            f"reading {self._name} took more than {self._timeout} s: continue to read, which loses nothing,"
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
                step = self._try_fetch(slot)
                if not isinstance(step, Step):
                    self._ended = True
            if isinstance(step, Step) and step.frames.large:
                self._share()
            self._fill(slot, *_decode(slot.part, step))

    @property
    def _pace(self) -> Pace:
        return PACES[min(max(self._taken - 1, 0), len(PACES) - 1)]

    def _claim_slot(self) -> _Slot | None:
        """The place of the next step; None if this thread is to end."""
        with self._lock:
            if self._ended or self._closed or len(self._slots) >= self._pace.steps_ahead:
                self._threads -= 1
                return None
            slot = _Slot()
            self._slots.append(slot)
            return slot

    def _share(self) -> None:
        with self._lock:
            ahead = self._pace.steps_ahead
            if self._threads < _THREADS and len(self._slots) < ahead and not self._closed:
                self._start_thread()

    def _fill(self, slot: _Slot, step: list[StoredBatch] | Exception, damage: Corrupt | None) -> None:
        slot.damage = damage
        slot.step = step
        with self._lock:
            if (damage is not None or isinstance(step, Exception)) and not slot.dropped:
                self._ended = True
            if not self._slots or self._slots[0].step is None:
                return
            wanted, self._wanted = self._wanted, None
        if wanted is not None:
            wanted.wake()

    def _try_fetch(self, slot: _Slot) -> Step | Exception | None:
        try:
            return None if self._closed else self._fetch(slot)
        except NotFound as error:
            return error if slot.part is None else slot.part.error_of(error)
        except Exception as error:
            return error

    def _fetch(self, slot: _Slot) -> Step | None:
        """The next step, of the part that `slot` names then; None if no part has one now."""
        self._open_parts(slot)
        while (part := self._next_part()) is not None:
            slot.part = part
            step = part.fetch(self._pace.step_bytes)
            if step is not None:
                return step
            self._rest(part)
        return None

    def _open_parts(self, slot: _Slot) -> None:
        """All of them, before the first step: it raises if one does not exist, or does not have its start."""
        if self._find_parts is not None:
            found = self._find_parts()
            with self._lock:
                self._find_parts = None
                self._begin(found)
        with self._lock:
            left, self._left = self._left, []
        for part in left:
            part.close()
        while self._unopened:
            part = slot.part = self._unopened[0]
            if part.state is PartState.READING:
                part.open()
            with self._lock:
                self._unopened.popleft()
                if part.state is PartState.READING:
                    self._turn.append(part)

    def _begin(self, parts: Iterable[Part]) -> None:
        for part in parts:
            self._parts[part.partition] = part
            self._unopened.append(part)

    def _next_part(self) -> Part | None:
        with self._lock:
            if not self._turn:
                return None
            part = self._turn[0]
            self._turn.rotate(-1)
            return part

    def _rest(self, part: Part) -> None:
        """This part has no records now: it is finished, or waits for the log to grow."""
        with self._lock:
            if part.state is not PartState.READING:
                return
            self._turn.remove(part)
            if part.ends:
                part.state = PartState.FINISHED
                return
            part.state = PartState.RESTING
        if isinstance(part.source, WrittenLog):
            # A log outlives its readers: the job must not keep this one alive.
            part.growth = _Growth(weakref.ref(self), part)
            part.source.when_grown(part.next_offset, part.growth)

    def _on_grown(self, part: Part) -> None:
        """On any thread: the log is longer, or closed."""
        with self._lock:
            if part.state is PartState.RESTING:
                part.state = PartState.READING
                self._turn.append(part)
            wanted, self._wanted = self._wanted, None
        if wanted is not None:
            wanted.wake()

    def _at_end(self) -> bool:
        """Whether no part will ever have another record."""
        with self._lock:
            if self._find_parts is not None or self._unopened:
                return False
            states = {part.state for part in self._parts.values()}
            # A follower without a part waits for the first one.
            return states == {PartState.FINISHED} or (not states and not self._follow)

    async def _growth(self) -> None:
        """Wait until there may be more to read, or the reader is closed."""
        self._wanted = grown = Wanted()
        if self._closed:
            # Checked only now: an earlier close in another loop found no waiter to wake.
            return
        with self._lock:
            if self._turn or self._unopened or self._find_parts is not None:
                return
            resting = [part for part in self._parts.values() if part.state is PartState.RESTING]
            polled = [part for part in resting if not isinstance(part.source, WrittenLog)]
        if not polled:
            await grown.wait()
            return
        # Another process writes: poll again soon, and less often while nothing comes.
        try:
            async with asyncio.timeout(self._poll_seconds):
                await grown.wait()
        except TimeoutError:
            self._poll_seconds = min(2 * self._poll_seconds, _POLL_SECONDS_MAX)
        for part in polled:
            self._on_grown(part)


class _Growth:
    """The job that continues a part once its log has grown."""

    __slots__ = ("_part", "_reader")

    def __init__(self, reader: "weakref.ref[FolderReader]", part: Part) -> None:
        self._reader = reader
        self._part = part

    def __call__(self) -> None:
        reader = self._reader()
        if reader is not None:
            reader._on_grown(self._part)


def _decode(part: Part | None, step: Step | Exception | None) -> tuple[list[StoredBatch] | Exception, Corrupt | None]:
    if part is None or step is None or isinstance(step, Exception):
        return step if isinstance(step, Exception) else [], None
    try:
        batches, damage = step.decode()
    except Exception as error:
        return error, None
    for batch in batches:
        batch.partition = part.partition
    return batches or damage or [], damage
