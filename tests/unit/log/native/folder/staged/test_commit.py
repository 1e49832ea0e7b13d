"""Committing staged records: order, cleaning up, and which process may."""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

import pytest

import cordwood
from cordwood.errors import NotFound, Timeout, Unavailable
from cordwood.log.native.env.clock import RealClock
from cordwood.log.native.env.disk import RealDisk
from cordwood.log.native.folder.process import FolderOpenForWriting, commit_staged, open_for_reading
from cordwood.log.native.folder.published import Owner
from cordwood.log.native.folder.staged import StagedCommits, StagedFile, StagedWriter, Write, abort_attempt, is_aborted
from cordwood.log.native.folder.staged.commit import IN_FLIGHT_BYTES_MAX
from cordwood.log.native.folder.staged.leftovers import ORPHAN_SECONDS
from cordwood.records import Batch
from cordwood.simulation.clock import SimulatedClock
from tests.support.folder.scripts import program


def staged(folder: Path, write: Write, attempt: str, batch: Batch, *, made_ms: int | None = None) -> StagedFile:
    clock = RealClock()
    name = write.name(clock.time_ms() if made_ms is None else made_ms, attempt, secrets.token_hex(4))
    writer = StagedWriter(RealDisk(folder), clock, name)
    topic = open_for_reading(folder).topic("events")
    writer.add(Owner(topic.id, 0), "events/0", batch)
    file = writer.finish()
    assert file is not None
    return file


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "staged").iterdir())


def values(folder: Path) -> list[bytes | None]:
    with cordwood.sync.connect(folder, read_only=True) as cw:
        return [value for batch in cw.log("events").read() for value in batch.values]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with cordwood.sync.connect(tmp_path) as cw:
        cw.create_topic("events")
    return tmp_path


def test_files_are_appended_in_the_order_of_the_commit_and_go(folder: Path) -> None:
    write = Write("w")
    files = [staged(folder, write, str(task), Batch.of([b"%d.%d" % (task, n) for n in range(3)])) for task in range(3)]
    lost = staged(folder, write, "speculative", Batch.of([b"never"]))
    assert commit_staged(folder, write, [files[2], files[0], files[1]])
    assert values(folder) == [b"2.0", b"2.1", b"2.2", b"0.0", b"0.1", b"0.2", b"1.0", b"1.1", b"1.2"]
    assert lost.name not in names(folder)
    assert names(folder) == []


