"""The threads that run the engine's jobs.

Lock: `ThreadWorkers._lock` guards the number of threads and is never held while a job runs.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Protocol

from cordwood.errors import Unavailable
from cordwood.locks import new_lock

Job = Callable[[], None]

Done = Callable[[], None]
"""Called once, on any thread, when the work that it was passed to is durable."""

_LOGGER = logging.getLogger("cordwood.folder")


def nothing() -> None:
    """The `Done` of a caller that does not wait."""


class Workers(Protocol):
    """Runs each job at some time, on some thread. A job may block on the disk, and never waits for another job."""

    def spawn(self, job: Job) -> None: ...

    def wait(self, happened: threading.Event) -> None:
        """Block until jobs have set the event. For callers that are not jobs themselves."""


class ThreadWorkers:
    """A few threads, which end with `close`, or with the interpreter.

    The first starts at once, so that jobs run even if no other thread can be started; the others start when there is
    work. Not a ThreadPoolExecutor: no caller needs a job's future, and making one takes as long as handing over the
    job.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._threads_max = threads
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = new_lock("env.workers")
        self._threads = 0
        self._idle = 0
        try:
            self._start()
        except RuntimeError as error:
            raise Unavailable(f"writing needs a thread, and none starts: {error}", reason="failed") from error

    def spawn(self, job: Job) -> None:
        self._jobs.put(job)
        if self._idle < self._jobs.qsize() and self._threads < self._threads_max:
            with suppress(RuntimeError):
                self._start()

    def wait(self, happened: threading.Event) -> None:
        happened.wait()

    def close(self) -> None:
        """End the threads after they have run all spawned jobs; does not wait for them."""
        with self._lock:
            self._threads_max = 0
            for _ in range(self._threads):
                self._jobs.put(None)

    def _start(self) -> None:
        with self._lock:
            if self._threads >= self._threads_max:
                return
            name = f"{self._name}-{self._threads + 1}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
            self._threads += 1

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            job = self._jobs.get()
            with self._lock:
                self._idle -= 1
            if job is None:
                return
            run_job(job)


def run_job(job: Job) -> None:
    """Run it; log any exception, and let the thread continue."""
    try:
        job()
    except Exception:
        # A job reports its failures to its waiters; an exception that arrives here is a defect.
        _LOGGER.exception("a background job of cordwood failed")
