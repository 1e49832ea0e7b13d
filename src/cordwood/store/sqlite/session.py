"""The connections to one SQLite file, and the threads that use them.

One connection writes, on a thread of its own. A few others read. Every call is one short transaction; none lasts for a
whole read. There are no locks: the writing thread owns its connection, and a reading thread owns the one that it took.
"""

import asyncio
import ctypes
import os
import sqlite3
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from cordwood.errors import Timeout, Unavailable
from cordwood.log.calls.deadline import deadline
from cordwood.log.calls.outcome import change
from cordwood.log.calls.threads import DaemonThreads, call, in_a_thread, open_shared

from .connection import connect, set_up_reader, set_up_writer
from .errors import Damage, damaged, is_busy, translate, translated
from .schema import prepare_for_reading, prepare_for_writing

T = TypeVar("T")
P = ParamSpec("P")

READERS_MAX: Final = 3
"""Reading threads, and connections that read."""


class Session:
    """An open store: `read` and `write` run a function with a connection, on a thread.

    ```python
    offsets = await session.read(reading.pointers, "orders")
    ```
    """

    def __init__(self, path: Path, *, read_only: bool, timeout: float) -> None:
        """Open the file. Blocks."""
        self.path = path
        self.read_only = read_only
        self.timeout = timeout
        # Less than the time of a call, so that its caller gets "busy", which has a remedy, before `Timeout`.
        self._wait = timeout - min(1.0, timeout / 5)
        self._gone: Unavailable | None = None
        self._connections: list[sqlite3.Connection] = []
        self._idle: list[sqlite3.Connection] = []
        self._writer: sqlite3.Connection | None = None
        with translated(path):
            if read_only:
                self._idle.append(self._keep(prepare_for_reading(path, self._wait), set_up_reader))
            else:
                self._writer = self._keep(prepare_for_writing(path, self._wait), set_up_writer)
        self._reading = _Threads(READERS_MAX, "cordwood-store-read")
        self._writing = _Threads(1, "cordwood-store-write")
        _open.add(self)

    def _keep(self, db: sqlite3.Connection, set_up: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
        self._connections.append(db)
        try:
            set_up(db)
        except BaseException:
            db.close()
            raise
        return db

    def __str__(self) -> str:
        return str(self.path)

    async def read(
        self, function: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **options: P.kwargs
    ) -> T:
        """Run a function that only reads."""
        self.check()
        what = f"{self.path}: {function.__name__}"
        return await call(
            self._reading, self.timeout, what, lambda: self._read(lambda db: function(db, *args, **options))
        )

    def _read(self, function: Callable[[sqlite3.Connection], T]) -> T:
        with translated(self.path):
            try:
                db = self._idle.pop()
            except IndexError:
                db = self._keep(connect(self.path, "ro", self._wait), set_up_reader)
            try:
                return function(db)
            finally:
                self._idle.append(db)

    async def write(
        self, function: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **options: P.kwargs
    ) -> T:
        """Run a function in one transaction; when it returns, the change is on the disk."""
        self.check_writable()
        what = f"{self.path}: {function.__name__}"
        until = time.monotonic() + self._wait
        with change():
            return await call(
                self._writing,
                self.timeout,
                what,
                lambda: self._write(what, until, lambda db: function(db, *args, **options)),
            )

    def _write(self, what: str, until: float, function: Callable[[sqlite3.Connection], T]) -> T:
        db = self._writer
        assert db is not None
        with translated(self.path):
            try:
                self._begin(db, what, until)
                result = function(db)
            except BaseException as error:
                _roll_back(db)
                if isinstance(error, sqlite3.Error):
                    raise _not_written(error, self.path) from error
                if isinstance(error, Damage):
                    failed = damaged(self.path, str(error))
                    failed.outcome = "not_written"
                    raise failed from error
                raise
            try:
                db.execute("COMMIT")
            except sqlite3.Error as error:
                _roll_back(db)
                if is_busy(error):
                    raise _not_written(error, self.path) from error
                raise  # its outcome is unknown: it may be in the log of changes, whole
            return result

    def _begin(self, db: sqlite3.Connection, what: str, until: float) -> None:
        seconds = until - time.monotonic()
        if seconds <= 0:
            raise Unavailable(
                f"{what} was not begun: earlier writes took all of its time: write less at once, or give it more time",
                outcome="not_written",
                reason="busy",
            )
        db.execute(f"PRAGMA busy_timeout={int(seconds * 1000)}")
        db.execute("BEGIN IMMEDIATE")

    def check(self) -> None:
        """Raise `Unavailable` once the session is closed, and in a forked child."""
        if self._gone is not None:
            raise copy(self._gone)

    def check_writable(self) -> None:
        """Raise `Unavailable` if this session cannot write."""
        self.check()
        if self.read_only:
            raise Unavailable(
                f"{self.path} is open with read_only=True: open it without, to write",
                outcome="not_written",
                reason="read-only",
            )

    async def close(self) -> None:
        """Finish the calls under way, then close all connections; a second call has no effect."""
        if self._gone is not None:
            return
        self._gone = Unavailable(
            f"{self.path}: the store is closed: open it again", outcome="not_written", reason="closed"
        )
        closing = in_a_thread("cordwood-store-close", self.finish)
        late = f"{self.path}: closing took more than {self.timeout} s: it continues by itself"
        async with deadline(self.timeout, lambda: Timeout(late)):
            await asyncio.shield(asyncio.wrap_future(closing))

    def finish(self) -> None:
        """Wait for the calls under way, and close the connections. Blocks."""
        self._reading.shutdown()
        self._writing.shutdown()
        wait((*self._reading.under_way, *self._writing.under_way))
        # The writing one last: only it may empty and remove SQLite's log of changes.
        for db in reversed(self._connections):
            with suppress(sqlite3.Error):
                db.close()

    def mark_forked(self) -> None:
        """In a forked child: keep the connections from being freed, since SQLite would close the parent's files."""
        self._gone = Unavailable(
            f"{self.path}: this store was opened by the parent process: open it again in the child",
            outcome="not_written",
            reason="forked",
        )
        for db in self._connections:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(db))


