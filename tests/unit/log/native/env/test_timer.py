"""One thread for all jobs that are due again and again."""

import logging
import threading

import pytest

from cordwood.log.native.env.timer import Timer


class Counted:
    def __init__(self) -> None:
        self.runs = threading.Semaphore(0)

    def run(self) -> None:
        self.runs.release()

    def wait(self, runs: int) -> None:
        assert all(self.runs.acquire(timeout=5) for _ in range(runs))

    def is_quiet(self) -> bool:
        while self.runs.acquire(blocking=False):
            pass
        return not self.runs.acquire(timeout=0.05)


def test_each_job_runs_until_the_timer_is_closed() -> None:
    timer, first, second = Timer("test"), Counted(), Counted()
    timer.every(0.001, first.run)
    timer.every(0.002, second.run)
    first.wait(3)
    second.wait(3)
    timer.close()
    assert first.is_quiet()
    assert second.is_quiet()


def test_a_cancelled_job_runs_no_more_and_the_others_do() -> None:
    timer, first, second = Timer("test"), Counted(), Counted()
    timer.every(0.001, first.run)
    timer.every(0.001, second.run)
    first.wait(1)
    timer.cancel(first.run)
    assert first.is_quiet()
    second.wait(3)
    timer.close()


def test_a_cancel_waits_for_the_run_that_has_begun() -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def job() -> None:
        begun.set()
        assert may_end.wait(5)
        ended.set()

    timer = Timer("test")
    timer.every(0, job)
    assert begun.wait(5)
    cancelling = threading.Thread(target=timer.cancel, args=(job,))
    cancelling.start()
    assert not ended.is_set()
    may_end.set()
    cancelling.join(5)
    assert ended.is_set()
    timer.close()


def test_a_job_may_cancel_itself_and_close_its_timer() -> None:
    timer, ran = Timer("test"), threading.Event()

    def job() -> None:
        timer.cancel(job)
        timer.close()
        ran.set()

    timer.every(0.001, job)
    assert ran.wait(5)


def test_a_job_that_raises_is_logged_and_runs_again(caplog: pytest.LogCaptureFixture) -> None:
    timer, again = Timer("test"), Counted()

    def job() -> None:
        again.run()
        raise ValueError("a defect")

    with caplog.at_level(logging.ERROR):
        timer.every(0.001, job)
        again.wait(2)
        timer.close()
    assert "a background job of cordwood failed" in caplog.text


def test_a_timer_without_a_job_has_no_thread_and_closes() -> None:
    before = threading.active_count()
    timer = Timer("test")
    assert threading.active_count() == before
    timer.close()
