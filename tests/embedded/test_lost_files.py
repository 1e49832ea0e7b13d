"""Somebody has removed files of a folder: that is said, and nothing more is lost by opening it."""

import errno
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

import cordwood
from cordwood import Batch, Corrupt, Unavailable

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


def test_a_folder_without_its_list_of_plogs_says_so(data: Path) -> None:
    shutil.rmtree(data / "plogs")
    with pytest.raises(Corrupt, match="the list of all others: restore the folder"):
        read(data)
    with pytest.raises(Unavailable):
        read(data, read_only=True)


def test_an_opening_that_fails_leaves_no_file_open(data: Path) -> None:
    shutil.rmtree(data / "plogs")
    with pytest.raises(Corrupt):
        read(data)
    open_files = [link.resolve() for link in Path("/proc/self/fd").iterdir()]
    assert [file for file in open_files if file.is_relative_to(data)] == []


def test_a_folder_that_vanishes_beneath_its_writer_is_no_matter_of_space(data: Path) -> None:
    with cordwood.sync.connect(data) as cw:
        shutil.rmtree(data)
        with pytest.raises(Unavailable, match=f"{os.strerror(errno.ENOENT)}; mend that") as caught:
            cw.log("events").append(Batch.of([b"3"]))
    assert caught.value.outcome == "not_written"


def test_a_folder_of_a_newer_format_is_refused_and_says_what_to_use(data: Path) -> None:
    database = sqlite3.connect(data / "coordinator.db")
    database.execute("PRAGMA user_version=99")
    database.close()
    with pytest.raises(Corrupt, match=r"has format 99.*or a newer one"):
        read(data)
    assert read(data, read_only=True) == VALUES
