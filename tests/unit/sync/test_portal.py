import asyncio
import gc
import signal
import subprocess
import sys
import threading
import warnings
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from cordwood.errors import CordwoodError, Unavailable
from cordwood.sync.portal import Portal, portal


async def thread() -> int:
    return threading.get_ident()


def run(script: str) -> str:
    """What a fresh interpreter prints."""
    # Python 3.12 and newer warn of every fork of a process with threads.
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_a_process_has_one_loop_thread_however_many_threads_call() -> None:
    with ThreadPoolExecutor(8) as threads:
        idents = set(threads.map(lambda _: portal().call(thread), range(40)))
    assert len(idents) == 1
    assert threading.get_ident() not in idents


def test_a_call_gives_back_what_the_coroutine_returns_or_raises() -> None:
    async def double(number: int, *, fail: bool = False) -> int:
        if fail:
            raise ValueError(number)
        return 2 * number

    assert portal().call(double, 21) == 42
    with pytest.raises(ValueError, match="21"):
        portal().call(double, 21, fail=True)


def test_an_interrupt_in_the_caller_cancels_the_call() -> None:
    ended = threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    async def wait() -> None:
        # The interrupt comes when the call is surely under way.
        asyncio.get_running_loop().call_later(0.05, signal.pthread_kill, main, signal.SIGINT)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.set()
            raise

    with pytest.raises(KeyboardInterrupt):
        portal().call(wait)
    assert ended.wait(10)
    assert portal().call(thread)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_what_asyncio_lets_through_ends_its_call_and_no_other(kind: type[BaseException]) -> None:
    through = Portal()
    begun = threading.Event()
    go_on: Future[None] = Future()

    async def wait() -> int:
        begun.set()
        await asyncio.wrap_future(go_on)
        return threading.get_ident()

    async def leave() -> None:
        raise kind

    with ThreadPoolExecutor(2) as threads:
        waiting = threads.submit(through.call, wait)
        assert begun.wait(10)
        with pytest.raises(kind):
            threads.submit(through.call, leave).result(10)
        go_on.set_result(None)
        assert waiting.result(10) == through.call(thread)
    through.stop()


def test_a_call_from_the_portals_own_thread_is_refused() -> None:
    async def nested() -> int:
        return portal().call(thread)

    with pytest.raises(CordwoodError, match="would wait for itself") as caught:
        portal().call(nested)
    assert caught.value.outcome == "not_written"


def test_a_call_on_a_thread_that_runs_another_loop_is_fine() -> None:
    async def outer() -> int:
        return portal().call(thread)

    assert asyncio.run(outer()) == portal().call(thread)


def test_a_stopped_portal_breaks_calls_off_and_refuses_new_ones() -> None:
    stopped = Portal()
    begun = threading.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.sleep(60)

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(stopped.call, wait)
        assert begun.wait(10)
        stopped.stop()
        with pytest.raises(Unavailable) as caught:
            waiting.result(10)
    assert caught.value.outcome == "unknown"
    with pytest.raises(Unavailable) as caught:
        stopped.call(thread)
    assert caught.value.outcome == "not_written"
    stopped.call_later(wait)
    stopped.stop()


def test_importing_it_starts_no_thread() -> None:
    assert run("import threading, cordwood.sync; print(threading.active_count())").split() == ["1"]


@pytest.mark.processes
def test_a_program_ends_cleanly_though_no_thread_can_be_started_any_more() -> None:
    # As it is from Python 3.12 on; `atexit` calls the last registered function first.
    script = """
import asyncio, atexit, threading
from cordwood.sync.portal import portal

def refuse(thread):
    raise RuntimeError("can't create new thread at interpreter shutdown")

async def use_the_executor():
    return await asyncio.to_thread(int, "1")

print(portal().call(use_the_executor))
atexit.register(lambda: setattr(threading.Thread, "start", refuse))
"""
    assert run(script) == "1\n"


@pytest.mark.processes
def test_a_program_ends_cleanly_with_a_call_under_way() -> None:
    # Its finally runs: the portal is stopped before the interpreter takes things apart.
    script = """
import asyncio, threading
from cordwood.sync.portal import portal

async def wait():
    begun.set()
    try:
        await asyncio.sleep(60)
    finally:
        print("cancelled")

begun = threading.Event()
def call():
    try:
        portal().call(wait)
    except Exception:
        pass
threading.Thread(target=call, daemon=True).start()
begun.wait()
print("end")
"""
    assert run(script).split() == ["end", "cancelled"]


@pytest.mark.processes
def test_after_a_fork_the_child_has_a_portal_of_its_own() -> None:
    script = """
import os, threading
from cordwood.errors import Unavailable
from cordwood.sync.portal import portal

async def thread():
    return threading.get_ident(), os.getpid()

old = portal()
before = old.call(thread)
child = os.fork()
if not child:
    try:
        old.call(thread)
    except Unavailable as error:
        assert "forked" in str(error), error
        assert error.outcome == "not_written"
        old.call_later(thread)
        assert portal() is not old
        assert portal().call(thread)[1] == os.getpid()
        os._exit(0)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert portal() is old
assert old.call(thread) == before
print("ok")
"""
    assert run(script).split() == ["ok"]


@pytest.mark.processes
def test_a_fork_while_a_thread_starts_the_portal_leaves_a_working_child() -> None:
    script = """
import os
from cordwood.sync import portal as module

async def one():
    return 1

with module._lock:
    child = os.fork()
    if not child:
        os._exit(0 if module.portal().call(one) == 1 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("ok")
"""
    assert run(script).split() == ["ok"]


def test_a_portal_for_which_no_thread_can_be_had_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Unavailable, match="can't start new thread") as raised:
            Portal()
        gc.collect()
    assert raised.value.outcome == "not_written"
