"""Reading a log from an event loop: a thread reads ahead, the loop only takes what is ready."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future

from cordwood.errors import CordwoodError, InvalidInput, Unavailable
from cordwood.log.bridge import wake
from cordwood.log.interface import Reader
from cordwood.records import StoredBatch

from .folder_log import FolderLog
from .stream.cursor import LogCursor, Source

_STEPS_AHEAD = 2
_POLL_SECONDS_MIN = 0.002
_POLL_SECONDS_MAX = 0.05


class _Wanted:
    """Something that a reader waits for in its loop, and that comes from a thread or from another loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def wake(self) -> None:
        wake(self._loop, self._event)

    async def wait(self) -> None:
        await self._event.wait()


class NativeReader(Reader):
    """At most three steps of a few MiB are held: the one that is given out, and two that wait.

    One job at a time reads ahead, step after step, without asking the loop: a hop between threads for every step would
    cost a third of the speed. It ends when enough waits, or at the end of the log, and the loop starts it again.
    """

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
        self._cursor: LogCursor | None = None
        self._steps: deque[list[StoredBatch] | Exception] = deque()
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
        self._ready: deque[StoredBatch] = deque()
        self._closed = False
        self._poll_seconds = _POLL_SECONDS_MIN
        self._wanted: _Wanted | None = None

        self._lock = threading.Lock()
        self._reading: Future[None] | None = None
        self._running = False

    async def __anext__(self) -> StoredBatch:
        while not self._ready:
            if self._closed:
                raise StopAsyncIteration
            self._check()
            step = await self._next_step()
            if step:
                self._ready.extend(step)
                self._poll_seconds = _POLL_SECONDS_MIN
            elif not self._follow or self._at_stop():
                await self.close()
            else:
                await self._growth()
        return self._ready.popleft()

    async def close(self) -> None:
        self._closed = True
        self._ready.clear()
        wanted = self._wanted
        if wanted is not None:
            wanted.wake()
        if self._reading is not None:
            # Not an asyncio future: the reader may be closed in another loop than the one it was read in.
            await asyncio.wrap_future(self._reading)
        self._let_go()

    def __del__(self) -> None:
        # Iterated bare, and left before its end.
        self._let_go()

    def _let_go(self) -> None:
        cursor = self._cursor
        if cursor is not None:
            cursor.close()
        self._steps.clear()

    async def _next_step(self) -> list[StoredBatch]:
        """The next batches; none at the end of what is durable, or once the reader is closed."""
        while not self._closed:
            arrived = _Wanted()
            with self._lock:
                step = self._steps.popleft() if self._steps else None
                start_reading = not self._running and (step is None or (bool(step) and isinstance(step, list)))
                self._running = self._running or start_reading
                if step is None:
                    self._wanted = arrived
            if start_reading:
                self._reading = self._executor.submit(self._read_ahead)
            if step is None:
                await arrived.wait()
                self._wanted = None
            elif isinstance(step, Exception):
                await self.close()
                if isinstance(step, OSError) and not isinstance(step, CordwoodError):
                    raise Unavailable(f"reading failed: {step}") from step
                raise step
            else:
                return step
        return []

    def _read_ahead(self) -> None:
        """On a thread: read until enough waits, or there is nothing more to read now."""
        more = True
        while more:
            try:
                step: list[StoredBatch] | Exception = [] if self._closed else self._read()
            except Exception as error:
                step = error
            with self._lock:
                self._steps.append(step)
                more = bool(step) and not isinstance(step, Exception) and len(self._steps) < _STEPS_AHEAD
                self._running = more
                wanted, self._wanted = self._wanted, None
            if wanted is not None:
                wanted.wake()

    def _read(self) -> list[StoredBatch]:
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

    async def _growth(self) -> None:
        """Until there may be more to read, or the reader is closed."""
        if self._closed:
            return
        source, cursor = self._source, self._cursor
        assert source is not None
        assert cursor is not None
        self._wanted = grown = _Wanted()
        if isinstance(source, FolderLog):
            wake_up = grown.wake
            source.when_grown(cursor.offset, wake_up)
            try:
                await grown.wait()
            finally:
                source.forget(wake_up)
        else:
            # Another process writes: look again soon, less often while nothing comes.
            try:
                async with asyncio.timeout(self._poll_seconds):
                    await grown.wait()
            except TimeoutError:
                self._poll_seconds = min(2 * self._poll_seconds, _POLL_SECONDS_MAX)
        self._wanted = None
