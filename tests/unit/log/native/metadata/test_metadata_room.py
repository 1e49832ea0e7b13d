"""A metadata stream without room for its next plog waits, in order; appends fail before anything is written."""

import pytest

from cordwood.errors import Unavailable
from cordwood.log.native.chain.chain import Link
from cordwood.log.native.chain.records import Dropped, Full, Init
from cordwood.log.native.folder.writer import FolderSettings
from cordwood.simulation.folder import SimulatedFolder
from cordwood.simulation.ledger import Fate
from tests.support.folder.managed_folder import ManagedFolder, chain_of, plog


@pytest.fixture
def folder() -> ManagedFolder:
    return ManagedFolder()


def test_records_wait_for_room_in_order_and_go_on_when_there_is_some(folder: ManagedFolder) -> None:
    folder.record("1/0", *chain_of(1, 2))
    folder.disk.capacity = folder.disk.used
    number = 0
    while folder.manager.stuck() is None:
        number += 1
        folder.record(f"waits {number}", *chain_of(100 * number, 1))
    folder.record("last", *chain_of(9, 1))
    assert "No space left" in (folder.manager.stuck() or "")
    folder.manager.retry()
    folder.workers.run_until_idle()
    assert "last" not in folder.recorded
    folder.disk.capacity = None
    folder.manager.retry()
    folder.workers.run_until_idle()
    assert folder.manager.stuck() is None
    assert folder.recorded == ["1/0", *(f"waits {place}" for place in range(1, number + 1)), "last"]
    assert set(folder.chains()) == set(folder.recorded)


def test_the_record_of_a_drop_may_take_the_room_of_what_it_drops(folder: ManagedFolder) -> None:
    big = folder.plogs.create(plog(77), 9000)
    big.close()
    folder.record("1/0", Init(Link(plog(77), 0)))
    folder.disk.capacity = folder.disk.used
    number = 0
    while folder.manager.stuck() is None:
        number += 1
        folder.record(f"fills {number}", *chain_of(100 * number, 1))
    folder.record("1/0", Dropped([plog(77)]))
    assert 77 in folder.plogs.files()
    folder.manager.retry()
    folder.workers.run_until_idle()
    assert folder.recorded[-1] == "1/0"
    assert folder.manager.stuck() is None
    assert 77 not in folder.plogs.files()


def test_an_owner_that_lost_the_folder_makes_no_plog_the_latest(folder: ManagedFolder) -> None:
    folder.record("1/0", *chain_of(1, 2))
    folder.coordinator.take_over()
    latest, number = folder.latest(), 0
    while folder.manager.stuck() is None:
        number += 1
        folder.record(f"{number}", *chain_of(100 * number, 1))
    assert "no longer owns" in (folder.manager.stuck() or "")
    assert folder.latest() == latest
    assert latest.random in folder.plogs.files()


def test_rollovers_are_refused_while_the_metadata_waits_for_room() -> None:
    folder = SimulatedFolder(settings=FolderSettings(plog_bytes_max=256, metadata_plog_bytes_min=1024))
    folder.open()
    folder.create_topic("a")
    for _ in range(60):
        folder.put("a", 1, 100)
        folder.run()
    # Room for plogs of the log, whose list of sixty needs one of many kilobytes.
    held = folder.put("a", 1, 1)
    folder.run()
    while not folder.unanswered():
        folder.disk.capacity = folder.disk.used + 1000
        held = folder.put("a", 1, 100)
        folder.run()
    assert folder.unanswered() == [held]
    refused = folder.put("a", 1, 500)
    folder.run()
    assert [(type(error), error.outcome) for error in folder.errors] == [(Unavailable, "not_written")]
    assert (refused.fate, folder.unanswered()) == (Fate.GONE, [held])
    folder.check()
    folder.disk.capacity = None
    folder.tick()
    assert held.fate is Fate.ACKED
    again = folder.put("a", 1, 500)
    folder.run()
    assert again.fate is Fate.ACKED
    folder.check()


def test_a_record_keeps_its_place_if_the_frame_before_it_fails_twice(folder: ManagedFolder) -> None:
    # Records so long that they get a frame of their own, and a plog with room for another.
    long = [Link(plog(number), number, 8, number + 1) for number in range(1, 6000)]
    folder.record("1/0", Full(long))
    for number in range(2, 5):
        folder.record(f"{number}/0", *chain_of(7000 + number, 1))
    folder.record("5/0", *chain_of(8000, 1), run=False)
    folder.record("6/0", Full(long), run=False)
    # What both were written to first cannot be synced; the next plog takes the list, and then no frame.
    folder.disk.fail("sync", name_contains=folder.latest().file_name)
    folder.disk.fail("write", after=3, name_contains="plogs/")
    folder.workers.run_until_idle()
    assert folder.disk.faults_left() == 0
    folder.manager.retry()
    folder.workers.run_until_idle()
    assert folder.recorded == [f"{number}/0" for number in range(1, 7)]
    folder.close()
    folder.open()
    assert set(folder.chains()) == set(folder.recorded)


def test_a_nearly_full_disk_gets_the_smallest_metadata_plog(folder: ManagedFolder) -> None:
    folder.record("1/0", Full([Link(plog(number), number, 8, number + 1) for number in range(1, 200)]))
    list_bytes = len(folder.disk.contents(f"plogs/{folder.latest().file_name}"))
    folder.close()
    folder.open()
    # Room for the list and a little more, not for several times the list.
    folder.disk.capacity = folder.disk.used + 3 * list_bytes // 2
    folder.record("2/0", *chain_of(1000, 1))
    assert (folder.manager.stuck(), folder.recorded) == (None, ["1/0", "2/0"])
    assert len(folder.disk.contents(f"plogs/{folder.latest().file_name}")) <= 3 * list_bytes // 2
