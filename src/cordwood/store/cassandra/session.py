"""Calls on a keyspace: from an event loop to the driver and back, within their time.

The driver answers on a thread of its own. Answers that come while a loop has not run yet share one wake-up of it.
Stores of one process with the same settings share one `Link`. Lock: `_links_lock` guards the table of links and is
never held during I/O.
"""

import asyncio
import os
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from copy import copy
from functools import partial
from typing import Any, Final, TypeVar

from cordwood.errors import CordwoodError, InvalidInput, Timeout, Unavailable
from cordwood.locks import new_lock
from cordwood.log.calls.deadline import deadline
from cordwood.log.calls.outcome import change
from cordwood.log.calls.threads import DaemonThreads, in_a_thread, open_shared

from .driver import Bound, Link, Rows, Statement, may_pass, translate
from .schema import LockTimes, prepare_for_reading, prepare_for_writing
from .settings import Settings
from .statements import Statements

T = TypeVar("T")

IN_FLIGHT: Final = 64
"""Requests of one call that are under way at once."""

FLIGHT_BYTES: Final = 16 << 20
"""Bytes of the requests of one step that are under way at once; the last one may be beyond."""

ATTEMPT_SECONDS: Final = 5.0
"""After so long a request is repeated: its node may hang, and another one answers."""

_PAUSE_SECONDS: Final = (0.01, 1.0)


class Session:
    """An open keyspace. `call` begins a call, which sends requests.

    ```python
    async with session.call("pointers") as call:
        rows = await call.ask(session.cql.pointer, ("orders", 0))
    ```
    """

    def __init__(self, settings: Settings, *, read_only: bool, timeout: float, lock: LockTimes) -> None:
        """Connect, and look at the schema. Blocks."""
        self.name = str(settings.url)
        self.read_only = read_only
        self.timeout = timeout
        self.cql = Statements(settings.url.keyspace)
        self._gone: Unavailable | None = None
        self._under_way = 0
        self._waiting: list[Callable[[], None]] = []
        self._lock = new_lock("store.cassandra.session")
        self._settings = settings
        self.link = _take_link(settings, timeout)
        try:
            if read_only:
                prepare_for_reading(self.link, settings.url)
            else:
                prepare_for_writing(self.link, settings.url, lock, timeout)
        except BaseException:
            _leave_link(settings)
            raise
        _open.add(self)

    def __str__(self) -> str:
        return self.name

    @asynccontextmanager
    async def call(self, what: str, *, each: bool = False) -> AsyncIterator["Call"]:
        """A call that only reads, with its time; `each`: each of its requests has as much."""
        self.check()
        self._begin()
        try:
            late = f"{self.name}: {what} took more than {self.timeout:g} s"
            async with deadline(None if each else self.timeout, lambda: Timeout(late)):
                # Less than the time of the call, so that its caller gets the cause before `Timeout`.
                limit = self.timeout - min(1.0, self.timeout / 5)
                yield Call(self, limit, None if each else time.monotonic() + limit)
        except UnicodeEncodeError as error:
            raise InvalidInput(
                f"{self.name}: a text has a lone surrogate in it, which is no character: {error}"
            ) from error
        finally:
            self._end()

    @asynccontextmanager
    async def writing(self, what: str, *, each: bool = False) -> AsyncIterator["Call"]:
        """A call that writes; `each`: each of its requests has the time of a call."""
        self.check_writable()
        with change():
            async with self.call(what, each=each) as call:
                yield call

    def check(self) -> None:
        """Raise `Unavailable` once the session is closed, and in a forked child."""
        if self._gone is not None:
            raise copy(self._gone)

    def check_writable(self) -> None:
        """Raise `Unavailable` if this session cannot write."""
        self.check()
        if self.read_only:
            raise Unavailable(
                f"{self.name} is open with read_only=True: open it without, to write",
                outcome="not_written",
                reason="read-only",
            )

    def _begin(self) -> None:
        with self._lock:
            self._under_way += 1

    def _end(self) -> None:
        with self._lock:
            self._under_way -= 1
            waiting, self._waiting = ([], self._waiting) if self._under_way else (self._waiting, [])
        for wake in waiting:
            wake()

    async def close(self) -> None:
        """Finish the calls under way, then leave the connections; a second call has no effect."""
        if self._gone is not None:
            return
        self._gone = Unavailable(
            f"{self.name}: the store is closed: open it again", outcome="not_written", reason="closed"
        )
        late = f"{self.name}: closing took more than {self.timeout:g} s: it continues by itself"
        try:
            async with deadline(self.timeout, lambda: Timeout(late)):
                await self._until_idle()
        finally:
            closing = in_a_thread("cordwood-store-close", lambda: _leave_link(self._settings))
        async with deadline(self.timeout, lambda: Timeout(late)):
            await asyncio.shield(asyncio.wrap_future(closing))

    async def _until_idle(self) -> None:
        loop = asyncio.get_running_loop()
        idle = asyncio.Event()
        with self._lock:
            if not self._under_way:
                return

            def wake() -> None:
                with suppress(RuntimeError):  # the loop is closed: nobody waits
                    loop.call_soon_threadsafe(idle.set)

            self._waiting.append(wake)
        await idle.wait()

    def mark_forked(self) -> None:
        """In a forked child: the connections are the parent's."""
        self._gone = Unavailable(
            f"{self.name}: this store was opened by the parent process: open it again in the child",
            outcome="not_written",
            reason="forked",
        )


