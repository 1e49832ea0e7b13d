"""Calls that block, on a few threads that keep no process from ending."""

import threading

import pytest

from cordwood import Unavailable
from cordwood.log.calls.threads import DaemonThreads


def no_more(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_calls_run_at_once_on_as_many_threads_as_are_allowed() -> None:
    threads, together = DaemonThreads(3, "test"), threading.Barrier(3)
    waiting = [threads.submit(together.wait, 10) for _ in range(6)]
    assert sorted(each.result(10) for each in waiting) == [0, 0, 1, 1, 2, 2]
    threads.shutdown()
    with pytest.raises(RuntimeError, match="no calls are taken after shutdown"):
        threads.submit(print)


def test_a_thread_that_cannot_be_had_is_told_and_the_call_is_not_run_later(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = DaemonThreads(2, "test")
    called: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_more)
        with pytest.raises(Unavailable, match="a call needs a thread, and none starts: can't start new thread"):
            threads.submit(called.append, 1)
    threads.submit(called.append, 2).result(10)
    assert called == [2]
    threads.shutdown()


def test_where_no_more_threads_can_be_had_those_that_there_are_do_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, go_on = DaemonThreads(2, "test"), threading.Event()
    first = threads.submit(go_on.wait, 10)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_more)
        second = threads.submit(int, "2")
    assert not second.done()
    go_on.set()
    assert (first.result(10), second.result(10)) == (True, 2)
    threads.shutdown()
