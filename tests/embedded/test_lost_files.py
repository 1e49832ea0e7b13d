"""Somebody has removed files of a folder: an open raises, and loses nothing more."""

import errno
import os
import shutil
import sqlite3
import threading
from pathlib import Path

import pytest

import cordwood
from cordwood import Batch, Corrupt, Unavailable
from cordwood.log.partitioning import partition_of
from tests.support.folder.scripts import program

VALUES = [b"0", b"1", b"2"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    with cordwood.sync.connect(path) as cw:
        cw.create_topic("events")
        cw.log("events").append(Batch.of(VALUES))
    return path


def read(data: Path, *, read_only: bool = False) -> list[bytes | None]:
    with cordwood.sync.connect(data, read_only=read_only) as cw:
        return [value for batch in cw.log("events").read() for value in batch.values]


def test_a_folder_without_its_coordinator_is_not_taken_for_a_new_one(data: Path) -> None:
    plogs = sorted((data / "plogs").iterdir())
    kept = (data / "coordinator.db").rename(data.parent / "coordinator.db")
    for _ in range(2):
        with pytest.raises(Corrupt, match=r"2 plogs, but its coordinator\.db is gone: restore"):
            read(data)
    assert sorted((data / "plogs").iterdir()) == plogs
    assert read(data, read_only=True) == VALUES
    kept.rename(data / "coordinator.db")
    assert read(data) == VALUES


def test_a_folder_whose_coordinator_was_emptied_is_not_taken_for_a_new_one(data: Path) -> None:
    plogs = sorted((data / "plogs").iterdir())
    whole = (data / "coordinator.db").read_bytes()
    (data / "coordinator.db").write_bytes(b"")
    for _ in range(2):
        with pytest.raises(Corrupt, match=r"coordinator\.db has lost changes: it has 0 changes .* restore the folder"):
            read(data)
    assert sorted((data / "plogs").iterdir()) == plogs
    assert read(data, read_only=True) == VALUES
    for file in data.glob("coordinator.db*"):
        file.unlink()
    (data / "coordinator.db").write_bytes(whole)
    assert read(data) == VALUES


@pytest.mark.processes
def test_a_folder_whose_coordinator_lost_commits_is_not_swept(tmp_path: Path) -> None:
    script = """
cw = cordwood.sync.connect(url)
cw.create_topic("events")
cw.log("events").append(Batch.of([b"0", b"1", b"2"]))
say("written")
told()
"""
    data = tmp_path / "data"
    with program(script, data) as writer:
        assert writer.says() == "written"
        writer.kill()
    (data / "coordinator.db-wal").unlink()
    plogs = sorted((data / "plogs").iterdir())
    with pytest.raises(Corrupt, match=r"coordinator\.db has lost changes: .* restore the folder"):
        read(data)
    assert sorted((data / "plogs").iterdir()) == plogs
    assert read(data, read_only=True) == VALUES


def test_a_folder_without_its_list_of_plogs_says_so(data: Path) -> None:
    shutil.rmtree(data / "plogs")
    with pytest.raises(Corrupt, match="the list of all others: restore the folder"):
        read(data)
    with pytest.raises(Corrupt, match=r"plog local/0/[0-9a-f]{16} is gone, .* restore the folder"):
        read(data, read_only=True)


def test_a_folder_without_what_is_published_is_not_taken_for_an_empty_one(data: Path) -> None:
    shutil.rmtree(data / "published")
    with cordwood.sync.connect(data, read_only=True) as cw:
        for look in (cw.topics, cw.log("events").bounds):
            with pytest.raises(Corrupt, match=r"published/catalog is gone: open the folder for writing once"):
                look()
    assert read(data) == VALUES
    assert read(data, read_only=True) == VALUES


def test_an_opening_that_fails_leaves_no_file_open(data: Path) -> None:
    shutil.rmtree(data / "plogs")
    with pytest.raises(Corrupt):
        read(data)
    open_files = [link.resolve() for link in Path("/proc/self/fd").iterdir()]
    assert [file for file in open_files if file.is_relative_to(data)] == []


def test_an_opening_that_fails_leaves_no_thread(data: Path) -> None:
    shutil.rmtree(data / "plogs")
    before = set(threading.enumerate())
    with pytest.raises(Corrupt):
        read(data)
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
    assert set(threading.enumerate()) <= before


def test_a_folder_that_vanishes_beneath_its_writer_is_no_matter_of_space(data: Path) -> None:
    with cordwood.sync.connect(data) as cw:
        shutil.rmtree(data)
        with pytest.raises(Unavailable, match=f"{os.strerror(errno.ENOENT)}; mend that") as caught:
            cw.log("events").append(Batch.of([b"3"]))
    assert caught.value.outcome == "not_written"


def test_an_append_to_several_partitions_tells_which_were_written(data: Path) -> None:
    with cordwood.sync.connect(data) as cw:
        cw.create_topic("parts", partitions=2)
        open_one, other = b"abc", b"21"
        written = partition_of(open_one, 2)
        assert partition_of(other, 2) != written
        cw.append("parts", Batch.of([b"0"], keys=[open_one]))
        shutil.rmtree(data / "plogs")  # one partition has its plog open, the other cannot make one
        with pytest.raises(Unavailable, match="mend that") as caught:
            cw.append("parts", Batch.of([b"1", b"2"], keys=[open_one, other]))
    assert caught.value.written == {written: range(1, 2)}
    assert caught.value.unknown == {}
    assert caught.value.outcome == "unknown"  # repeating the whole batch would write a part of it twice


def test_a_folder_of_a_newer_format_is_refused_and_says_what_to_use(data: Path) -> None:
    database = sqlite3.connect(data / "coordinator.db")
    database.execute("PRAGMA user_version=99")
    database.close()
    with pytest.raises(Corrupt, match=r"has format 99.*or a newer one"):
        read(data)
    assert read(data, read_only=True) == VALUES
