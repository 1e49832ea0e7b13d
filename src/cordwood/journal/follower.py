"""Following one journal: stored, unreplicated and new events without a gap, each once, after its ack."""

import asyncio
import weakref
from contextlib import suppress
from types import TracebackType
from typing import Self

from cordwood.errors import CordwoodError, InvalidInput, Trimmed
from cordwood.log.calls.outcome import copy_for_caller
from cordwood.records import StoredBatch

from .fold import exists, seq_nr_of
from .head import PartitionHead
from .look import Key
from .reader import EventReader, JournalSource
from .stored_event import StoredEvent
from .tail import Tail


class FollowReader:
    """The events of one journal, then every new one: an async iterator, and a context manager that closes it.

    A Delete beyond its place raises `Trimmed`; a Purge ends it. It holds no events of its own while its user is slow:
    it remembers its place, and reads again from there. One that its user drops without closing it ends by itself.

    ```python
    async with journal.follow("order-1") as reader:
        async for event in reader:
            print(event.seq_nr, event.payload)
    ```
    """

    def __init__(self, source: JournalSource, key: Key, start: int) -> None:
        self._source = source
        self._key = key
        self._next = start
        self._looked = False
        self._existed = False
        self._life: str | None = None
        self._reader: EventReader | None = None
        self._grown = asyncio.Event()
        self._listener: _Listener | None = None
        self._ended = False
        self._failure: CordwoodError | None = None
        self._turns = asyncio.Lock()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StoredEvent:
        async with self._turns:
            while not self._ended:
                if self._failure is not None:
                    await self.close()
                    raise copy_for_caller(self._failure)
                if self._reader is None:
                    await self._look()
                    continue
                try:
                    event = await anext(self._reader)
                except StopAsyncIteration:
                    self._reader = None
                    await self._wait()
                    continue
                except Trimmed:
                    self._reader = None  # purged or deleted while it was read: the next look tells which
                    continue
                self._next = event.seq_nr + 1
                return event
        raise StopAsyncIteration

    async def close(self) -> None:
        """Stop following; a second call has no effect. A step that waits ends."""
        self._ended = True
        self._grown.set()
        if self._listener is not None:
            self._listener.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<cordwood.FollowReader of {self._key.id!r} at {self._next}{' closed' if self._ended else ''}>"

    async def _look(self) -> None:
        """See what the journal is now, and read on from this reader's place."""
        await self._hold()
        self._grown.clear()
        look = await self._source.looks.in_time(self._key, events_from=self._next)
        look.check_open(self._source.topic.name, self._key.id)
        state = look.state
        life = None if state is None else state.life
        if self._existed and (not exists(state) or (self._life is not None and life != self._life)):
            await self.close()  # purged
            return
        self._life = life
        self._existed = exists(state)
        end = seq_nr_of(state)
        deleted = 0 if state is None else state.delete_to or 0
        if not self._looked:
            await self._check_start(end)
            self._looked = True
            self._next = max(self._next, deleted + 1)
        elif deleted >= self._next:
            await self.close()
            raise Trimmed(
                f"journal {self._key.id!r} of {self._source.topic.name!r} is deleted through {deleted}, and this reader"
                f" is at {self._next}: follow from {deleted + 1}",
                start=deleted + 1,
            )
        if end < self._next:
            await self._wait()
            return
        self._reader = EventReader(self._source, self._key, self._next, end + 1, None)
        try:
            await self._reader._begin_at(look, continues=True)
        except Trimmed:
            self._reader = None

    async def _hold(self) -> None:
        """Have the tail reader follow the partition, and tell of each batch."""
        if self._listener is not None:
            return
        tail = self._source.tail
        await tail.head(self._key.partition)
        if self._ended:
            return
        self._listener = _Listener(self, tail, self._key)

    async def _wait(self) -> None:
        if not self._ended:
            await self._grown.wait()

    async def _check_start(self, end: int) -> None:
        if self._next > end + 1:
            await self.close()
            raise InvalidInput(
                f"journal {self._key.id!r} of {self._source.topic.name!r} ends at {end}, and start is {self._next}:"
                f" follow from {end + 1} or before"
            )

    def _on_failed(self, error: CordwoodError) -> None:
        self._failure = error
        self._grown.set()


class _Listener:
    """Listens to the tail reader for a follower, which it does not keep alive: a `break` leaves one unclosed."""

    def __init__(self, follower: FollowReader, tail: Tail, key: Key) -> None:
        self._follower = weakref.ref(follower)
        self._tail = tail
        self._key = key
        self._dropped = weakref.finalize(follower, self._stop_soon)
        self._dropped.atexit = False
        self._loop = asyncio.get_running_loop()
        tail.on_fed.append(self._on_fed)
        tail.on_passed.append(self._on_passed)
        tail.on_failed.append(self._on_failed)
        tail.hold(key.partition)

    def stop(self) -> None:
        """Listen no more; a second call has no effect."""
        if self._dropped.detach() is not None:
            self._stop()

    def _stop_soon(self) -> None:
        """The collector may call this on any thread, and while the tail reader calls its listeners."""
        with suppress(RuntimeError):  # the loop is closed, and the tail reader with it
            self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        tail = self._tail
        tail.release(self._key.partition)
        tail.on_fed.remove(self._on_fed)
        tail.on_passed.remove(self._on_passed)
        tail.on_failed.remove(self._on_failed)

    def _on_fed(self, head: PartitionHead, batch: StoredBatch) -> None:
        follower = self._follower()
        if follower is not None and head.partition == self._key.partition and not follower._grown.is_set():
            _, keys, _, _ = batch.rows()
            if keys is not None and self._key.bytes in keys:
                follower._grown.set()

    def _on_passed(self, partition: int) -> None:
        follower = self._follower()
        if follower is not None and partition == self._key.partition:
            follower._grown.set()

    def _on_failed(self, error: CordwoodError) -> None:
        follower = self._follower()
        if follower is not None:
            follower._on_failed(error)
