"""The threads that run the engine's jobs."""

import threading
import time

import pytest

from cordwood.errors import Unavailable
from cordwood.log.native.env.workers import ThreadWorkers


def test_jobs_run_side_by_side_up_to_the_limit() -> None:
    workers = ThreadWorkers("test", 3)
    together = threading.Barrier(3)
    done = threading.Semaphore(0)

    def job() -> None:
        together.wait(5)
        done.release()

    for _ in range(6):
        workers.spawn(job)
    assert all(done.acquire(timeout=5) for _ in range(6))
    workers.close()


def test_a_job_that_fails_is_logged_and_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    workers = ThreadWorkers("test", 1)
    done = threading.Event()
    workers.spawn(lambda: 1 / 0)  # type: ignore[arg-type]  # its result is nobody's
    workers.spawn(done.set)
    assert done.wait(5)
    assert "ZeroDivisionError" in caplog.text
    workers.close()


def test_what_was_spawned_before_a_close_is_done_and_the_threads_end() -> None:
    workers = ThreadWorkers("ending", 2)
    done = []
    for number in range(50):
        workers.spawn(lambda number=number: done.append(number))  # type: ignore[misc]
    workers.close()
    deadline = time.monotonic() + 5
    while len(done) < 50 or any(thread.name.startswith("ending-") for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    assert sorted(done) == list(range(50))


def test_where_no_thread_can_be_had_jobs_are_done_by_those_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = ThreadWorkers("few", 3)
    done = threading.Semaphore(0)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for _ in range(6):
            workers.spawn(done.release)
        assert all(done.acquire(timeout=5) for _ in range(6))
    # And they are started once that is possible.
    together = threading.Barrier(4)

    def meet() -> None:
        together.wait(5)

    for _ in range(3):
        workers.spawn(meet)
    together.wait(5)
    workers.close()


def test_workers_that_get_no_thread_at_all_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(Unavailable, match="none starts: can't start new thread"):
        ThreadWorkers("none", 3)
