"""What a failed test tells beside its own words."""

import _thread
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cordwood.testing.servers import process
from tests.support.surroundings import Look, threads_of_ours


class Server:
    """What has a log that grows."""

    def __init__(self, log: Path) -> None:
        self.log = log


def test_a_failure_tells_how_the_machine_was_and_what_the_servers_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old, new = Server(tmp_path / "old.log"), Server(tmp_path / "new.log")
    old.log.write_text("before\n")
    monkeypatch.setattr(process, "_open", servers := [old])
    begun = Look()
    old.log.write_text("before\nI am fenced\n")
    new.log.write_text("I start\n")
    servers.append(new)
    machine, *said = Look().since(begun).splitlines()
    assert re.match(r"in \d+\.\d s, load [0-9.]+: stolen processors \d+\.\d s", machine)
    assert said == [f"{old.log}:", "I am fenced", f"{new.log}:", "I start"]


def test_every_failure_tells_it(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it():\n    assert False\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.support.surroundings",
        "-p",
        "no:cacheprovider",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert re.search(r"- Machine and servers meanwhile -+\nin \d+\.\d s, load ", done.stdout), done.stdout


def test_a_failure_tells_where_the_threads_of_the_engines_are() -> None:
    go_on = threading.Event()
    thread = threading.Thread(target=go_on.wait, name="cordwood-test-hangs")
    thread.start()
    try:
        assert re.search(r"^cordwood-test-hangs:\n(.*\n)* .*threading\.py", threads_of_ours(), re.MULTILINE)
    finally:
        go_on.set()
        thread.join()


def test_a_failure_tells_where_the_threads_of_a_library_are() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def bring_an_answer() -> None:
        threading.current_thread()  # as every lock and future does
        begun.set()
        go_on.wait()

    _thread.start_new_thread(bring_an_answer, ())
    begun.wait()
    try:
        assert re.search(r"^Dummy-\d+:\n(.*\n)* .*bring_an_answer", threads_of_ours(), re.MULTILINE)
    finally:
        go_on.set()
