"""Blocking calls, on threads that do not keep the process from ending.

Lock: `DaemonThreads._lock` guards the number of threads and is never held while a call runs.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, TypeVar

from cordwood.errors import Timeout, Unavailable, reason_of
from cordwood.locks import new_lock

from .completion import Wanted
from .deadline import deadline

T = TypeVar("T")

_Call = tuple["Future[Any]", Callable[[], Any]]


class DaemonThreads(Executor):
    """A pool of at most so many threads, each started when it is needed.

    Python joins the threads of its own pools when it ends. A program that is interrupted while a broker hangs would
    wait for a call that it has given up.
    """

    def __init__(self, threads_max: int, name: str) -> None:
        self._threads_max = threads_max
        self._name = name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._lock = new_lock("calls.threads")
        self._threads = 0
        self._open = 0  # calls that are queued or running
        self._shut = False

    def submit(self, function: Callable[..., T], /, *args: Any, **options: Any) -> "Future[T]":
        future: Future[T] = Future()
        with self._lock:
            if self._shut:
                raise RuntimeError("no calls are taken after shutdown")
            if self._open >= self._threads < self._threads_max:
                self._start_one()
            self._calls.put((future, lambda: function(*args, **options)))
            self._open += 1
        return future

    def _start_one(self) -> None:
        name = f"{self._name}_{self._threads + 1}"
        try:
            threading.Thread(target=self._run, name=name, daemon=True).start()
        except RuntimeError as error:
            if not self._threads:  # else an existing thread takes the call later
                raise Unavailable(f"a call needs a thread, and none starts: {error}", reason="failed") from error
            return
        self._threads += 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; each thread ends after the calls taken before. `shutdown` never waits for them."""
        with self._lock:
            if not self._shut:
                self._shut = True
                for _ in range(self._threads):
                    self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            future, function = call
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function())
                except BaseException as error:
                    future.set_exception(error)
            with self._lock:
                self._open -= 1
            del call, future, function  # a waiting thread must keep no client alive


def in_a_thread(name: str, function: Callable[[], T]) -> "Future[T]":
    """Run a call that may take long in a thread of its own. Nothing cancels it: it continues without its caller.

    Raises `Unavailable` if no thread can be started.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except RuntimeError as error:
        raise Unavailable(f"a call needs a thread, and none starts: {error}", reason="failed") from error
    return future


async def open_shared(name: str, timeout: float, late: str, opened: Callable[[], T], let_go: Callable[[T], None]) -> T:
    """Open a shared object on a thread that belongs to no loop; release it if its caller has given up by then.

    The loop's own threads may all be busy with the user's calls, and the loop may have ended by the time it is open.
    """
    opening = in_a_thread(name, opened)
    try:
        async with deadline(timeout, lambda: Timeout(late)):
            return await asyncio.wrap_future(opening)
    except (Timeout, asyncio.CancelledError):

        def let_go_late(opening: "Future[T]") -> None:
            if opening.exception() is None:
                in_a_thread(f"{name}-late", lambda: let_go(opening.result()))

        opening.add_done_callback(let_go_late)
        raise


async def call(executor: Executor, timeout: float, what: str, function: Callable[[], T]) -> T:
    """Run a blocking function of the engine; after `Timeout` it continues by itself."""
    try:
        future = asyncio.get_running_loop().run_in_executor(executor, function)
    except RuntimeError as error:
        # Python's pools take no calls once the main thread has ended, while other threads continue.
        raise Unavailable(
            f"{what} was not begun: {error}; is the program ending?", outcome="not_written", reason="closed"
        ) from error
    late = f"{what} took more than {timeout} s: try again, or give it more time"
    try:
        async with deadline(timeout, lambda: Timeout(late)):
            return await asyncio.shield(future)
    except (Timeout, asyncio.CancelledError):
        future.add_done_callback(retrieve)
        raise
    except OSError as error:
        raise Unavailable(f"{what} failed: {error}", reason=reason_of(error)) from error


async def call_until_done(
    executor: Executor, timeout: float, what: str, begin: Callable[[Callable[[], None]], None]
) -> None:
    """As `call`, for a function that gets a `done` callback: return when it was called."""
    finished = Wanted()
    until = asyncio.get_running_loop().time() + timeout
    await call(executor, timeout, what, lambda: begin(finished.wake))
    late = f"{what} timed out after {timeout} s: it is still in progress, and may complete"
    async with deadline(until - asyncio.get_running_loop().time(), lambda: Timeout(late)):
        await finished.wait()


def retrieve(future: "asyncio.Future[T]") -> None:
    """Take the result of a call that its caller has given up, so that asyncio does not complain about it."""
    if not future.cancelled():
        future.exception()
