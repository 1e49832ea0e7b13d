"""Histories in which one flipped bit, or one lost file, of what a folder knows about its logs went unnoticed."""

import shutil
import sqlite3
import struct
from pathlib import Path

import pytest

import cordwood
from cordwood import Batch, Corrupt, Trimmed

RESTORE = r"coordinator\.db.* restore the folder from a copy, or read it with read_only=True"
WAL_HEADER_BYTES = 32
WAL_FRAME_BYTES = 24 + 4096


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def values(log: cordwood.sync.Log, start: int = 0) -> list[bytes | None]:
    return [value for batch in log.read(start) for value in batch.values]


def numbers(first: int, end: int) -> list[bytes | None]:
    return [b"%d" % number for number in range(first, end)]


def flip(path: Path, position: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def frames(wal: bytes) -> list[int]:
    """Where the frames begin that SQLite would read back after a crash."""
    salt = wal[16:24]
    places = range(WAL_HEADER_BYTES, len(wal) - WAL_FRAME_BYTES, WAL_FRAME_BYTES)
    return [place for place in places if wal[place + 8 : place + 16] == salt]


def plogs(path: Path) -> list[str]:
    return sorted(file.name for file in (path / "plogs").iterdir())


def test_a_flip_in_the_log_of_changes_drops_no_topic(data: Path, tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    with cordwood.sync.connect(data) as cw:
        cw.create_topic("events")
        cw.log("events").append(Batch.of(numbers(0, 1000)))
        shutil.copytree(data, killed)  # as a kill leaves it
    wal, there = (killed / "coordinator.db-wal").read_bytes(), plogs(killed)
    assert len(frames(wal)) > 5
    for frame in frames(wal):
        flip(killed / "coordinator.db-wal", frame + 24 + 4000)
        with pytest.raises(Corrupt, match=RESTORE):
            cordwood.sync.connect(killed)
        with cordwood.sync.connect(killed, read_only=True) as cw:
            assert values(cw.log("events")) == numbers(0, 1000)
        assert plogs(killed) == there
        (killed / "coordinator.db-wal").write_bytes(wal)
    with cordwood.sync.connect(killed) as cw:
        assert values(cw.log("events")) == numbers(0, 1000)


def test_a_flip_in_the_log_of_changes_undoes_no_trim(data: Path, tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    with cordwood.sync.connect(data) as cw:
        cw.create_topic("events")
        cw.log("events").append(Batch.of(numbers(0, 9)))
    with cordwood.sync.connect(data) as cw:
        cw.log("events").trim(4)
        shutil.copytree(data, killed)
    last = frames((killed / "coordinator.db-wal").read_bytes())[-1]
    flip(killed / "coordinator.db-wal", last + 24 + 4095)
    with pytest.raises(Corrupt, match=RESTORE):
        cordwood.sync.connect(killed)
    with cordwood.sync.connect(killed, read_only=True) as cw:
        assert values(cw.log("events"), 4) == numbers(4, 9)
        with pytest.raises(Trimmed):
            values(cw.log("events"))


def test_a_flip_in_the_database_moves_no_start(data: Path) -> None:
    with cordwood.sync.connect(data) as cw:
        cw.create_topic("events")
        cw.log("events").append(Batch.of(numbers(0, 9)))
        cw.log("events").trim(4)
    database, there = (data / "coordinator.db").read_bytes(), plogs(data)
    place = database.index(topic_id(data, "events") + b"\x04\x09") + 4
    flip(data / "coordinator.db", place, 3)  # 4 becomes 12
    with pytest.raises(Corrupt, match=RESTORE):
        cordwood.sync.connect(data)
    assert plogs(data) == there
    flip(data / "coordinator.db", place, 3)
    with cordwood.sync.connect(data) as cw:
        assert cw.log("events").bounds() == (4, 9)


def topic_id(data: Path, name: str) -> bytes:
    catalog = (data / "published" / "catalog").read_text()
    (id,) = [part.partition(",")[0] for part in catalog.split('"id": ')[1:] if f'"name": "{name}"' in part]
    return struct.pack(">I", int(id))


@pytest.fixture
def trimmed(data: Path) -> Path:
    with cordwood.sync.connect(data) as cw:
        cw.create_topic("events")
        cw.log("events").append(Batch.of(numbers(0, 9)))
        cw.log("events").trim(4)
    return data


def assert_opening_mends_it(data: Path) -> None:
    with cordwood.sync.connect(data) as cw:
        assert values(cw.log("events"), 4) == numbers(4, 9)
    with cordwood.sync.connect(data, read_only=True) as cw:
        assert cw.log("events").bounds() == (4, 9)
        with pytest.raises(Trimmed):
            values(cw.log("events"))


def test_without_published_ends_a_log_shows_nothing_trimmed(trimmed: Path) -> None:
    (trimmed / "published" / "ends").unlink()
    with (
        cordwood.sync.connect(trimmed, read_only=True) as cw,
        pytest.raises(Corrupt, match=r"published/ends is gone: open the folder for writing once"),
    ):
        values(cw.log("events"))
    assert_opening_mends_it(trimmed)


def test_without_a_copy_of_its_start_a_log_shows_nothing_trimmed(trimmed: Path) -> None:
    for copy in (192, 224):  # of slot 1
        flip(trimmed / "published" / "ends", copy + 16)
    with (
        cordwood.sync.connect(trimmed, read_only=True) as cw,
        pytest.raises(Corrupt, match=r"published/ends is damaged at byte 192: .* open the folder for writing once"),
    ):
        values(cw.log("events"))
    assert_opening_mends_it(trimmed)


def test_both_places_of_a_start_that_was_never_written_are_mended(data: Path) -> None:
    with cordwood.sync.connect(data) as cw:
        cw.create_topic("events", partitions=2)
        cw.log("events", 1).append(Batch.of(numbers(0, 3)))
    with (data / "published" / "ends").open("r+b") as file:
        for copy in (320, 352):  # of slot 2
            file.seek(copy)
            file.write(b"\x01".ljust(32, b"\0"))
    with (
        cordwood.sync.connect(data, read_only=True) as cw,
        pytest.raises(Corrupt, match=r"published/ends is damaged at byte 320: "),
    ):
        cw.log("events", 1).bounds()
    cordwood.sync.connect(data).close()
    with cordwood.sync.connect(data, read_only=True) as cw:
        assert values(cw.log("events", 1)) == numbers(0, 3)


def test_a_reader_is_told_that_the_list_of_plogs_is_gone(data: Path) -> None:
    with cordwood.sync.connect(data) as cw:
        cw.create_topic("events")
        cw.log("events").append(Batch.of([b"0"]))
    catalog = (data / "published" / "catalog").read_text()
    metadata = catalog.split('"metadata_plog": "local/0/')[1][:16]
    (data / "plogs" / f"{metadata}.plog").unlink()
    with (
        cordwood.sync.connect(data, read_only=True) as cw,
        pytest.raises(Corrupt, match=rf"plog local/0/{metadata} is gone, .* restore the folder"),
    ):
        values(cw.log("events"))


def test_topics_without_records_do_not_vanish_with_the_catalog(data: Path) -> None:
    with cordwood.sync.connect(data) as cw:
        cw.create_topic("events")
    (data / "published" / "catalog").unlink()
    with (
        cordwood.sync.connect(data, read_only=True) as cw,
        pytest.raises(Corrupt, match=r"published/catalog is gone: open the folder for writing once"),
    ):
        cw.topics()
    with cordwood.sync.connect(data) as cw:
        assert cw.topics() == ["events"]


def test_a_folder_of_format_2_is_brought_forward_unless_it_had_a_witness(trimmed: Path) -> None:
    with sqlite3.connect(trimmed / "coordinator.db") as db:
        db.executescript("DROP TABLE stamp; PRAGMA user_version=2")
    db.close()
    with pytest.raises(Corrupt, match=RESTORE):
        cordwood.sync.connect(trimmed)
    (trimmed / "published" / "witness").unlink()
    assert_opening_mends_it(trimmed)
    assert (trimmed / "published" / "witness").exists()


def test_topics_without_records_do_not_vanish_with_the_database(data: Path) -> None:
    with cordwood.sync.connect(data) as cw:
        cw.create_topic("events")
    (data / "coordinator.db").unlink()
    for _ in range(2):
        with pytest.raises(Corrupt, match=r"coordinator\.db is gone: restore the folder"):
            cordwood.sync.connect(data)
    with cordwood.sync.connect(data, read_only=True) as cw:
        assert cw.topics() == ["events"]