def test_more_than_may_be_in_flight_is_appended_all_the_same(folder: Path) -> None:
    write = Write("w")
    records = [bytes([n]) * 500_000 for n in range(IN_FLIGHT_BYTES_MAX // 500_000 * 2)]
    commit_staged(folder, write, [staged(folder, write, "0", Batch.of(records))])
    assert values(folder) == records


def test_a_committed_or_earlier_batch_is_not_appended_again(folder: Path) -> None:
    for batch, expected in ((4, True), (4, False), (3, False), (5, True)):
        write = Write("query", batch)
        assert commit_staged(folder, write, [staged(folder, write, "0", Batch.of([b"%d" % batch]))]) is expected
    assert values(folder) == [b"4", b"5"]
    assert names(folder) == []


def test_a_batch_of_another_sink_is_another(folder: Path) -> None:
    for sink in ("one", "two"):
        write = Write(sink, 0)
        assert commit_staged(folder, write, [staged(folder, write, "0", Batch.of([sink.encode()]))])
    assert values(folder) == [b"one", b"two"]


def test_a_commit_removes_files_of_its_sink_and_orphans_and_no_others(folder: Path) -> None:
    now_ms = RealClock().time_ms()
    one = Batch.of([b"x"])
    orphan_ms = now_ms - ORPHAN_SECONDS * 1000 - 60_000
    gone = [
        staged(folder, Write("query", 6), "0-crashed", one),
        staged(folder, Write("query", 7), "0-lost", one),
        staged(folder, Write("somebody"), "0", one, made_ms=orphan_ms),
    ]
    kept = [
        staged(folder, Write("query", 8), "0", one),
        staged(folder, Write("query2", 7), "0", one),
        staged(folder, Write("somebody"), "1", one, made_ms=orphan_ms + 120_000),
    ]
    (folder / "staged" / "strange").touch()
    commit_staged(folder, Write("query", 7), [staged(folder, Write("query", 7), "0", one)])
    assert names(folder) == sorted([*(file.name for file in kept), "strange"])
    assert not set(names(folder)) & {file.name for file in gone}


def test_the_next_commit_removes_the_files_of_an_aborted_attempt(
    folder: Path,
) -> None:
    disk, clock = RealDisk(folder), RealClock()
    one = Batch.of([b"x"])
    before = staged(folder, Write("w"), "tried", one)
    other = staged(folder, Write("w"), "tried2", one)
    assert not is_aborted(disk, "tried")
    abort_attempt(disk, clock, "tried")
    assert is_aborted(disk, "tried")
    assert before.name not in names(folder)
    late = staged(folder, Write("w"), "tried", one)
    assert {other.name, late.name} < set(names(folder))
    commit_staged(folder, Write("v"), [staged(folder, Write("v"), "again", one)])
    assert names(folder) == sorted([other.name, *(name for name in names(folder) if name.startswith("tried."))])
    assert len(names(folder)) == 2


def test_the_note_of_an_aborted_attempt_goes_when_it_is_old(folder: Path) -> None:
    clock = SimulatedClock(RealClock().time_ms() - ORPHAN_SECONDS * 1000 - 60_000)
    abort_attempt(RealDisk(folder), clock, "tried")
    assert len(names(folder)) == 1
    commit_staged(folder, Write("v"), [staged(folder, Write("v"), "again", Batch.of([b"x"]))])
    assert names(folder) == []


def test_a_topic_that_is_deleted_meanwhile_is_not_found_and_nothing_stays(folder: Path) -> None:
    write = Write("w")
    file = staged(folder, write, "0", Batch.of([b"x"]))
    with cordwood.sync.connect(folder) as cw:
        cw.delete_topic("events")
        cw.create_topic("events")
    with pytest.raises(NotFound, match=r"the id \d+ was deleted since the records were staged") as caught:
        commit_staged(folder, write, [file])
    assert caught.value.outcome == "not_written"
    assert (values(folder), names(folder)) == ([], [])


def test_a_commit_is_refused_while_this_process_writes_the_folder(folder: Path) -> None:
    write = Write("w")
    file = staged(folder, write, "0", Batch.of([b"x"]))
    with cordwood.sync.connect(folder), pytest.raises(Unavailable, match=f"process {os.getpid()}") as caught:
        commit_staged(folder, write, [file])
    assert caught.value.outcome == "not_written"
    assert (values(folder), names(folder)) == ([], [])
    assert commit_staged(folder, write, [staged(folder, write, "0", Batch.of([b"x"]))])
    assert values(folder) == [b"x"]


HOLDER = """
with cordwood.sync.connect(url):
    say("open")
    told()
"""


@pytest.mark.processes
def test_a_commit_names_the_process_that_writes_the_folder(folder: Path) -> None:
    write = Write("query", 0)
    with program(HOLDER, folder) as other:
        assert other.says() == "open"
        with pytest.raises(Unavailable, match=rf"process {other.pid}\b") as caught:
            commit_staged(folder, write, [staged(folder, write, "0", Batch.of([b"x"]))])
        assert caught.value.outcome == "not_written"
        assert (values(folder), names(folder)) == ([], [])
        other.tell()
        other.ends()
    assert commit_staged(folder, write, [staged(folder, write, "0", Batch.of([b"x"]))])
    assert values(folder) == [b"x"]


PROBE = """
try:
    with cordwood.sync.connect(url):
        say("open")
except cordwood.Unavailable as error:
    say(error)
"""


@pytest.mark.processes
def test_a_commit_locks_a_folder_that_this_process_reads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    actual = StagedCommits.commit
    seen: list[str] = []

    def look_around(commits: StagedCommits, write: Write, files: Sequence[StagedFile]) -> bool:
        # A read of this process must not drop the lock by asking for it.
        assert values(folder) == []
        with pytest.raises(Unavailable, match=f"process {os.getpid()}"):
            cordwood.sync.connect(folder).__enter__()
        with program(PROBE, folder) as other:
            seen.append(other.says())
        return actual(commits, write, files)

    monkeypatch.setattr(StagedCommits, "commit", look_around)
    with cordwood.sync.connect(folder, read_only=True) as before:
        write = Write("w")
        assert commit_staged(folder, write, [staged(folder, write, "0", Batch.of([b"x"]))])
        assert [value for batch in before.log("events").read() for value in batch.values] == [b"x"]
    assert f"process {os.getpid()}" in seen[0]


def test_a_slow_close_is_not_the_outcome_of_the_commit(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    close = FolderOpenForWriting.close

    def late(opened: FolderOpenForWriting, timeout: float) -> None:
        close(opened, timeout)
        raise Timeout("closing took more than a while")

    monkeypatch.setattr(FolderOpenForWriting, "close", late)
    write = Write("w")
    assert commit_staged(folder, write, [staged(folder, write, "0", Batch.of([b"once"]))])
    assert "closing took more than a while" in caplog.text
    assert values(folder) == [b"once"]