class _Threads(DaemonThreads):
    """Threads that know which calls are under way."""

    def __init__(self, threads_max: int, name: str) -> None:
        super().__init__(threads_max, name)
        self.under_way: set[Future[None]] = set()

    def submit(self, function: Callable[..., T], /, *args: Any, **options: Any) -> "Future[T]":
        # Noted before the call is queued: whatever was queued before a shutdown is found after it.
        ended: Future[None] = Future()
        self.under_way.add(ended)
        try:
            future = super().submit(function, *args, **options)
        except BaseException:
            self._end(ended)
            raise
        future.add_done_callback(lambda _: self._end(ended))
        return future

    def _end(self, ended: "Future[None]") -> None:
        self.under_way.discard(ended)
        ended.set_result(None)


async def open_session(path: Path, *, read_only: bool, timeout: float) -> Session:
    """Open a store on a thread of its own."""
    late = f"{path}: opening took more than {timeout} s: try again, or give it more time"
    return await open_shared(
        "cordwood-store-open",
        timeout,
        late,
        lambda: Session(path, read_only=read_only, timeout=timeout),
        Session.finish,
    )


def _roll_back(db: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):  # the first error has the cause
        if db.in_transaction:
            db.execute("ROLLBACK")


def _not_written(error: sqlite3.Error, path: Path) -> Exception:
    failed = translate(error, path)
    if not isinstance(failed, TypeError):
        failed.outcome = "not_written"
    return failed


_open: "weakref.WeakSet[Session]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for session in _open:
        session.mark_forked()


os.register_at_fork(after_in_child=_after_fork_in_child)
