"""Periodic jobs, on one thread.

Lock: `_changed` guards the table of jobs and is never held while a job runs.
"""

import threading
import time

from cordwood.locks import new_lock

from .workers import Job, run_job


class Timer:
    """Runs each of its jobs every so many seconds, one at a time, until it is closed.

    The seconds count from the end of a run, so a slow job delays the others, but runs never pile up.
    """

    def __init__(self, name: str) -> None:
        self._changed = threading.Condition(new_lock("env.timer"))
        self._due: dict[Job, tuple[float, float]] = {}  # seconds between runs, time of the next one
        self._running: Job | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def every(self, seconds: float, job: Job) -> None:
        """Run it from now on, the first time after `seconds`. The first job starts the thread."""
        with self._changed:
            if self._thread.ident is None:
                self._thread.start()
            self._due[job] = seconds, time.monotonic() + seconds
            self._changed.notify_all()

    def cancel(self, job: Job) -> None:
        """Run it no more. Blocks while it runs, unless the job itself calls."""
        with self._changed:
            self._due.pop(job, None)
            if threading.current_thread() is not self._thread:
                self._changed.wait_for(lambda: self._running != job)

    def close(self) -> None:
        """Run no job any more. Blocks while one runs, unless the job itself calls."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread.ident is not None and threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while (job := self._wait_for_next()) is not None:
            run_job(job)
            with self._changed:
                self._running = None
                if job in self._due:
                    seconds, _ = self._due[job]
                    self._due[job] = seconds, time.monotonic() + seconds
                self._changed.notify_all()

    def _wait_for_next(self) -> Job | None:
        with self._changed:
            while not self._closed:
                job, (_, due) = min(self._due.items(), key=lambda item: item[1][1], default=(None, (0.0, 0.0)))
                wait = None if job is None else due - time.monotonic()
                if wait is None or wait > 0:
                    self._changed.wait(wait)
                    continue
                self._running = job
                return job
        return None
