"""How large the plogs of a log are, and that the one that is made ahead is the one that is used."""

import threading
from itertools import count

import pytest

from cordwood.log.native.env.workers import Job
from cordwood.log.native.folder.writer import FolderSettings
from cordwood.log.native.plog import PlogId, PlogStore
from cordwood.log.native.stream.spare import PlogMaker
from cordwood.log.topics import TopicConfig
from cordwood.simulation.disk import SimulatedDisk
from cordwood.simulation.folder import SimulatedFolder
from tests.support.folder.one_log import OneLog

MIB = 1024 * 1024
LARGE = bytes(MIB)


@pytest.fixture
def one() -> OneLog:
    return OneLog(FolderSettings(), used=False)


def appended(one: OneLog, value: bytes, times: int) -> list[int]:
    """The MiB of each plog that was made for it, in their order; those of the metadata stream are smaller."""
    before = len(one.folder.disk.history)
    for _ in range(times):
        one.submit(value)
        one.run()
    made = [entry for entry in one.folder.disk.history[before:] if " allocate plogs/" in entry]
    return [size // MIB for size in (int(entry.split()[-1]) for entry in made) if size >= MIB]


def test_a_log_of_small_appends_begins_small_and_grows(one: OneLog) -> None:
    assert appended(one, bytes(100), 1) == [1]
    assert appended(one, bytes(MIB // 8), 40) == [4, 16]
    assert appended(one, bytes(MIB // 8), 200) == [16, 16]


def test_a_log_that_begins_with_a_large_append_has_room_for_more_of_them(one: OneLog) -> None:
    assert appended(one, LARGE, 7) == [16]
    # The next one is made when half of it is full, and nothing else when that is needed.
    assert appended(one, LARGE, 10) == [16]
    assert len(one.log.extent().chain.links) == 2


def test_a_large_append_to_a_small_log_makes_the_next_plog_large(one: OneLog) -> None:
    appended(one, bytes(100), 1)
    assert appended(one, LARGE, 2) == [16]


def nearly_full(room: int) -> OneLog:
    """A folder with one log that has a record, on a disk with so much room left."""
    folder = SimulatedFolder(settings=FolderSettings(), disk=SimulatedDisk(capacity=64 * MIB))
    folder.open()
    folder.create_topic("a")
    one = OneLog.of(folder)
    one.submit(b"first")
    one.run()
    folder.disk.capacity = folder.disk.used + room
    return one


def test_a_disk_without_room_for_a_large_plog_gets_a_small_one() -> None:
    one = nearly_full(5 * MIB)
    caller = one.submit(LARGE)
    one.run()
    assert caller.offsets == range(1, 2)
    assert one.values() == [b"first", LARGE]


def test_a_smaller_spare_plog_is_used_where_there_is_no_room() -> None:
    one = nearly_full(4 * MIB + 65536)
    one.submit(bytes(MIB // 2))  # makes the next one, of 4 MiB
    one.run()
    appended(one, LARGE, 3)
    assert len(one.log.extent().chain.links) == 2
    assert len(one.values()) == 5


def test_an_idle_log_continues_in_a_small_plog_where_there_is_no_room() -> None:
    one = nearly_full(MIB)
    one.folder.clock.advance(60)
    one.folder.engine.give_space_back()
    one.run()
    one.folder.disk.capacity = one.folder.disk.used + MIB // 2
    caller = one.submit(b"second")
    one.run()
    assert caller.offsets == range(1, 2)
    assert one.values() == [b"first", b"second"]


class AtOnce:
    """Workers that do each job when they are asked to."""

    def spawn(self, job: Job) -> None:
        job()

    def wait(self, happened: threading.Event) -> None:
        assert happened.is_set()


def test_a_spare_plog_that_is_too_small_leaves_its_room_to_a_larger_one() -> None:
    plogs = PlogStore(SimulatedDisk(capacity=6000))
    plogs.prepare()
    numbers = count(1)
    maker = PlogMaker(plogs, AtOnce(), lambda: PlogId("local", "0", next(numbers)))
    maker.make_ahead(2000)
    assert plogs.files() == {1}
    assert maker.make(5000, 5000).size == 5000
    assert plogs.files() == {2}


def test_what_a_disk_has_no_room_for_is_refused_with_its_size() -> None:
    one = nearly_full(MIB // 2)
    caller = one.submit(LARGE)
    one.run()
    assert caller.error.outcome == "not_written"
    assert "no new plog of 1048" in str(caller.error)
    smaller = one.submit(bytes(MIB // 4))
    one.run()
    assert smaller.offsets == range(1, 2)


def test_written_logs_with_a_spare_plog_hold_no_extra_files() -> None:
    folder = SimulatedFolder(settings=FolderSettings(plog_bytes_max=2000, open_plogs_max=4))
    folder.open()
    folder.create_topic("a", TopicConfig(partitions=20))
    for _ in range(10):
        for partition in range(20):
            folder.put("a", 1, 400, partition=partition)
            folder.run()
            assert folder.engine.plogs._open_plogs <= 4 + 1
    assert len(folder.log("a").extent().chain) > 2
    folder.check()
    plogs = folder.engine.plogs
    folder.close()
    assert plogs._open_plogs == 0


def test_a_spare_that_cannot_be_opened_refuses_the_append_and_is_replaced() -> None:
    one = OneLog(FolderSettings(plog_bytes_max=2000, open_plogs_max=0))
    one.submit(bytes(1000))
    one.run()
    spare = f"plogs/{newest_plog(one)}"
    one.folder.disk.remove(spare)
    refused = one.submit(bytes(1000))
    one.run()
    assert refused.error.outcome == "not_written"
    assert "the next plog cannot be opened" in str(refused.error)
    again = one.submit(bytes(1000))
    one.run()
    assert again.offsets == range(2, 3)


def newest_plog(one: OneLog) -> str:
    """The name of the one that was made last."""
    made = [entry for entry in one.folder.disk.history if " create plogs/" in entry]
    return made[-1].split("/")[-1]