class Call:
    """The requests of one call of a store."""

    def __init__(self, session: Session, limit: float, until: float | None) -> None:
        """`until`: when the last request ends; None: each request may take `limit` seconds."""
        self.session = session
        self.cql = session.cql
        self._link = session.link
        self._limit = limit
        self._until = until

    async def statement(self, cql: str) -> Statement:
        """A prepared statement; the first caller waits for the nodes to prepare it."""
        found = self._link.prepared(cql)
        if found is not None:
            return found
        return await asyncio.wrap_future(_preparing.submit(self._link.prepare, cql))

    async def ask(
        self, cql: str, values: Sequence[Any] = (), fetch_size: int | None = None, state: bytes | None = None
    ) -> Rows:
        """The first rows of an answer, or those after `state`."""
        statement = await self.statement(cql)
        return await self.send(statement.bind(values), fetch_size, state)

    async def pages(self, cql: str, values: Sequence[Any], fetch_size: int) -> AsyncIterator[list[Any]]:
        """All rows of an answer, in pages."""
        statement = await self.statement(cql)
        state: bytes | None = None
        while True:
            rows, state = await self.send(statement.bind(values), fetch_size, state)
            if rows:
                yield rows
            if state is None:
                return

    async def send(self, bound: Bound, fetch_size: int | None = None, state: bytes | None = None) -> Rows:
        """Send a statement that may be repeated, until a majority has answered or the time is over.

        A repeated one asks for half as many rows: they may be more than a node or the memory can take at once.
        """
        pause, longest = _PAUSE_SECONDS
        until = time.monotonic() + self._limit if self._until is None else self._until
        while True:
            left = until - time.monotonic()
            try:
                return await self._once(bound, max(0.01, min(left, ATTEMPT_SECONDS)), fetch_size, state)
            except asyncio.CancelledError:
                raise
            except Exception as error:
                if not may_pass(error) or time.monotonic() + pause > until:
                    raise translate(error, self.session.name) from error
            if fetch_size is not None:
                fetch_size = max(2, fetch_size // 2)
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    async def _once(self, bound: Bound, seconds: float, fetch_size: int | None, state: bytes | None) -> Rows:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Rows] = loop.create_future()
        self._link.send(bound, seconds, partial(_wakeups_of(loop).end, future), fetch_size, state)
        return await future

    async def send_all(self, statements: Iterable[Bound], before_each: Callable[[], None] = lambda: None) -> None:
        """Send statements in any order, IN_FLIGHT and about FLIGHT_BYTES at once; the first error ends it."""
        todo = iter(statements)
        flying = 0
        landed = asyncio.Event()

        async def work() -> None:
            nonlocal flying
            while True:
                while flying >= FLIGHT_BYTES:
                    landed.clear()
                    await landed.wait()
                bound = next(todo, None)  # here: it may be encoded only now
                if bound is None:
                    return
                before_each()
                flying += bound.size
                try:
                    await self.send(bound)
                finally:
                    flying -= bound.size
                    landed.set()

        first = next(todo, None)
        if first is None:
            return
        before_each()
        second = next(todo, None)
        if second is None:
            await self.send(first)
            return
        todo = _chain(first, second, todo)
        await together([work() for _ in range(IN_FLIGHT)])

    async def ask_all(self, cql: str, wanted: Sequence[Sequence[Any]]) -> list[Rows]:
        """The first rows of many answers, in the order of their values."""
        statement = await self.statement(cql)
        if len(wanted) == 1:
            return [await self.send(statement.bind(wanted[0]))]
        answers: list[Rows] = [_NO_ROWS] * len(wanted)
        todo = iter(enumerate(wanted))

        async def work() -> None:
            for at, values in todo:
                answers[at] = await self.send(statement.bind(values))

        await together([work() for _ in range(min(IN_FLIGHT, len(wanted)))])
        return answers


