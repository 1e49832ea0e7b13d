"""The part that is SQLite's own: durability settings, formats, files that are none, and threads."""

import shutil
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cordwood.errors import Conflict, Corrupt, Unavailable
from cordwood.log.native.coordinator import SqliteCoordinator, Stamp
from cordwood.log.native.coordinator.sqlite import WAL_BYTES
from cordwood.log.topics import TopicConfig


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "coordinator.db"


@pytest.fixture
def coordinator(path: Path) -> Iterator[SqliteCoordinator]:
    coordinator = SqliteCoordinator(path)
    yield coordinator
    coordinator.close()


def test_every_commit_is_synced(coordinator: SqliteCoordinator) -> None:
    # Of the connection itself: another one would have its own.
    assert coordinator._db.execute("PRAGMA synchronous").fetchone() == (2,)
    assert coordinator._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_an_unknown_format_is_corrupt_and_named_and_stays_as_it_is(path: Path) -> None:
    SqliteCoordinator(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version=7")
    db.close()
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(Corrupt, match=r"coordinator\.db has format 7; this version of cordwood reads format 3"):
            SqliteCoordinator(path)
    assert path.read_bytes() == before


FORMAT_1 = """
CREATE TABLE topic (
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, partitions INTEGER NOT NULL,
  replication INTEGER NOT NULL, retention_ms INTEGER, retention_bytes INTEGER);
CREATE TABLE log (
  topic_id INTEGER NOT NULL, partition INTEGER NOT NULL, start INTEGER NOT NULL, next_offset INTEGER NOT NULL,
  PRIMARY KEY (topic_id, partition)) WITHOUT ROWID;
CREATE TABLE owner (one INTEGER PRIMARY KEY CHECK (one = 1), epoch INTEGER NOT NULL, metadata_plog TEXT);
INSERT INTO owner VALUES (1, 3, 'local/0/00000000000000ff');
INSERT INTO topic VALUES (4, 'events', 2, 1, NULL, NULL);
INSERT INTO log VALUES (4, 1, 5, 8);
PRAGMA user_version=1;
"""


def test_format_1_is_brought_forward_with_all_that_it_holds(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.executescript(FORMAT_1)
    db.close()
    for _ in range(2):
        coordinator = SqliteCoordinator(path)
        assert [row.name for row in coordinator.topics()] == ["events"]
        assert [(row.start, row.next_offset) for row in coordinator.logs()] == [(5, 8)]
        assert coordinator.metadata_plog() == "local/0/00000000000000ff"
        assert (coordinator.plan(), coordinator.sink_batch("a")) == (None, None)
        assert coordinator._db.execute("PRAGMA user_version").fetchone() == (3,)
        coordinator.close()


@pytest.fixture
def used(path: Path) -> Path:
    """A database with a row in every table, closed."""
    coordinator = SqliteCoordinator(path)
    epoch = coordinator.take_over()
    row = coordinator.create_topic("events", TopicConfig(partitions=2))
    coordinator.trim(row.id, 1, 5, 8)
    coordinator.set_metadata_plog(epoch, None, "local/0/00000000000000ff")
    coordinator.finish("sink", 7)
    coordinator.decide("a plan")
    coordinator.close()
    return path


def change(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as db:
        db.execute(statement)
    db.close()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM topic",
        "DELETE FROM log",
        "DELETE FROM sink",
        "DELETE FROM plan",
        "UPDATE topic SET partitions = 3",
        "UPDATE topic SET retention_ms = 1",
        "UPDATE log SET start = 4",
        "UPDATE log SET start = 9",
        "UPDATE sink SET batch = 6",
        "UPDATE owner SET epoch = 0",
        "UPDATE owner SET metadata_plog = NULL",
        "UPDATE sqlite_sequence SET seq = seq + 1",
        "UPDATE stamp SET changes = changes + 1",
        "UPDATE stamp SET digest = digest + 1",
        "DELETE FROM stamp",
        "DROP TABLE sink",
        "UPDATE topic SET name = CAST('events' AS BLOB)",
        "UPDATE topic SET name = CAST(X'ff' AS TEXT)",
        "ALTER TABLE log RENAME COLUMN start TO stars",
        "PRAGMA user_version=1",
        "PRAGMA user_version=2",
    ],
)
def test_rows_that_nobody_committed_are_corrupt_and_stay_as_they_are(used: Path, statement: str) -> None:
    change(used, statement)
    before = used.read_bytes()
    for _ in range(2):
        with pytest.raises(Corrupt, match=r"coordinator\.db: .*; restore the folder from a copy"):
            SqliteCoordinator(used)
    assert used.read_bytes() == before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE topic SET partitions = 0",
        "UPDATE topic SET replication = 0",
        "UPDATE topic SET name = 'a/b'",
        "UPDATE topic SET id = id + 100",
        "UPDATE log SET start = 9",
        "UPDATE log SET start = -1",
        "UPDATE log SET partition = 2",
        "UPDATE log SET next_offset = 'x'",
    ],
)
def test_rows_that_cannot_be_are_corrupt_also_in_an_older_format(used: Path, statement: str) -> None:
    change(used, "DROP TABLE stamp")
    change(used, "PRAGMA user_version=2")
    change(used, statement)
    with pytest.raises(Corrupt, match=r"coordinator\.db: .*; restore the folder from a copy"):
        SqliteCoordinator(used)


