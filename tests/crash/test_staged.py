"""A commit of staged records is cut short at every operation, and is all there or not at all, once, in order (R28)."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

import cordwood
from cordwood.errors import Corrupt, Unavailable
from cordwood.log.native.env.clock import RealClock
from cordwood.log.native.env.disk import RealDisk, RealFile
from cordwood.log.native.folder.process import commit_staged, open_for_reading
from cordwood.log.native.folder.published import Owner
from cordwood.log.native.folder.staged import StagedWriter, Write
from cordwood.log.native.stream.rollover import PLOG_BYTES_FIRST, LogRolloverPolicy
from cordwood.log.topics import TopicConfig
from cordwood.simulation.disk import SimulatedDisk
from cordwood.simulation.folder import SimulatedFolder
from cordwood.simulation.ledger import Fate
from cordwood.simulation.power import PowerCut
from tests.support.crash.histories import cuts
from tests.support.crash.staged_commits import Commit, staged_names

QUERY = "4158b19d-974c-44b9-a19e-6680e19141ca"


def opened(disk: SimulatedDisk | None = None) -> SimulatedFolder:
    folder = SimulatedFolder(3, disk=disk)
    folder.open()
    folder.create_topic("a")
    folder.create_topic("b", TopicConfig(partitions=2))
    folder.put("a", 2, 300)
    folder.put("b", 1, 300, partition=1)
    folder.run()
    return folder


def lived(crash_at: int | None = None) -> tuple[SimulatedFolder, Commit]:
    """A folder in which a commit was made, or as it is at the operation at which the power failed."""
    folder = opened()
    commit = Commit(folder, "one", Write(QUERY, 7))
    if crash_at is not None:
        folder.disk.crash_at(folder.disk.operations + crash_at)
    try:
        commit.run()
        folder.run()
    except PowerCut:
        pass
    return folder, commit


def operations() -> range:
    before = opened().disk.operations
    return range(1, lived()[0].disk.operations - before + 2)


def is_decided(at: int) -> bool:
    """Whether a crash at this operation leaves a plan behind."""
    return lived(at)[0].killed().coordinator.plan() is not None


def check(found: SimulatedFolder, commit: Commit) -> str:
    """The folder after a crash has all of the commit or nothing of it, in every log; and so it stays."""
    found.open()
    found.check(settle=True)
    (fate,) = commit.fates(found)
    noted = found.coordinator.sink_batch(QUERY)
    assert (fate, noted) in [("acked", 7), ("gone", None)]
    assert found.coordinator.plan() is None
    return fate


def replay(found: SimulatedFolder, fate: str) -> None:
    """The batch comes again, as after a restart: appended if it is not there, and its files go in any case."""
    if fate == "gone":
        Commit(found, "again", Write(QUERY, 7)).run()
    else:
        again = Commit(found, "twice", Write(QUERY, 7))
        again.stage()
        assert not found.staged.commit(again.write, again.files)
    assert staged_names(found) == []
    for topic, partition, _ in found.logs():
        found.put(topic, 1, 50, partition=partition)
    found.run()
    found.check()


def test_r28_a_power_cut_in_a_commit_leaves_all_of_it_or_nothing(seeds: int) -> None:
    fates = set()
    for at in operations():
        crashed, commit = lived(at)
        for name, cut in cuts(seeds, f"staged {at}"):
            try:
                found = crashed.power_cut(cut, seed=at)
                fate = check(found, commit)
                fates.add(fate)
                replay(found, fate)
                again = found.power_cut("none", seed=at)
                again.open()
                again.check(settle=True)
            except Exception as error:
                raise AssertionError(f"cut at {at}, {name}: {crashed.disk.history[-5:]}") from error
    assert fates == {"acked", "gone"}


def test_r28_a_kill_in_a_commit_leaves_all_of_it_or_nothing() -> None:
    for at in operations():
        crashed, commit = lived(at)
        found = crashed.killed(seed=at)
        replay(found, check(found, commit))


def test_r28_a_second_crash_at_any_operation_of_the_redo_changes_nothing(seeds: int) -> None:
    random = Random("redo")
    decided = [at for at in operations() if is_decided(at)]
    for at in random.sample(decided, k=min(len(decided), 4 * seeds)):
        crashed, commit = lived(at)
        again_at, cut_short = 0, True
        while cut_short:
            again_at += 1
            found = crashed.power_cut(Random(f"{at} {again_at}"), seed=at)
            found.disk.crash_at(again_at)
            cut_short = is_cut_short(found)
            found = found.killed() if random.random() < 0.3 else found.power_cut(Random(f"{at} again"), seed=at)
            assert check(found, commit) == "acked"
            replay(found, "acked")


def is_cut_short(folder: SimulatedFolder) -> bool:
    try:
        folder.open()
        folder.run()
    except PowerCut:
        return True
    return False


def test_every_operation_of_a_commit_fails_once_and_the_outcome_is_true(seeds: int) -> None:
    outcomes = set()
    for operation in ("create", "write", "sync", "sync_folder", "allocate", "remove", "coordinator", "read"):
        for after in range(60):
            folder = opened()
            commit = Commit(folder, "one", Write(QUERY, 7))
            commit.expect()
            # Reading the staged files fails only once they are there.
            folder.disk.fail(operation, error=errno.EIO, after=after)
            outcome: str | None = "written"
            try:
                commit.stage()
                folder.staged.commit(commit.write, commit.files)
            except cordwood.CordwoodError as error:
                outcome = error.outcome
            if folder.disk.faults_left():
                break
            outcomes.add(outcome)
            folder.run()
            for crash in (folder.killed(), folder.power_cut("none"), folder.power_cut(Random(after))):
                crash.disk.forget_faults()
                fate = check(crash, commit)
                assert outcome in ("unknown", {"acked": "written", "gone": "not_written"}[fate]), (operation, after)
        else:
            pytest.fail(f"{operation}: never without a fault")
    assert outcomes == {"written", "not_written", "unknown"}


def test_the_rest_of_a_decided_commit_is_written_when_there_is_room() -> None:
    folder = opened()
    commit = Commit(folder, "one", Write(QUERY, 7))
    commit.expect()
    commit.stage()
    folder.disk.capacity = folder.disk.used + 3000
    with pytest.raises(Unavailable, match="a commit of 36 records was decided, and cannot be finished now") as caught:
        folder.staged.commit(commit.write, commit.files)
    assert caught.value.outcome == "unknown"
    assert "do not write them again" in str(caught.value)
    killed = folder.killed()
    with pytest.raises(Unavailable, match="No space left"):
        killed.open()
    killed = killed.killed()
    killed.disk.capacity = None
    assert check(killed, commit) == "acked"


def test_a_deleted_topic_takes_its_part_of_an_unfinished_commit_along() -> None:
    at = next(filter(is_decided, operations()))
    crashed, commit = lived(at)
    found = crashed.killed()
    found.disk.capacity = found.disk.used
    with pytest.raises(Unavailable, match="No space left"):
        found.open()
    found.delete_topic("b")
    found.disk.capacity = None
    # What the first try has queued is decided before the second one looks where the logs end.
    found.run()
    found.staged.finish_decided()
    found.run()
    found.check(settle=True)
    assert found.ledger("a").writes[-1].fate is Fate.ACKED
    assert found.ledger("a").writes[-1].values == tuple(commit.records["a", 0])
    assert found.coordinator.plan() is None
    assert staged_names(found) == []


@pytest.mark.parametrize("damage", ["bit", "missing", "short"])
def test_a_damaged_staged_file_is_corrupt_at_the_open_and_stays(damage: str) -> None:
    at = next(filter(is_decided, operations()))
    crashed, commit = lived(at)
    found = crashed.killed()
    name = f"staged/{commit.files[1].name}"
    if damage == "bit":
        found.disk.flip_bit(name, 8 * 500)
    elif damage == "missing":
        found.disk.remove(name)
    else:
        file = found.disk.open(name, write=True)
        file.truncate(commit.files[1].size - 8)
        file.close()
    for _ in range(2):
        with pytest.raises(Corrupt, match=name.replace(".", r"\.")) as caught:
            found.open()
        assert {"bit": "damaged at byte", "missing": "is missing", "short": "is cut at byte"}[damage] in str(
            caught.value
        )
        assert found.coordinator.plan() is not None
        found = found.killed()


def test_a_damaged_plan_is_corrupt_at_the_writing_open() -> None:
    at = next(filter(is_decided, operations()))
    found = lived(at)[0].killed()
    plan = found.coordinator.plan()
    assert plan is not None
    found.coordinator.finish(QUERY, None)
    found.coordinator.decide(plan.replace('"start": 2', '"start": 1'))
    with pytest.raises(Corrupt, match=r"the plan in coordinator\.db is damaged"):
        found.open()


# -- a real process -----------------------------------------------------------------------------------------------

STEPS = ("decide", "decided", "append 1", "append 5", "appended", "removed", "finished")

PROGRAM = """
import os, signal, sys
from pathlib import Path
from cordwood.log.native.folder import process as folder
from cordwood.log.native.coordinator import SqliteCoordinator
from cordwood.log.native.folder.written_log import WrittenLog
from cordwood.log.native.folder.published import Owner
from cordwood.log.native.folder.staged import StagedWriter, Write, commit
from cordwood.log.native.env.clock import RealClock
from cordwood.log.native.env.disk import RealDisk
from cordwood.records import Batch

