"""A reader: blocking. Batches cross threads in chunks, since a change of threads costs more than a small batch.

Lock: a thread holds `_turn` while it waits for the next batch: threads that share a reader take turns.
"""

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from cordwood import log
from cordwood.errors import Unavailable
from cordwood.locks import new_lock
from cordwood.records import StoredBatch
from cordwood.sync.portal import Portal

CHUNK_BATCHES_MAX = 64
CHUNK_BYTES_MAX = 8 * 1024 * 1024
"""A chunk is full at this many batches, or bytes: the batch that reaches the limit is its last one."""


class Reader:
    """Batches of one log, in offset order: an iterator, and a context manager that closes it.

    ```python
    with log.read(start=10) as reader:
        for batch in reader:
            ...
    ```
    It may be iterated without `with`; then it closes at its end, with the connection, or when it is garbage-collected.
    Several threads may share one: each batch goes to one of them. Another thread may call `close`, which ends an
    iteration that waits. The end of the program also ends one, if the reader follows the log.
    """

    def __init__(self, reader: log.Reader, through: Portal, *, follows: bool = False) -> None:
        self._crossing = Crossing(self, reader, through, follows=follows)

    def __repr__(self) -> str:
        return f"<blocking {self._crossing!r}>"

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> StoredBatch:
        return self._crossing.next()

    def close(self) -> None:
        """Stop reading; a second call has no effect. A `next` that waits in another thread raises StopIteration."""
        self._crossing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class PartitionsReader(Reader):
    """Batches of several partitions of one topic, each in its offset order; `batch.partition` names the partition.

    ```python
    with cw.read("events", start={0: 10, 1: 7}, follow=True) as reader:
        for batch in reader:
            print(batch.partition, batch.offsets)
    ```
    It is used as a `Reader` is. Partitions that have records take turns, so a long one delays no other for long. An
    error of one partition ends the whole reader.
    """

    def __init__(self, reader: log.PartitionsReader, through: Portal, *, follows: bool = False) -> None:
        super().__init__(reader, through, follows=follows)
        self._reader = reader
        self._portal = through
        self._positions: dict[int, int] = {}

    def __next__(self) -> StoredBatch:
        batch = super().__next__()
        assert batch.partition is not None
        self._positions[batch.partition] = batch.offsets[-1] + 1
        return batch

    def position(self, partition: int) -> int:
        """One past the last offset that the reader has returned of this partition; its start if there is none yet.

        At the end it also passes places without a record, such as the marks of transactions on Kafka. With `"first"`
        or `"end"` as start, it is known once the reader has looked the partition up, in its first step.
        """
        return self._portal.call(self._position, partition)

    def add(self, partition: int, start: int) -> None:
        """Internal: a reader that follows also reads this partition from now on, up to no stop.

        The next step raises if the partition does not exist, or not have `start`.
        """
        self._portal.call(self._add, partition, start)

    def drop(self, partition: int) -> None:
        """Internal: stop reading this partition; no batch of it is returned after this call."""
        self._portal.call(self._drop, partition)

    # On the loop, which is the only one that changes the batches that have crossed.

    async def _position(self, partition: int) -> int:
        ready = [batch for batch in self._crossing.ready if batch.partition == partition]
        if not ready:
            return self._reader.position(partition)
        return self._positions.get(partition, ready[0].offsets[0])

    async def _add(self, partition: int, start: int) -> None:
        self._positions.pop(partition, None)
        self._reader.add(partition, start)

    async def _drop(self, partition: int) -> None:
        self._reader.drop(partition)
        for batch in [batch for batch in self._crossing.ready if batch.partition == partition]:
            with suppress(ValueError):  # another thread has just taken it
                self._crossing.ready.remove(batch)


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


def weight_of(batch: Any) -> int:
    """The bytes of a batch, which limit a chunk."""
    size: int = batch.weight
    return size


class AsyncReader(Protocol[T_co]):
    """The async reader that a blocking one reads from."""

    async def __anext__(self) -> T_co: ...

    async def close(self) -> None: ...


