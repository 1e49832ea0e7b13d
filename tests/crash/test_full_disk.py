"""A full disk refuses, loses nothing, and works again when there is room."""

import subprocess
import sys
from pathlib import Path

import pytest

from cordwood.errors import Unavailable
from cordwood.log.native.plog import PlogId
from cordwood.log.topics import TopicConfig
from cordwood.simulation.disk import SimulatedDisk
from cordwood.simulation.folder import SimulatedFolder
from cordwood.simulation.ledger import Broken, Fate
from cordwood.simulation.power import PowerCut


@pytest.fixture
def full() -> SimulatedFolder:
    """A disk that "big" has filled; "quiet" has fallen quiet before."""
    folder = SimulatedFolder(disk=SimulatedDisk(capacity=60_000))
    folder.open()
    folder.create_topic("big")
    folder.create_topic("quiet")
    folder.put("quiet")
    folder.run()
    folder.clock.advance(20)
    folder.engine.give_space_back()
    folder.run()
    while not folder.errors:
        folder.put("big", 1, 1500)
        folder.run()
    return folder


def assert_works(folder: SimulatedFolder) -> None:
    failed_before = len(folder.errors)
    for topic, partition, _ in folder.logs():
        folder.put(topic, 1, 1500, partition=partition)
    folder.run()
    folder.tick()
    assert folder.errors[failed_before:] == []
    assert not folder.unanswered()
    folder.check()
    found = folder.power_cut("none")
    found.open()
    found.check(settle=True)


def test_an_append_without_room_says_so_and_was_not_written(full: SimulatedFolder) -> None:
    (error,) = full.errors
    assert isinstance(error, Unavailable)
    assert (error.outcome, error.reason, error.retryable) == ("not_written", "full", True)
    assert "No space left on device" in str(error)
    assert "free some space" in str(error)
    full.check()
    for crash in (full.power_cut("none"), full.power_cut("all"), full.killed()):
        crash.open()
        crash.check(settle=True)


def test_appends_work_again_when_there_is_room(full: SimulatedFolder) -> None:
    full.disk.capacity = 120_000
    assert_works(full)