path, step = Path(sys.argv[1]), sys.argv[2]
reached = 0

def die_at(name, before, after):
    def wrapped(actual):
        def call(*arguments, **named):
            global reached
            if name == "append":
                reached += 1
                if step == f"append {reached}":
                    os.kill(os.getpid(), signal.SIGKILL)
            if step == before:
                os.kill(os.getpid(), signal.SIGKILL)
            result = actual(*arguments, **named)
            if step == after:
                os.kill(os.getpid(), signal.SIGKILL)
            return result
        return call
    return wrapped

SqliteCoordinator.decide = die_at("decide", "decide", "decided")(SqliteCoordinator.decide)
WrittenLog.submit = die_at("append", None, None)(WrittenLog.submit)
commit.remove_staged = die_at("remove", "appended", "removed")(commit.remove_staged)
SqliteCoordinator.finish = die_at("finish", None, "finished")(SqliteCoordinator.finish)

write = Write("query", 3)
log = Owner(folder.open_for_reading(path).topic("events").id, 0)
files = []
for task in range(3):
    writer = StagedWriter(RealDisk(path), RealClock(), write.name(RealClock().time_ms(), str(os.getpid()), str(task)))
    for place in range(4):
        values = [f"{task} {place} {n}".encode() for n in range(50)]
        writer.add(log, "events/0", Batch.of(values))
    files.append(writer.finish())
