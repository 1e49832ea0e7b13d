"""The lock of the writing process stays, whatever that process does with the folder's files."""

import asyncio
import os
import shutil
import threading
import time
from pathlib import Path

import pytest

import cordwood
from cordwood import Batch, InvalidInput, Unavailable
from cordwood.log.native.folder.lock import is_written
from cordwood.log.native.folder.publisher import Publisher
from tests.support.folder.scripts import program

OPEN = """
try:
    cordwood.sync.connect(url).close()
    say("opened")
except cordwood.Unavailable as error:
    say(error)
"""


def tried_by_another_process(data: Path) -> str:
    with program(OPEN, data) as other:
        answer = other.says()
        other.ends()
    return answer


@pytest.mark.processes
def test_a_folder_that_its_writer_copies_stays_locked(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with cordwood.sync.connect(data) as cw:
        cw.create_topic("events")
        cw.log("events").append(Batch.of([b"0"]))
        assert f"is being written by process {os.getpid()}" in tried_by_another_process(data)
        shutil.copytree(data, tmp_path / "copy")  # opens and closes every file, the lock's too
        assert "is being written by another process" in tried_by_another_process(data)
        assert cw.log("events").append(Batch.of([b"1"])) == range(1, 2)
    assert tried_by_another_process(data) == "opened"


def test_a_folder_that_was_renamed_is_not_written_twice_by_one_process(tmp_path: Path) -> None:
    data, moved = tmp_path / "data", tmp_path / "moved"
    with cordwood.sync.connect(data) as cw:
        cw.create_topic("events")
        log = cw.log("events")
        log.append(Batch.of([b"0"]))
        data.rename(moved)
        with pytest.raises(Unavailable, match="by this one under another name"):
            cordwood.sync.connect(moved)
        assert log.append(Batch.of([b"1"])) == range(1, 2)
        moved.rename(data)
    with cordwood.sync.connect(data) as cw:
        assert [value for batch in cw.log("events").read() for value in batch.values] == [b"0", b"1"]


@pytest.mark.processes
def test_a_child_of_a_killed_parent_does_not_keep_the_folder_locked(tmp_path: Path) -> None:
    script = """
cw = cordwood.sync.connect(url)
until, held = os.pipe()
pid = os.fork()
if not pid:
    os.close(held)
    os.read(until, 1)  # its copy is closed when the parent is gone
    os.read(0, 1)
    os._exit(0)
say(pid)
told()
"""
    with program(script, tmp_path / "data") as forked:
        forked.says()
        forked.kill()
        assert tried_by_another_process(tmp_path / "data") == "opened"


def test_a_writer_does_not_speak_before_it_has_published_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    seen: list[bool] = []
    put_catalog = Publisher.put_catalog

    def looked_at(publisher: Publisher) -> bool:
        seen.append(is_written(data / "lock"))
        return put_catalog(publisher)

    monkeypatch.setattr(Publisher, "put_catalog", looked_at)
    with cordwood.sync.connect(data):
        assert (seen, is_written(data / "lock")) == ([False], True)
    assert not is_written(data / "lock")


def test_a_look_at_a_lock_on_a_slow_disk_holds_up_no_fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answers, open_it = threading.Event(), threading.Event(), os.open

    def late(path: Path, flags: int, mode: int = 0o777) -> int:
        if path == tmp_path / "lock":
            asked.set()
            answers.wait(60)
        return open_it(path, flags, mode)

    monkeypatch.setattr(os, "open", late)
    looking = threading.Thread(target=is_written, args=(tmp_path / "lock",))
    looking.start()
    try:
        assert asked.wait(30)
        if not (pid := os.fork()):
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        assert not answers.is_set()
    finally:
        answers.set()
        looking.join(30)


HOLDER = """
cw = cordwood.sync.connect(url)
say("holds")
told()
cw.close()
say("closed")
"""


@pytest.mark.processes
async def test_a_busy_folder_is_waited_for_and_the_loop_runs_meanwhile(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with program(HOLDER, data) as holder:
        assert holder.says() == "holds"
        waiting = asyncio.ensure_future(cordwood.connect(data, wait=60).__aenter__())
        turns = 0
        while turns < 30:
            await asyncio.sleep(0.01)
            turns += 1
        assert not waiting.done()
        holder.tell()
        cw = await waiting
        assert holder.says() == "closed"
    await cw.create_topic("events")
    await cw.close()


@pytest.mark.processes
def test_a_folder_that_stays_busy_is_unavailable_when_the_wait_is_over(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with program(HOLDER, data) as holder:
        assert holder.says() == "holds"
        began = time.monotonic()
        with pytest.raises(Unavailable, match="being written") as caught:
            cordwood.sync.connect(data, wait=0.5)
        assert time.monotonic() - began >= 0.5
        assert (caught.value.reason, caught.value.pid) == ("busy", holder.pid)
        with cordwood.sync.connect(data, wait=60, read_only=True) as beside:
            assert beside.topics() == []


@pytest.mark.parametrize(("wait", "kind"), [(-1, InvalidInput), (float("nan"), InvalidInput), ("1", TypeError)])
def test_a_wait_is_a_number_of_seconds(tmp_path: Path, wait: float, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"^wait is "):
        cordwood.connect(tmp_path / "data", wait=wait)
    assert not (tmp_path / "data").exists()


def test_a_failure_other_than_a_busy_folder_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="is a file"):
        cordwood.sync.connect(tmp_path / "file", wait=600)
