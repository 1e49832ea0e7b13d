"""Reading a log from an event loop: a thread of its own reads ahead, the loop only takes what is ready.

Lock: `_Ahead._lock` guards the batches that were read ahead and is never held during a request.
"""

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue

from cordwood.errors import CordwoodError, Timeout, Unavailable, reason_of
from cordwood.locks import new_lock
from cordwood.log.calls.completion import Wanted
from cordwood.log.calls.reader_lock import Turns
from cordwood.log.interface import Reader
from cordwood.records import StoredBatch

_BATCHES_AHEAD = 2
_SILENT_SECONDS = 5.0
"""A thread that asks in vain says so when its time is over; one that has said nothing so long after stands still."""

Batches = Callable[[Callable[[], bool]], Iterator[StoredBatch | None]]
"""Makes the batches to read, and None for the end, given a function that tells whether anybody still wants them."""


class KafkaReader(Reader):
    """At most four batches of about 4 MiB are held: one given out, two that wait, one being read."""

    def __init__(
        self, name: str, batches: Batches, threads: set[threading.Thread], check: Callable[[], None], timeout: float
    ) -> None:
        self._name = name
        self._ahead = _Ahead(batches, threads)
        self._check = check
        self._silent_max = timeout + _SILENT_SECONDS
        self._turns = Turns()

    def __repr__(self) -> str:
        return f"<cordwood.Reader of {self._name}{' closed' if self._ahead.stopped else ''}>"

    async def __anext__(self) -> StoredBatch:
        if self._ahead.inherited:
            self._check()
        async with self._turns.here():
            return await self._next()

    async def close(self) -> None:
        self._ahead.stop()

    def __del__(self) -> None:
        # Iterated bare, and left before its end.
        self._ahead.leave()

    async def _next(self) -> StoredBatch:
        ahead = self._ahead
        # A turn of the loop for each batch: where reading is faster than its user, nobody could cancel the user. Before
        # it is taken, so that a cancelled call loses none.
        await asyncio.sleep(0)
        while True:
            arrived = Wanted()
            step = ahead.take(arrived)
            if isinstance(step, StoredBatch):
                return step
            if step is None:
                raise StopAsyncIteration
            if isinstance(step, BaseException):
                raise step
            self._check()
            ahead.start()
            await self._answer(arrived)

    async def _answer(self, arrived: Wanted) -> None:
        """Wait for a batch, however long none comes, but for no thread that stands still: the client has calls that
        take no time-out."""
        heard = time.monotonic()  # before, the thread may have waited for the user
        while True:
            try:
                async with asyncio.timeout(heard + self._silent_max - time.monotonic()):
                    return await arrived.wait()
            except TimeoutError as error:
                if self._ahead.heard <= heard:
                    raise Timeout(
                        f"reading {self._name}: the client stands still for more than {self._silent_max:g} s:"
                        " go on reading, which loses nothing, or read anew"
                    ) from error
                heard = self._ahead.heard


class _Ahead:
    """What was read and not yet taken, and the thread that reads. It knows no reader, so that one can be forgotten."""

    def __init__(self, batches: Batches, threads: set[threading.Thread]) -> None:
        self._batches = batches
        self._threads = threads
        self._ready: deque[StoredBatch | BaseException | None] = deque()  # None: the end
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
        """Whether this is a forked child: the thread stayed with the parent, and may have held the lock."""
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
                        f"a read needs a thread of its own, and none can be had: {error}", reason="failed"
                    ) from error
                self._thread = thread

    def take(self, wanted: Wanted) -> "StoredBatch | BaseException | Wanted | None":
        """The next batch, the error that ended it, or None at the end; `wanted` if it is to be waited for."""
        with self._lock:
            if self.stopped or (self._ended and not self._ready):
                return None
            if not self._ready:
                self._wanted = wanted
                return wanted
            step = self._ready.popleft()
            self._room.put(None)
            return step

    def stop(self) -> None:
        """Whoever waits gets the end; the thread ends when it has finished its step."""
        if self.inherited:
            return
        with self._lock:
            self.leave()
            self._ready.clear()
            wanted, self._wanted = self._wanted, None
        if wanted is not None:
            wanted.wake()

    def leave(self) -> None:
        """The thread ends when it has finished its step; nobody waits.

        Without the lock: a reader that nobody has is found by whichever thread collects garbage, and that may be the
        one that reads, in the middle of what it does under the lock.
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
        """Asked before each step."""
        self.heard = time.monotonic()
        return not self.stopped

    def _put(self, step: StoredBatch | BaseException | None) -> None:
        # The end takes no room: the client is let go of behind it, and need not wait for the user.
        if isinstance(step, StoredBatch):
            self._room.get()
        with self._lock:
            if not self.stopped:
                self._ready.append(step)
            self._ended = not isinstance(step, StoredBatch)
            wanted, self._wanted = self._wanted, None
        if wanted is not None:
            wanted.wake()
