"""The order of locks, and its debug mode."""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cordwood.locks import IO, ORDER, CheckedLock, LockOrderBroken, check_disk_use, new_lock

SOURCES = Path(__file__).parents[2] / "src" / "cordwood"


@pytest.fixture(autouse=True)
def forget_broken(lock_order: None) -> Iterator[None]:
    """These tests break the order on purpose."""
    yield
    CheckedLock.broken.clear()


def test_locks_are_taken_in_their_order() -> None:
    with CheckedLock("process.folder"), CheckedLock("writer.topics"), CheckedLock("stream.queue"):
        pass
    assert CheckedLock.broken == []


@pytest.mark.parametrize(("outer", "inner"), [("stream.queue", "writer.topics"), ("stream.gate", "stream.gate")])
def test_a_lock_that_comes_earlier_or_twice_breaks_the_order(outer: str, inner: str) -> None:
    with CheckedLock(outer), pytest.raises(LockOrderBroken, match=f"{inner} is taken while {outer} is held"):
        CheckedLock(inner).acquire()
    assert len(CheckedLock.broken) == 1


def test_a_lock_that_was_released_no_longer_counts() -> None:
    first, second = CheckedLock("process.folder"), CheckedLock("stream.queue")
    first.acquire()
    second.acquire()
    first.release()
    second.release()
    with first:
        pass


def test_each_thread_has_an_order_of_its_own() -> None:
    errors: list[BaseException] = []

    def take() -> None:
        try:
            with CheckedLock("process.folder"):
                pass
        except LockOrderBroken as error:
            errors.append(error)

    with CheckedLock("stream.queue"):
        thread = threading.Thread(target=take)
        thread.start()
        thread.join()
    assert errors == []


def test_the_disk_is_not_used_under_a_lock_that_forbids_it() -> None:
    with CheckedLock("stream.gate"):
        check_disk_use("RealFile.sync")
    with (
        CheckedLock("stream.queue"),
        pytest.raises(LockOrderBroken, match=r"sync is called while stream\.queue is held"),
    ):
        check_disk_use("RealFile.sync")


def test_a_condition_works_with_a_checked_lock() -> None:
    condition = threading.Condition(CheckedLock("env.timer"))  # type: ignore[arg-type]  # it is used as a lock
    with condition:
        assert condition.wait_for(lambda: True)
        assert not condition.wait(0)


def test_tests_run_with_checked_locks_and_users_with_plain_ones() -> None:
    assert isinstance(new_lock("env.timer"), CheckedLock)
    program = "import cordwood.locks; print(type(cordwood.locks.new_lock('env.timer')).__name__)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={}, check=True)
    assert run.stdout == "lock\n"


def test_every_lock_of_the_source_has_a_place_in_the_order() -> None:
    found: set[str] = set()
    for path in SOURCES.rglob("*.py"):
        if path.parts[-2] in ("testing", "simulation", "servers") or path.name == "locks.py":
            continue
        text = path.read_text()
        assert "threading.Lock()" not in text, f"{path.name}: a lock without a name"
        if named := re.findall(r"new_lock\(\s*(.*?)\)", text, re.S):
            found.update(name for call in named for name in re.findall(r'"([\w.]+)"', call))
            assert re.search(r"\bLocks?:", text), f"{path.name}: its docstring says nothing of its locks"
    assert found == set(ORDER)


def test_the_page_has_every_lock_in_its_order() -> None:
    page = (SOURCES.parents[1] / "docs" / "internals" / "threads.md").read_text()
    table = page.partition("## Locks")[2].partition("\n## ")[0]
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table.splitlines() if "| `" in line]
    assert [(row[0], row[2] == "yes") for row in rows] == [(name, io is IO) for name, io in ORDER.items()]
