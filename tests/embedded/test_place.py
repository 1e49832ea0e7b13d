"""Where a folder of logs may be, and what an ack promises there."""

import logging
import os
from pathlib import Path

import pytest

import cordwood
from cordwood import Batch, InvalidInput
from cordwood.log.native.folder import place


@pytest.mark.parametrize("read_only", [False, True])
def test_a_folder_of_another_program_is_refused(tmp_path: Path, read_only: bool) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    (tmp_path / "figures").mkdir()
    said = rf"^{tmp_path} is not a folder of logs: it holds 'figures' and 1 more, and no coordinator\.db: name an empty"
    with pytest.raises(InvalidInput, match=said):
        cordwood.sync.connect(tmp_path, read_only=read_only)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figures", "thesis.tex"]


@pytest.mark.parametrize(
    "names",
    [["published-papers.html"], ["store.db.bak", "app.py"], ["plogs.txt"], ["coordinator.database"], ["staged2"]],
)
def test_names_that_only_begin_as_ours_are_foreign(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).write_text("of another program")
    with pytest.raises(InvalidInput, match="is not a folder of logs"):
        cordwood.sync.connect(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def test_hidden_files_and_an_empty_mount_may_be_there(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").touch()
    (tmp_path / "lost+found").mkdir()
    with cordwood.sync.connect(tmp_path) as cw:
        cw.create_topic("events")
    (tmp_path / "notes.txt").touch()
    with cordwood.sync.connect(tmp_path) as cw:
        assert cw.topics() == ["events"], "a folder that holds logs may hold other files later"


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the system says is on a tmpfs."""
    device = tmp_path.stat().st_dev
    mounts = tmp_path / "mountinfo"
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts.write_text(f"1 1 9:99 / / rw - ext4 /dev/sda rw\n2 1 {number} / /mnt rw - tmpfs none rw\n")
    monkeypatch.setattr(place, "_MOUNTS", mounts)
    return tmp_path / "data"


def test_a_topic_in_memory_says_so_and_connect_warns_once(memory: Path, caplog: pytest.LogCaptureFixture) -> None:
    said = ""
    for _ in range(2):
        with cordwood.sync.connect(memory) as cw:
            said = cw.create_topic("events", exist_ok=True).durability
            cw.log("events").append(Batch.of([b"value"]))
            assert cw.topic("events").durability == said
    assert said == "memory only: tmpfs has no disk, so an ack survives a crash of the process, not of the machine"
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == [f"{memory}: {said}"]


def test_a_folder_on_a_disk_is_synced_and_warns_of_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    if place.file_system_of(tmp_path) in place._WITHOUT_DISK:
        pytest.fail("run the tests in a folder on a disk: set TMPDIR")
    with cordwood.sync.connect(tmp_path) as cw:
        cw.create_topic("events")
        assert cw.topic("events").durability == "synced: an ack means fdatasync on 1 of 1 replicas"
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_real_tmpfs_is_recognized() -> None:
    shared = Path("/dev/shm")
    if not shared.is_dir():
        pytest.fail("/dev/shm is missing: it is a tmpfs on every Linux")
    assert place.file_system_of(shared) == "tmpfs"
    assert place.durability_of(shared).startswith("memory only: tmpfs")


def test_a_system_that_does_not_tell_is_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "_MOUNTS", tmp_path / "missing")
    assert place.file_system_of(tmp_path) is None
    assert place.durability_of(tmp_path) == place.DURABILITY
