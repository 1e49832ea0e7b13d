"""Reading logs from an event loop: the reader's own thread reads ahead, and the loop only takes ready batches.

Lock: `Ahead._lock` guards the batches that were read ahead and is never held during a request.
"""

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import NamedTuple

from cordwood.errors import CordwoodError, Timeout, Unavailable, reason_of
from cordwood.locks import new_lock
from cordwood.log.calls.completion import Wanted
from cordwood.log.calls.reader_lock import Turns
from cordwood.log.interface import Reader
from cordwood.records import StoredBatch

from .cursor import Place

_BATCHES_AHEAD = 2
_SILENT_SECONDS = 5.0
"""A thread without answers raises at its timeout; one that has done nothing for so long after it is stuck."""


class Part(Place):
    """One of several logs of a reader: its place, and what the caller knows of it."""

    def __init__(self, topic: str, partition: int, start: int, stop: int | None = None) -> None:
        super().__init__(topic, partition, start, stop)
        self.returned = start
        """One past the last offset that the caller has got."""
        self.passed = start
        """The place once all batches that came from there are at the caller; it also passes marks of transactions."""
        self.dropped = False


class Taken(NamedTuple):
    """A batch that was read ahead, and the part that it is of, if the reader has several."""

    batch: StoredBatch
    part: Part | None = None


Batches = Callable[[Callable[[], bool]], Iterator[Taken | None]]
"""Yields the batches, and None for the end; its argument returns whether the reader still wants them."""


class KafkaReader(Reader):
    """Holds at most four batches of about 4 MiB: one at the caller, two that are ready, one being read."""

    def __init__(
        self, name: str, batches: Batches, threads: set[threading.Thread], check: Callable[[], None], timeout: float
    ) -> None:
        self._name = name
        self._ahead = Ahead(batches, threads)
        self._check = check
        self._silent_max = timeout + _SILENT_SECONDS
        self._turns = Turns()

    def __repr__(self) -> str:
        return f"<cordwood.Reader of {self._name}{' closed' if self._ahead.stopped else ''}>"

    async def __anext__(self) -> StoredBatch:
        self._check_inherited()
        async with self._turns.here():
            return await self._next()

    async def close(self) -> None:
        self._ahead.stop()

    def __del__(self) -> None:
        # Iterated without `async with`, and left before its end.
        self._ahead.leave()

    def _check_inherited(self) -> None:
        if self._ahead.inherited:
            self._check()

    async def _next(self) -> StoredBatch:
        ahead = self._ahead
        # Yield to the loop for each batch: with batches always ready, the caller could never be cancelled. The yield
        # comes before the batch is taken, so that a cancelled call loses none.
        await asyncio.sleep(0)
        while True:
            arrived = Wanted()
            step = ahead.take(arrived)
            if isinstance(step, Taken):
                return step.batch
            if step is None:
                raise StopAsyncIteration
            if isinstance(step, BaseException):
                raise step
            self._check()
            ahead.start()
            await self._answer(arrived)

    async def _answer(self, arrived: Wanted) -> None:
        """Wait for a batch, however long none comes, but not for a thread that is stuck: some calls of the client
        have no timeout."""
        heard = time.monotonic()  # before that, the thread may have waited for the caller
        while True:
            try:
                async with asyncio.timeout(heard + self._silent_max - time.monotonic()):
                    return await arrived.wait()
            except TimeoutError as error:
                if self._ahead.heard <= heard:
                    raise Timeout(
                        f"reading {self._name}: the client has not answered for more than {self._silent_max:g} s:"
                        " continue to read, which loses nothing, or read anew"
                    ) from error
                heard = self._ahead.heard