def test_a_trim_frees_the_space_that_appends_need(full: SimulatedFolder) -> None:
    full.trim("big", full.ledger("big").end_min // 2)
    full.run()
    assert_works(full)


def test_a_quiet_log_wakes_up_when_there_is_room(full: SimulatedFolder) -> None:
    full.disk.capacity = full.disk.used
    refused = full.put("quiet")
    full.run()
    assert refused.fate is Fate.GONE
    full.check()
    full.disk.capacity += 20_000
    assert_works(full)


def restarted(full: SimulatedFolder) -> SimulatedFolder:
    """After a kill and a new start, with not one byte to spare: the metadata stream has no plog to write to either."""
    killed = full.killed()
    killed.disk.capacity = killed.disk.used
    killed.open()
    killed.run()
    killed.check(settle=True)
    killed.disk.capacity = killed.disk.used
    refused = killed.put("big")
    killed.run()
    assert refused.fate is Fate.GONE
    return killed


def test_a_restarted_writer_on_a_full_disk_frees_space_by_a_trim(full: SimulatedFolder) -> None:
    folder = restarted(full)
    folder.trim("big", folder.ledger("big").end_min // 2)
    folder.run()
    folder.tick()
    assert folder.disk.used < (folder.disk.capacity or 0)
    assert_works(folder)


def test_a_restarted_writer_on_a_full_disk_may_trim_to_the_end(full: SimulatedFolder) -> None:
    at, cut_short = 0, True
    while cut_short:
        folder = restarted(full)
        folder.trim("big", folder.ledger("big").end_min)
        folder.run()
        at += 1
        folder.disk.crash_at(folder.disk.operations + at)
        cut_short = is_cut_short(folder)
        # Gone before the metadata could say so: also the next open, and a reader, know that it was trimmed (R7).
        for crash in (folder.killed(), folder.power_cut("none"), folder.power_cut("all")):
            crash.disk.capacity = None
            crash.check_view()
            crash.open()
            crash.check_view(beside_writer=True)
            crash.check(settle=True)
            assert_works(crash)


def test_a_log_trimmed_to_a_plog_that_failed_empty_can_be_opened() -> None:
    folder = SimulatedFolder()
    folder.open()
    folder.create_topic("a")
    folder.put("a", 2)
    folder.run()
    folder.disk.fail("write", name_contains="plogs/")  # to the next plog, of which the metadata know
    folder.disk.fail("create", name_contains="plogs/", after=1, times=2)
    folder.put("a", 1, 4000)
    folder.run()
    assert [error.outcome for error in folder.errors] == ["unknown"]
    folder.disk.forget_faults()
    folder.disk.fail("write", name_contains="plogs/", times=1000)  # the trim cannot be recorded
    folder.trim("a", 2)
    folder.run()
    folder.tick()
    for crash in (folder.killed(), folder.power_cut("none"), folder.power_cut("all")):
        crash.check_view()
        crash.open()
        crash.check(settle=True)
        assert_works(crash)


def is_cut_short(folder: SimulatedFolder) -> bool:
    try:
        folder.tick()
    except PowerCut:
        return True
    return False


def test_a_restarted_writer_on_a_full_disk_frees_space_by_deleting_a_topic(full: SimulatedFolder) -> None:
    folder = restarted(full)
    folder.delete_topic("big")
    folder.run()
    folder.tick()
    assert folder.disk.used < (folder.disk.capacity or 0)
    assert_works(folder)


@pytest.mark.parametrize("capacity", range(26_000, 44_000, 1_000))
def test_a_full_disk_holds_acks_back_until_rollovers_are_recorded(
    capacity: int,
) -> None:
    folder = SimulatedFolder(disk=SimulatedDisk(capacity=capacity))
    folder.open()
    folder.create_topic("a", TopicConfig(partitions=4))
    for step in range(30):
        folder.put("a", 1, 1500, partition=step % 4)
        folder.run()
    assert folder.errors
    assert {error.outcome for error in folder.errors} == {"not_written"}
    folder.check()
    for crash in (folder.power_cut("none"), folder.killed()):
        crash.open()
        crash.check(settle=True)
    folder.disk.capacity = 2 * capacity
    folder.tick()
    assert not folder.unanswered()
    assert_works(folder)


def test_readers_are_told_the_end_once_there_is_room_to_tell_it() -> None:
    folder = SimulatedFolder()
    folder.open()
    folder.create_topic("a")
    folder.disk.fail("write", name_contains="published/ends", times=3)
    folder.put("a", 3)
    folder.run()
    folder.check()
    folder.disk.forget_faults()
    folder.tick()
    assert folder.killed().check_view(all_acked=True)["a/0"].end == 3


def test_readers_are_told_of_a_switch_once_there_is_room_to_tell_it() -> None:
    folder = SimulatedFolder()
    folder.open()
    folder.create_topic("a")
    folder.put("a")
    folder.run()
    folder.disk.fail("write", name_contains="published/ends")  # the end of the metadata
    folder.put("a", 1, 4000)  # into a new plog
    folder.run()
    assert (folder.disk.faults_left(), folder.unanswered()) == (0, [])
    folder.tick()
    assert folder.check_view(all_acked=True, beside_writer=True)["a/0"].end == 2


def test_readers_are_told_the_start_that_an_open_had_no_room_to_tell() -> None:
    folder = SimulatedFolder()
    folder.open()
    folder.create_topic("a")
    folder.put("a", 3)
    folder.run()
    folder.trim("a", 2)
    folder.close()
    folder.disk.remove("published/ends")
    folder.disk.fail("write", name_contains="published/ends", times=3)
    folder.open()
    folder.check()
    folder.disk.forget_faults()
    folder.tick()
    assert folder.killed().check_view()["a/0"].start == 2


def test_a_start_that_an_open_could_not_publish_does_not_undo_a_trim() -> None:
    folder = SimulatedFolder()
    folder.open()
    folder.create_topic("a")
    folder.put("a", 5)
    folder.run()
    folder.trim("a", 1)
    folder.close()
    folder.disk.remove("published/ends")
    folder.disk.fail("write", name_contains="published/ends", times=1000)
    folder.open()
    folder.disk.forget_faults()
    folder.trim("a", 3)
    folder.tick()
    assert folder.killed().check_view()["a/0"].start == 3


def test_readers_are_told_of_a_topic_once_there_is_room_to_tell_it() -> None:
    folder = SimulatedFolder()
    folder.open()
    folder.create_topic("a")
    folder.disk.fail("create", name_contains="published/catalog", times=3)
    folder.create_topic("b")
    with pytest.raises(Broken, match="topic b is missing"):
        folder.killed().check_view()
    folder.disk.forget_faults()
    folder.tick()
    assert "b/0" in folder.killed().check_view()


def test_without_room_to_publish_new_metadata_the_old_plogs_stay() -> None:
    folder = SimulatedFolder()
    folder.open()
    folder.create_topic("a")
    folder.put("a", 3)
    folder.run()
    told = folder.coordinator.metadata_plog()
    folder.disk.fail("create", name_contains="published/catalog", times=1000)
    while folder.coordinator.metadata_plog() == told:
        folder.put("a", 1, 2000)
        folder.run()
    found = folder.killed()
    found.disk.fail("create", name_contains="published/catalog", times=1000)
    found.open()
    found.run()  # what crashes left is swept away
    assert found.killed().check_view()["a/0"].end >= 3
    found.disk.forget_faults()
    found.tick()
    assert found.killed().check_view(all_acked=True)["a/0"].end > 3


def test_a_crashed_idle_log_gives_its_unwritten_space_back() -> None:
    folder = SimulatedFolder()
    folder.open()
    folder.create_topic("a")
    folder.put("a", 1, 50)
    folder.run()
    killed = folder.killed()
    killed.open()
    killed.check(settle=True)
    killed.clock.advance(20)
    killed.engine.give_space_back()
    killed.run()
    data = killed.log("a").extent().chain.last
    assert data is not None
    assert len(killed.disk.contents(f"plogs/{data.id.file_name}")) < 300
    killed.check()


def test_an_idle_log_that_is_trimmed_to_its_end_gives_its_spare_back() -> None:
    folder = SimulatedFolder()
    folder.open()
    folder.create_topic("a")
    folder.put("a", 1, 3000)  # more than half of a plog: the next one is made
    folder.run()
    folder.trim("a", 1)
    folder.run()
    folder.clock.advance(20)
    folder.engine.give_space_back()
    folder.run()
    metadata = PlogId.parse(folder.coordinator.metadata_plog() or "")
    assert folder.engine.plogs.files() == {metadata.random}
    assert_works(folder)


LIMITED = """
import resource, sys
import cordwood
from cordwood import Batch, Unavailable

value = bytes(200_000)
with cordwood.sync.connect(sys.argv[1]) as cw:
    cw.create_topic("a")
    log = cw.log("a")
    acked = [log.append(Batch.of([value]))[0]]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, limits[1]))
    outcomes = []
    while len(outcomes) < 3:
        try:
            acked.append(log.append(Batch.of([value]))[0])
        except Unavailable as error:
            outcomes.append(error.outcome)
    # The first one was refused in the middle of its frame, the others before theirs.
    assert outcomes == ["unknown", "not_written", "not_written"], outcomes
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    for _ in range(20):
        acked.append(log.append(Batch.of([value]))[0])
with cordwood.sync.connect(sys.argv[1]) as cw:
    assert acked == [offset for batch in cw.log("a").read() for offset in batch.offsets] == list(range(len(acked)))
"""


@pytest.mark.processes
def test_a_real_limit_on_file_size_refuses_and_works_again_later(tmp_path: Path) -> None:
    # As near to a full disk as an ordinary user gets.
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, f"file:{tmp_path / 'data'}"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
