"""Who runs the engine's jobs."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

Job = Callable[[], None]

_LOGGER = logging.getLogger("cordwood")


class Workers(Protocol):
    """Runs jobs, some time, each on some thread. A job may block in the disk, and never waits for another job."""

    def spawn(self, job: Job) -> None: ...


class ThreadWorkers:
    """A few threads. They start when there is work, and end with `close` or with the interpreter."""

    def __init__(self, name: str, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    def spawn(self, job: Job) -> None:
        self._pool.submit(_run, job)

    def close(self) -> None:
        # The last job may be the one that closes: a thread cannot wait for itself.
        self._pool.shutdown(wait=False)


class Ticker:
    """Calls a job every few seconds on a thread of its own, until it is closed."""

    def __init__(self, name: str, seconds: float, job: Job) -> None:
        self._seconds = seconds
        self._job = job
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._tick, name=name, daemon=True)
        self._thread.start()

    def _tick(self) -> None:
        while not self._closed.wait(self._seconds):
            _run(self._job)

    def close(self) -> None:
        self._closed.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()


def _run(job: Job) -> None:
    try:
        job()
    except Exception:
        # A job reports its failures to whoever waits for it; what arrives here is a defect that nobody waits for.
        _LOGGER.exception("a background job of cordwood failed")