class Ahead:
    """The ready batches, and the thread that reads. It has no reference to the reader, which can be collected."""

    def __init__(self, batches: Batches, threads: set[threading.Thread]) -> None:
        self._batches = batches
        self._threads = threads
        self._ready: deque[Taken | BaseException | None] = deque()  # None: the end
        self._lock = new_lock("kafka.reader")
        self._room: SimpleQueue[None] = SimpleQueue()  # an entry for each batch that may be read ahead
        for _ in range(_BATCHES_AHEAD):
            self._room.put(None)
        self._wanted: Wanted | None = None
        self._thread: threading.Thread | None = None
        self.stopped = False
        self._ended = False
        self.heard = 0.0
        """When the thread gave its last sign of life, by the monotonic clock."""
        self._pid = os.getpid()

    @property
    def inherited(self) -> bool:
        """Whether this is a forked child: its parent has the thread, which may have held the lock."""
        return os.getpid() != self._pid

    def start(self) -> None:
        with self._lock:
            if self._thread is None and not self.stopped:
                thread = threading.Thread(target=self._run, name="cordwood-kafka-read", daemon=True)
                self._threads.add(thread)
                try:
                    thread.start()
                except RuntimeError as error:
                    self._threads.discard(thread)
                    raise Unavailable(
                        f"a read needs a thread of its own, and none starts: {error}", reason="failed"
                    ) from error
                self._thread = thread

    def take(self, wanted: Wanted) -> "Taken | BaseException | Wanted | None":
        """The next batch, the error that ended the read, or None at the end; `wanted` if the caller has to wait."""
        with self._lock:
            if self.stopped or (self._ended and not self._ready):
                return None
            if not self._ready:
                self._wanted = wanted
                return wanted
            step = self._ready.popleft()
            self._room.put(None)
            if isinstance(step, Taken) and step.part is not None:
                step.part.returned = step.batch.offsets[-1] + 1
            return step

    def position_of(self, part: Part) -> int:
        """One past what the caller has got, and the places without a record that follow."""
        with self._lock:
            if any(isinstance(step, Taken) and step.part is part for step in self._ready):
                return part.returned
            return max(part.returned, part.passed)

    def drop(self, part: Part) -> None:
        """Forget the batches of this part that were read ahead, and those that the thread has yet to put."""
        with self._lock:
            part.dropped = True
            kept = [step for step in self._ready if not isinstance(step, Taken) or step.part is not part]
            for _ in range(len(self._ready) - len(kept)):
                self._room.put(None)
            self._ready = deque(kept)

    def stop(self) -> None:
        """A waiting caller gets the end; the thread ends after its present step."""
        if self.inherited:
            return
        with self._lock:
            self.leave()
            self._ready.clear()
            wanted, self._wanted = self._wanted, None
        if wanted is not None:
            wanted.wake()

    def leave(self) -> None:
        """The thread ends after its present step; no caller waits.

        This takes no lock. Any thread may collect an abandoned reader as garbage: also the thread that reads, while it
        holds the lock.
        """
        self.stopped = True
        self._room.put(None)

    def _run(self) -> None:
        batches = self._batches(self._is_wanted)
        try:
            for batch in batches:
                self._put(batch)
            if not self._ended:
                self._put(None)
        except CordwoodError as error:
            self._put(error)
        except Exception as error:
            self._put(Unavailable(f"reading failed: {error!r}", reason=reason_of(error)))
        finally:
            self._threads.discard(threading.current_thread())

    def _is_wanted(self) -> bool:
        """Called before each step."""
        self.heard = time.monotonic()
        return not self.stopped

    def _put(self, step: Taken | BaseException | None) -> None:
        # The end takes no room: the thread gives the client back after it, and need not wait for the caller.
        if isinstance(step, Taken):
            self._room.get()
        with self._lock:
            if isinstance(step, Taken) and step.part is not None and step.part.dropped:
                self._room.put(None)
                return
            if not self.stopped:
                self._ready.append(step)
            self._ended = not isinstance(step, Taken)
            wanted, self._wanted = self._wanted, None
        if wanted is not None:
            wanted.wake()