_NO_ROWS: Final = Rows([], None)


def _chain(first: Bound, second: Bound, rest: Iterable[Bound]) -> Any:
    yield first
    yield second
    yield from rest


async def together(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run coroutines at once; the first error cancels the others, and is raised as it is."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


async def open_session(
    settings: Settings, *, read_only: bool, timeout: float, lock: LockTimes | None = None
) -> Session:
    """Connect on a thread of its own."""
    late = f"{settings.url}: opening took more than {timeout:g} s: try again, or give it more time"
    return await open_shared(
        "cordwood-store-open",
        timeout,
        late,
        lambda: Session(settings, read_only=read_only, timeout=timeout, lock=lock or LockTimes()),
        lambda session: _leave_link(session._settings),
    )


# --- wake-ups


class _Wakeups:
    """The answers that a loop has not seen yet."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._ended: deque[tuple[asyncio.Future[Rows], Rows | None, BaseException | None]] = deque()
        self._waking = False

    def end(self, future: "asyncio.Future[Rows]", rows: Rows | None, error: BaseException | None) -> None:
        """On any thread. The loop is woken once for all answers that come before it runs."""
        self._ended.append((future, rows, error))
        if self._waking:
            return
        self._waking = True
        loop = self._loop()
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            if loop is not None:
                loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._waking = False  # first: an answer that comes from here on wakes the loop again, or is delivered below
        while self._ended:
            future, rows, error = self._ended.popleft()
            if future.done():
                continue
            if error is None:
                assert rows is not None
                future.set_result(rows)
            else:
                future.set_exception(error)


def _wakeups_of(loop: asyncio.AbstractEventLoop) -> _Wakeups:
    found = _wakeups.get(loop)
    if found is None:
        found = _wakeups[loop] = _Wakeups(loop)
    return found


# Without a lock: only a loop's own thread asks for its wake-ups.
_wakeups: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Wakeups]" = weakref.WeakKeyDictionary()
_preparing = DaemonThreads(2, "cordwood-store-prepare")


# --- links


class _Shared:
    """A link, and how many sessions use it; connecting is under way while it has neither link nor error."""

    def __init__(self) -> None:
        self.users = 1
        self.link: Link | None = None


_links: dict[Any, _Shared] = {}
_links_lock = new_lock("store.cassandra.links")


def _key(settings: Settings) -> Any:
    url = settings.url
    return (
        url.hosts,
        url.local_dc,
        url.consistency,
        settings.username,
        settings.password,
        settings.tls_ca,
        settings.tls_cert,
        settings.tls_key,
    )


def _take_link(settings: Settings, timeout: float) -> Link:
    key = _key(settings)
    with _links_lock:
        shared = _links.get(key)
        if shared is not None:
            shared.users += 1
            assert shared.link is not None
            return shared.link
    link = Link(settings, timeout)  # two that connect at once make two links, of which one stays
    with _links_lock:
        shared = _links.get(key)
        if shared is None:
            shared = _links[key] = _Shared()
            shared.link = link
            return link
        shared.users += 1
    link.close()
    assert shared.link is not None
    return shared.link


def _leave_link(settings: Settings) -> None:
    key = _key(settings)
    with _links_lock:
        shared = _links.get(key)
        if shared is None:
            return
        shared.users -= 1
        if shared.users:
            return
        del _links[key]
    if shared.link is not None:
        shared.link.close()


_open: "weakref.WeakSet[Session]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    global _preparing
    for session in _open:
        session.mark_forked()
    # The parent's connections stay the parent's; a child that opens a store connects anew.
    _links.clear()
    _preparing = DaemonThreads(2, "cordwood-store-prepare")


os.register_at_fork(after_in_child=_after_fork_in_child)

__all__ = ["Call", "CordwoodError", "Session", "open_session", "together"]
