"""Reading a log from an event loop: one step of the disk ahead of the caller."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor

from cordwood.errors import CordwoodError, InvalidInput, Unavailable
from cordwood.log.interface import Reader
from cordwood.records import StoredBatch

from .bridge import wake
from .folder_log import FolderLog
from .stream.cursor import LogCursor, Source

_POLL_SECONDS_MIN = 0.002
_POLL_SECONDS_MAX = 0.05


class NativeReader(Reader):
    """At most two steps of a few MiB are held: the one that is given out, and the one that is read meanwhile."""

    def __init__(
        self,
        executor: Executor,
        resolve: Callable[[], Source],
        *,
        start: int | None,
        stop: int | None,
        follow: bool,
        end_at_call: int | None,
        check: Callable[[], None],
    ) -> None:
        if start is not None and start < 0:
            raise InvalidInput(f"start is {start}: offsets begin at 0")
        if stop is not None and stop < 0:
            raise InvalidInput(f"stop is {stop}: offsets begin at 0")
        self._executor = executor
        self._resolve = resolve
        self._start = start
        self._stop = stop
        self._follow = follow
        self._end_at_call = end_at_call
        self._check = check
        self._source: Source | None = None
        self._cursor: LogCursor | None = None
        self._ready: deque[StoredBatch] = deque()
        self._step: asyncio.Future[list[StoredBatch]] | None = None
        self._grown: asyncio.Event | None = None
        self._closed = False

    async def __anext__(self) -> StoredBatch:
        while not self._ready:
            if self._closed:
                raise StopAsyncIteration
            if not await self._next_step():
                await self.close()
        return self._ready.popleft()

    async def close(self) -> None:
        self._closed = True
        self._ready.clear()
        if self._grown is not None:
            self._grown.set()
        step, self._step = self._step, None
        if step is not None:
            await asyncio.wait([step])
            if not step.cancelled():
                step.exception()
        if self._cursor is not None:
            self._cursor.close()

    async def _next_step(self) -> bool:
        """Wait for batches; False at the end. The step after is begun before this one is given out."""
        wait = _POLL_SECONDS_MIN
        while not self._closed:
            self._check()
            step = self._step = self._step or self._begin_step()
            try:
                batches = await asyncio.shield(step)
            except OSError as error:
                await self.close()
                if isinstance(error, CordwoodError):
                    raise
                raise Unavailable(f"reading failed: {error}") from error
            except CordwoodError:
                await self.close()
                raise
            if self._closed:
                return False
            self._step = None
            if batches:
                self._ready.extend(batches)
                if not self._at_stop():
                    self._step = self._begin_step()
                return True
            if not self._follow or self._at_stop():
                return False
            await self._growth(wait)
            wait = min(2 * wait, _POLL_SECONDS_MAX)
        return False

    def _begin_step(self) -> "asyncio.Future[list[StoredBatch]]":
        return asyncio.get_running_loop().run_in_executor(self._executor, self._read)

    def _read(self) -> list[StoredBatch]:
        """On a thread: the next batches."""
        if self._cursor is None:
            source = self._resolve()
            view = source.view()
            if self._stop is None and not self._follow:
                self._stop = self._end_at_call
                if self._stop is None:
                    self._stop = source.first_end() if isinstance(source, FolderLog) else view.durable.next_offset
            self._cursor = LogCursor(source, view.start if self._start is None else self._start)
            self._source = source
        if self._at_stop():
            return []
        return self._cursor.read(self._stop)

    def _at_stop(self) -> bool:
        return self._stop is not None and self._cursor is not None and self._cursor.offset >= self._stop

    async def _growth(self, seconds: float) -> None:
        """Until there may be more to read."""
        source, cursor = self._source, self._cursor
        assert source is not None
        assert cursor is not None
        self._grown = asyncio.Event()
        if isinstance(source, FolderLog):
            loop = asyncio.get_running_loop()
            grown = self._grown
            source.when_grown(cursor.offset, lambda: wake(loop, grown))
            await grown.wait()
        else:
            # Another process writes: look again soon, less often while nothing comes.
            try:
                async with asyncio.timeout(seconds):
                    await self._grown.wait()
            except TimeoutError:
                pass
        self._grown = None
