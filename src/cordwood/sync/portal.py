"""The one loop thread of a process, and calls to it from every other thread.

Lock: `_lock` guards the one portal of the process.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from copy import copy
from typing import Any, ParamSpec, TypeVar

from cordwood.errors import Unavailable
from cordwood.locks import new_lock

_STOP_SECONDS = 5.0  # an exiting program waits no longer than this for calls that do not end when cancelled

P = ParamSpec("P")
T = TypeVar("T")


class Portal:
    """An event loop on a daemon thread of its own. Every other thread may call into it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._stop_asked = asyncio.Event()
        self._gone: Unavailable | None = None
        self._thread = threading.Thread(target=self._run, name="cordwood-sync", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._loop.close()
            raise Unavailable(
                f"cordwood.sync needs a thread, and none starts: {error}", outcome="not_written", reason="failed"
            ) from error

    @property
    def ending(self) -> bool:
        """Whether the end of the program has stopped it."""
        return self._gone is not None and self._gone.reason == "closed"

    def check(self) -> None:
        """Raise `Unavailable` if this portal has ended, or is in a forked child."""
        if self._gone is not None:
            raise copy(self._gone)

    def call(self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the coroutine on the loop, and wait for its result or its error.

        An exception in the waiting thread, such as KeyboardInterrupt, cancels the coroutine.
        """
        self.check()
        if threading.get_ident() == self._thread.ident:
            raise Unavailable(
                "a blocking call on the thread of cordwood.sync's own event loop would wait for itself: "
                "call from another thread, or use the async connection there",
                outcome="not_written",
                reason="other-loop",
            )
        future = self._start(function(*args, **kwargs))
        try:
            return future.result()
        except CancelledError as error:
            raise Unavailable(
                "the program is ending: the call was broken off", outcome="unknown", reason="closed"
            ) from error
        finally:
            future.cancel()  # no effect if it is done
            del future  # it holds the error, whose traceback holds this frame: a cycle

    def call_to_close(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """As `call`; does nothing while the program ends, since everything closes with it."""
        try:
            self.call(function)
        except Unavailable:
            if not self.ending:
                raise

    def call_later(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run the coroutine on the loop some time later; every thread may call this, also while the program ends."""
        if self._gone is None:
            try:
                self._start(function())
            except Unavailable:
                pass

    def stop(self) -> None:
        """Cancel the calls under way, and end the thread."""
        self._gone = _ended()
        try:
            self._loop.call_soon_threadsafe(self._stop_asked.set)
        except RuntimeError:
            return  # stopped already
        self._thread.join(_STOP_SECONDS)

    def abandon(self) -> None:
        """In a forked child, which has the objects of this portal, but not its thread.

        The child does not close the loop: its epoll instance is the parent's too, and closing would remove the parent's
        wake-up from it.
        """
        self._gone = Unavailable(
            "this object was made before the process was forked: connect anew in the child",
            outcome="not_written",
            reason="forked",
        )

    def _start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError as error:  # the loop was closed after the check
            coroutine.close()
            raise _ended() from error

    def _run(self) -> None:
        # Not asyncio's Runner: it starts a thread to join the loop's own ones, which an ending program may not do
        # (since Python 3.12). They have ended by then: `concurrent.futures` joins them before `atexit` runs.
        stopped = self._loop.create_task(self._until_stopped())
        try:
            while not stopped.done():
                # These exceptions pass through asyncio. They end only the call that raised them, and its caller gets
                # them; if the loop ended, all other calls would wait for ever.
                with suppress(SystemExit, KeyboardInterrupt):
                    self._loop.run_until_complete(stopped)
        finally:
            self._loop.close()

    async def _until_stopped(self) -> None:
        await self._stop_asked.wait()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._loop.shutdown_asyncgens()


def _ended() -> Unavailable:
    return Unavailable("the program is ending: cordwood.sync has stopped", outcome="not_written", reason="closed")


_lock = new_lock("sync.portal")
_portal: Portal | None = None
_abandoned: list[Portal] = []  # kept, since a loop closes itself when it is collected: see Portal.abandon


def portal() -> Portal:
    """The portal of this process; its thread starts with the first use."""
    global _portal
    with _lock:
        if _portal is None:
            _portal = Portal()
        return _portal


def _after_fork_in_child() -> None:
    global _lock, _portal
    _lock = new_lock("sync.portal")  # another thread of the parent may have held it
    if _portal is not None:
        _portal.abandon()
        _abandoned.append(_portal)
        _portal = None


def _at_exit() -> None:
    if _portal is not None:
        _portal.stop()


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)
