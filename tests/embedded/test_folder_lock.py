"""The lock of the writing process stays, whatever that process does with the folder's files."""

import os
import shutil
from pathlib import Path

import pytest

import cordwood
from cordwood import Batch, Unavailable
from tests.embedded.processes import program

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
def test_a_child_that_outlives_its_killed_parent_does_not_keep_the_folder_locked(tmp_path: Path) -> None:
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