def test_format_2_is_brought_forward_with_all_that_it_holds(used: Path) -> None:
    change(used, "DROP TABLE stamp")
    change(used, "PRAGMA user_version=2")
    found: list[Stamp] = []
    for _ in range(2):
        coordinator = SqliteCoordinator(used, found.append)
        assert (coordinator.plan(), coordinator.sink_batch("sink")) == ("a plan", 7)
        assert [(row.start, row.next_offset) for row in coordinator.logs()] == [(5, 8)]
        coordinator.close()
    assert found[0] == Stamp(0, 0, 0)
    assert (found[1].changes, found[1].rows) == (1, 4)


def test_a_plan_may_be_replaced_by_hand(used: Path) -> None:
    change(used, "UPDATE plan SET plan = 'given up'")
    coordinator = SqliteCoordinator(used)
    assert coordinator.plan() == "given up"
    coordinator.close()


def test_an_opening_that_is_refused_leaves_the_log_of_changes(path: Path, tmp_path: Path) -> None:
    coordinator = SqliteCoordinator(path)
    coordinator.create_topic("a", TopicConfig())
    copies = [tmp_path / f"copy{name}" for name in ("", "-wal")]
    for copy in copies:
        shutil.copy(path.with_name(copy.name.replace("copy", path.name)), copy)
    coordinator.close()
    before = [copy.read_bytes() for copy in copies]
    found: list[Stamp] = []

    def refuse(stamp: Stamp) -> None:
        found.append(stamp)
        raise Corrupt("it is too old")

    for _ in range(2):
        with pytest.raises(Corrupt, match="too old"):
            SqliteCoordinator(copies[0], refuse)
        assert [copy.read_bytes() for copy in copies] == before
    assert [(stamp.changes, stamp.rows) for stamp in found] == [(2, 1), (2, 1)]


@pytest.mark.parametrize("size", [100, 4096, 100_000])
def test_a_file_of_garbage_is_corrupt_and_named_and_stays_as_it_is(path: Path, size: int) -> None:
    path.write_bytes(b"garbage!" * (size // 8))
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(Corrupt, match=r"coordinator\.db: .*; restore"):
            SqliteCoordinator(path)
    assert path.read_bytes() == before


def test_a_file_that_cannot_be_opened_leaves_no_file_open(path: Path) -> None:
    path.write_bytes(b"garbage!" * 1000)
    with pytest.raises(Corrupt):
        SqliteCoordinator(path)
    open_files = [link.resolve() for link in Path("/proc/self/fd").iterdir()]
    assert path.resolve() not in open_files


def test_a_folder_that_is_not_there_is_unavailable_and_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="missing"):
        SqliteCoordinator(tmp_path / "missing" / "coordinator.db")


def test_a_call_that_fails_in_the_middle_changes_nothing(
    coordinator: SqliteCoordinator,
) -> None:
    coordinator._db.execute("CREATE TRIGGER stop BEFORE DELETE ON log BEGIN SELECT RAISE(ABORT, 'stop'); END")
    row = coordinator.create_topic("a", TopicConfig())
    coordinator.trim(row.id, 0, 1, 1)
    with pytest.raises(Corrupt, match="stop"):
        coordinator.delete_topic(row.id)
    assert coordinator.topics() == [row]
    coordinator._db.execute("DROP TRIGGER stop")
    coordinator.delete_topic(row.id)
    assert (coordinator.topics(), coordinator.logs()) == ([], [])


def test_a_trim_needs_no_space_beyond_that_of_the_open(path: Path, coordinator: SqliteCoordinator) -> None:
    topic = coordinator.create_topic("events", TopicConfig())
    coordinator.trim(topic.id, 0, 1, 1)
    files = [path, path.with_name("coordinator.db-wal"), path.with_name("coordinator.db-shm")]
    before = [(file.stat().st_size, file.stat().st_blocks) for file in files]
    assert before[1][1] * 512 >= before[1][0] >= WAL_BYTES  # written or not, it is there
    for start in range(500):
        coordinator.trim(topic.id, 0, start, start)
    coordinator.delete_topic(topic.id)
    assert [(file.stat().st_size, file.stat().st_blocks) for file in files] == before


def test_a_call_after_the_close_is_unavailable_and_not_damage(path: Path) -> None:
    coordinator = SqliteCoordinator(path)
    coordinator.close()
    coordinator.close()
    with pytest.raises(Unavailable, match=r"coordinator\.db is closed: connect again") as caught:
        coordinator.trim(1, 0, 5, 7)
    assert caught.value.outcome == "not_written"


def test_threads_take_turns(coordinator: SqliteCoordinator) -> None:
    together = threading.Barrier(2)
    epochs: list[int] = []
    conflicts: list[Conflict] = []

    def live() -> None:
        together.wait()
        for number in range(20):
            epochs.append(coordinator.take_over())
            try:
                coordinator.create_topic(f"{number}", TopicConfig())
            except Conflict as error:
                conflicts.append(error)

    threads = [threading.Thread(target=live) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(epochs) == [*range(1, 41)]
    assert len(conflicts) == 20
    assert len(coordinator.topics()) == 20
