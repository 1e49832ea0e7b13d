"""A reader: blocking. Batches cross threads in chunks, since a change of threads costs more than a small batch.

Lock: a thread holds `_turn` while it waits for the next batch: threads that share a reader take turns.
"""

import asyncio
import weakref
from collections import deque
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

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


class Weighed(Protocol):
    """An object that crosses threads: it knows its bytes, which limit a chunk."""

    @property
    def weight(self) -> int: ...


T = TypeVar("T", bound=Weighed)
T_co = TypeVar("T_co", bound=Weighed, covariant=True)


class AsyncReader(Protocol[T_co]):
    """The async reader that a blocking one reads from."""

    async def __anext__(self) -> T_co: ...

    async def close(self) -> None: ...


class Crossing(Generic[T]):
    """Carries batches from a reader on the loop to the threads that iterate its twin, `owner`."""

    def __init__(self, owner: object, reader: AsyncReader[T], through: Portal, *, follows: bool = False) -> None:
        self._portal = through
        self._follows = follows
        self._ahead = _ReadAhead(reader)
        self._turn = new_lock("sync.reader")
        dropped = weakref.finalize(owner, through.call_later, self._ahead.close)
        dropped.atexit = False  # at exit the portal ends, with everything in it

    def __repr__(self) -> str:
        return repr(self._ahead.reader)

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

    def __init__(self, reader: AsyncReader[T]) -> None:
        self.ready: deque[T] = deque()
        self.reader = reader
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
            while count < CHUNK_BATCHES_MAX and size < CHUNK_BYTES_MAX:
                batch = await self.reader.__anext__()
                if self._ended:
                    return
                self.ready.append(batch)
                self._news.set()
                count += 1
                size += batch.weight
        except StopAsyncIteration:
            self._ended = True
        except Exception as error:
            if not self._ended:
                self.error = error
        finally:
            self._pulling = None
            self._news.set()