class Crossing(Generic[T]):
    """Carries batches, or other items, from a reader on the loop to the threads that iterate its twin, `owner`.

    `weigh` gives the bytes of an item, and `items_max` limits a chunk besides its bytes.
    """

    def __init__(
        self,
        owner: object,
        reader: AsyncReader[T],
        through: Portal,
        *,
        follows: bool = False,
        weigh: Callable[[T], int] = weight_of,
        items_max: int = CHUNK_BATCHES_MAX,
    ) -> None:
        self._portal = through
        self._follows = follows
        self._ahead = _ReadAhead(reader, weigh, items_max)
        self._turn = new_lock("sync.reader")
        dropped = weakref.finalize(owner, through.call_later, self._ahead.close)
        dropped.atexit = False  # at exit the portal ends, with everything in it

    def __repr__(self) -> str:
        return repr(self._ahead.reader)

    @property
    def ready(self) -> deque[T]:
        """The batches that have crossed, and that no thread has taken yet."""
        return self._ahead.ready

    def next(self) -> T:
        try:
            return self._next()
        except Unavailable:
            # A thread that follows a log has no other end. One that reads up to an offset must not treat this as its
            # end.
            if self._follows and self._portal.ending:
                raise StopIteration from None
            raise

    def close(self) -> None:
        self._portal.call_to_close(self._ahead.close)

    def _next(self) -> T:
        self._portal.check()
        ready = self._ahead.ready
        with self._turn:
            if not ready:
                self._portal.call(self._ahead.fill)
            try:
                return ready.popleft()
            except IndexError:
                error, self._ahead.error = self._ahead.error, None
            if error is None:
                raise StopIteration
            try:
                raise error
            finally:
                del error  # its traceback holds this frame: a cycle


class _ReadAhead(Generic[T]):
    """The side of a reader on the loop: takes the batches that are ready, up to a chunk, while the caller works.

    The caller takes from `ready` and asks for more when that is empty; if it still is, `error` has the reason, or this
    is the end. No batch is the result of a call, so an interrupted call loses no batch and no error: a reader may raise
    an error once and continue after it.
    """

    def __init__(self, reader: AsyncReader[T], weigh: Callable[[T], int], items_max: int) -> None:
        self.ready: deque[T] = deque()
        self.reader = reader
        self._weigh = weigh
        self._items_max = items_max
        self._ended = False
        self.error: Exception | None = None
        self._news = asyncio.Event()
        self._pulling: asyncio.Task[None] | None = None

    async def fill(self) -> None:
        """Return when there is a batch, at once if one is ready, or when there will never be one.

        An error comes after the batches before it.
        """
        while not self.ready and not self._ended and self.error is None:
            if self._pulling is None:
                self._pulling = asyncio.create_task(self._pull(), name="cordwood-sync-reader")
            self._news.clear()
            await self._news.wait()

    async def close(self) -> None:
        """Close the reader, which ends a waiting pull, and drop the batches that were not taken."""
        self._ended = True
        self.ready.clear()
        self.error = None
        await self.reader.close()

    async def _pull(self) -> None:
        # One task for many batches: ready ones come without a turn of the loop.
        count = size = 0
        try:
            while count < self._items_max and size < CHUNK_BYTES_MAX:
                batch = await self.reader.__anext__()
                if self._ended:
                    return
                self.ready.append(batch)
                self._news.set()
                count += 1
                size += self._weigh(batch)
        except StopAsyncIteration:
            self._ended = True
        except Exception as error:
            if not self._ended:
                self.error = error
        finally:
            self._pulling = None
            self._news.set()


class GeneratorReader(Generic[T]):
    """An async generator as a reader: a close also ends a step that waits."""

    def __init__(self, generator: AsyncGenerator[T, None]) -> None:
        self._generator = generator
        self._stepping: asyncio.Task[Any] | None = None

    def __repr__(self) -> str:
        return repr(self._generator)

    async def __anext__(self) -> T:
        self._stepping = asyncio.current_task()
        try:
            return await anext(self._generator)
        finally:
            self._stepping = None

    async def close(self) -> None:
        """Close the generator; a step that waits is cancelled first, since a running generator refuses a close."""
        if self._stepping is not None:
            self._stepping.cancel()
            await asyncio.wait([self._stepping])
        await self._generator.aclose()