print(folder.commit_staged(path, write, files))
"""


def run(folder: Path, step: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", PROGRAM, os.fspath(folder), step]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.processes
@pytest.mark.parametrize("step", STEPS)
def test_r28_a_process_killed_in_its_commit_leaves_all_of_it_or_nothing(tmp_path: Path, step: str) -> None:
    expected = [f"{task} {place} {n}".encode() for task in range(3) for place in range(4) for n in range(50)]
    with cordwood.sync.connect(tmp_path) as cw:
        cw.create_topic("events")
        cw.log("events").append(cordwood.Batch.of([b"before"]))

    assert run(tmp_path, step).returncode == -signal.SIGKILL
    with cordwood.sync.connect(tmp_path) as cw:
        cw.log("events").append(cordwood.Batch.of([b"after"]))
        found = [value for batch in cw.log("events").read() for value in batch.values]
    assert found == [b"before", *([] if step == "decide" else expected), b"after"]
    again = run(tmp_path, "")
    assert (again.returncode, again.stderr, again.stdout) == (0, "", f"{step == 'decide'}\n")
    with cordwood.sync.connect(tmp_path, read_only=True) as cw:
        found = [value for batch in cw.log("events").read() for value in batch.values]
    rest = [] if step != "decide" else expected
    assert found == [b"before", *([] if step == "decide" else expected), b"after", *rest]
    assert list((tmp_path / "staged").iterdir()) == []


def appended(log: cordwood.sync.Log, value: bytes) -> bool:
    try:
        log.append(cordwood.Batch.of([value]))
    except Unavailable:
        return False
    return True


@pytest.mark.processes
def test_without_room_for_a_decided_commit_a_folder_opens_without_appends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [f"{task} {place} {n}".encode() for task in range(3) for place in range(4) for n in range(50)]
    with cordwood.sync.connect(tmp_path) as cw:
        cw.create_topic("events")
        cw.log("events").append(cordwood.Batch.of([b"before"]))
    assert run(tmp_path, "decided").returncode == -signal.SIGKILL
    full = True
    actual = RealFile.allocate

    def allocate(file: RealFile, size: int) -> None:
        # Room for metadata, and none for records.
        if full and size >= PLOG_BYTES_FIRST:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        actual(file, size)

    monkeypatch.setattr(RealFile, "allocate", allocate)
    monkeypatch.setattr(LogRolloverPolicy, "plog_bytes_least", lambda succession, needed: PLOG_BYTES_FIRST)
    with cordwood.sync.connect(tmp_path) as cw:
        log = cw.log("events")
        message = r"nothing can be appended yet: a commit of 600 records was decided.*No space left"
        with pytest.raises(Unavailable, match=message) as caught:
            log.append(cordwood.Batch.of([b"after"]))
        assert caught.value.outcome == "not_written"
        assert log.bounds() == (0, 1)
        log.trim(1)
        refused = run(tmp_path, "")
        assert refused.returncode == 1
        full = False
        until = time.monotonic() + 30
        while not appended(log, b"after"):
            assert time.monotonic() < until, "the commit is not finished though there is room"
            time.sleep(0.05)
        assert [value for batch in log.read() for value in batch.values] == [*expected, b"after"]
    assert list((tmp_path / "staged").iterdir()) == []


@pytest.mark.processes
def test_a_commit_after_an_unfinished_one_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cordwood.sync.connect(tmp_path) as cw:
        cw.create_topic("events")
    assert run(tmp_path, "decided").returncode == -signal.SIGKILL
    before = sorted(path.name for path in (tmp_path / "staged").iterdir())

    def allocate(file: RealFile, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(RealFile, "allocate", allocate)
        write = Write("query", 4)
        writer = StagedWriter(RealDisk(tmp_path), RealClock(), write.name(0, "try", "0"))
        topic = open_for_reading(tmp_path).topic("events")
        writer.add(Owner(topic.id, 0), "events/0", cordwood.Batch.of([b"x"]))
        file = writer.finish()
        assert file is not None
        with pytest.raises(Unavailable, match="nothing can be appended yet") as caught:
            commit_staged(tmp_path, write, [file])
        assert caught.value.outcome == "not_written"
    assert sorted(path.name for path in (tmp_path / "staged").iterdir()) == before
    with cordwood.sync.connect(tmp_path) as cw:
        assert cw.log("events").bounds() == (0, 600)
