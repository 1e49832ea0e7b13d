"""One plog on the simulated disk: what it takes, what it refuses, and what a power cut leaves of it."""

import errno

import pytest

from cordwood.errors import Conflict, InvalidInput, NotFound, Sealed, TooLarge, Unavailable
from cordwood.log.native.plog import APPEND_BYTES_MAX, Plog, PlogId, PlogStatus, PlogStore, sealed_end
from cordwood.log.native.plog.seal import SEAL_BYTES, Seal
from cordwood.simulation.disk import SimulatedDisk
from cordwood.simulation.faults import Operation

ID = PlogId("local", "0", 255)
FILE = f"plogs/{ID.file_name}"


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def plogs(disk: SimulatedDisk) -> PlogStore:
    store = PlogStore(disk)
    store.prepare()
    return store


@pytest.fixture
def plog(plogs: PlogStore) -> Plog:
    return plogs.create(ID, 1000)


def put(plog: Plog, data: bytes, position: int | None = None) -> None:
    plog.append([(0, [data], len(data))], len(data), plog.end if position is None else position)


def seal(plog: Plog, end: int) -> int:
    return plog.seal(end, next_offset=7, max_timestamp=9)


# -- create ------------------------------------------------------------------------------------------------------


def test_a_new_plog_is_empty_and_reserves_space_for_its_seal(plog: Plog, disk: SimulatedDisk) -> None:
    assert plog.status() == PlogStatus(end=0, synced_end=0, size=1000, sealed=False)
    assert disk.used == 1000 + SEAL_BYTES
    disk.capacity = disk.used
    put(plog, bytes(1000))
    seal(plog, 1000)


def test_a_new_plog_has_a_name_that_a_power_cut_leaves(plog: Plog, disk: SimulatedDisk) -> None:
    assert len(disk.power_cut("none").contents(FILE)) == 1000 + SEAL_BYTES


def test_a_plog_that_exists_already_is_a_conflict_and_stays_as_it_is(plog: Plog, plogs: PlogStore) -> None:
    put(plog, b"mine")
    with pytest.raises(Conflict, match=str(ID)):
        plogs.create(ID, 50)
    assert bytes(plog.read(10, 0)) == b"mine"


def test_a_full_disk_makes_no_plog_and_leaves_nothing_behind(plogs: PlogStore, disk: SimulatedDisk) -> None:
    disk.capacity = 1000
    with pytest.raises(OSError) as caught:
        plogs.create(ID, 1000)
    assert caught.value.errno == errno.ENOSPC
    assert (disk.names(), disk.used) == ([], 0)
    disk.capacity = 2000
    assert plogs.create(ID, 1000).size == 1000


@pytest.mark.parametrize("operation", ["allocate", "sync", "sync_folder"])
def test_a_plog_that_could_not_be_made_durable_is_not_there(
    plogs: PlogStore, disk: SimulatedDisk, operation: Operation
) -> None:
    disk.fail(operation)
    with pytest.raises(OSError):
        plogs.create(ID, 1000)
    assert (disk.names(), disk.used) == ([], 0)


@pytest.mark.parametrize("size", [0, 1, 7, 8])
def test_a_plog_may_be_of_any_size(plogs: PlogStore, size: int) -> None:
    plog = plogs.create(ID, size)
    put(plog, bytes(size))
    plog.sync()
    assert plog.status() == PlogStatus(size, size, size, sealed=False)
    assert seal(plog, size) == size


# -- append ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", [-1, 0, 3, 5, 1000])
def test_an_append_goes_to_the_end_and_nowhere_else(plog: Plog, position: int) -> None:
    put(plog, b"four", 0)
    with pytest.raises(Conflict) as caught:
        put(plog, b"more", position)
    assert caught.value.actual == 4
    put(plog, b"more", 4)
    assert bytes(plog.read(100, 0)) == b"fourmore"


def test_an_append_comes_in_pieces_each_at_its_place(plog: Plog) -> None:
    put(plog, b"0")
    plog.append(((at, [b"a", b"bc"], 3) for at in (3, 0)), 6, 1)
    assert bytes(plog.read(100, 0)) == b"0abcabc"


def test_an_append_over_two_mebibytes_is_too_large_and_writes_nothing(plogs: PlogStore) -> None:
    plog = plogs.create(ID, 2 * APPEND_BYTES_MAX)
    with pytest.raises(TooLarge, match=str(APPEND_BYTES_MAX)):
        put(plog, bytes(APPEND_BYTES_MAX + 1))
    assert (plog.end, plog.failed) == (0, None)
    put(plog, bytes(APPEND_BYTES_MAX))
    assert plog.end == APPEND_BYTES_MAX


def test_more_than_there_is_room_for_is_too_large_and_less_still_fits(plog: Plog) -> None:
    put(plog, bytes(990))
    with pytest.raises(TooLarge, match="10 bytes left, 11 are asked for"):
        put(plog, bytes(11))
    put(plog, bytes(10))
    assert plog.end == plog.size


def test_nothing_is_durable_before_a_sync_and_all_of_it_after(plog: Plog, disk: SimulatedDisk) -> None:
    put(plog, b"synced")
    plog.sync()
    put(plog, b"not yet")
    assert plog.status()[:2] == (13, 6)
    assert disk.power_cut("none").contents(FILE)[:13] == b"synced".ljust(13, b"\0")
    plog.sync()
    assert plog.status()[:2] == (13, 13)
    assert disk.power_cut("none").contents(FILE)[:13] == b"syncednot yet"


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_write_or_a_sync_that_failed_is_final(plog: Plog, disk: SimulatedDisk, operation: Operation) -> None:
    put(plog, b"good")
    plog.sync()
    disk.fail(operation)
    with pytest.raises(OSError) as first:
        put(plog, b"bad")
        plog.sync()
    before = disk.operations
    with pytest.raises(Unavailable, match="failed earlier") as write:
        put(plog, b"more")
    with pytest.raises(Unavailable, match="failed earlier") as sync:
        plog.sync()
    assert write.value.__cause__ is sync.value.__cause__ is first.value
    assert (disk.operations, plog.synced_end) == (before, 4)


# -- read --------------------------------------------------------------------------------------------------------


def test_a_read_stops_at_the_end_not_at_the_reserved_space(plog: Plog) -> None:
    put(plog, b"0123456789")
    assert [bytes(plog.read(size, at)) for size, at in [(4, 2), (100, 7), (100, 10), (100, 500), (0, 3)]] == [
        b"2345",
        b"789",
        b"",
        b"",
        b"",
    ]


@pytest.mark.parametrize(("size", "position"), [(-1, 0), (1, -1)])
def test_a_read_below_zero_is_refused(plog: Plog, size: int, position: int) -> None:
    with pytest.raises(InvalidInput):
        plog.read(size, position)


# -- seal --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "sealed"), [(0, 0), (6, 6), (10, 10), (600, 10)])
def test_a_seal_takes_the_smaller_end_and_gives_the_rest_of_the_space_back(
    plog: Plog, plogs: PlogStore, disk: SimulatedDisk, asked: int, sealed: int
) -> None:
    put(plog, b"0123456789")
    plog.sync()
    assert seal(plog, asked) == sealed
    plog.sync()
    assert plog.status() == PlogStatus(sealed, sealed, 1000, sealed=True)
    assert bytes(plog.read(100, 0)) == b"0123456789"[:sealed]
    assert disk.used == sealed + SEAL_BYTES
    found = PlogStore(disk.power_cut("none")).open_file(ID)
    assert sealed_end(found, ID) == sealed
    assert Seal.decode(found.read(100, sealed)) == Seal(255, sealed, 7, 9)


def test_a_seal_below_what_was_synced_takes_the_synced_end_with_it(plog: Plog) -> None:
    put(plog, b"0123456789")
    plog.sync()
    seal(plog, 4)
    assert plog.status()[:2] == (4, 4)


def test_a_second_seal_changes_nothing(plog: Plog, disk: SimulatedDisk) -> None:
    put(plog, b"0123456789")
    seal(plog, 8)
    before = disk.operations
    assert [seal(plog, 8), seal(plog, 2), seal(plog, 100)] == [8, 8, 8]
    assert disk.operations == before


def test_a_sealed_plog_takes_no_more(plog: Plog) -> None:
    put(plog, b"0123456789")
    seal(plog, 8)
    with pytest.raises(Sealed, match="sealed at 8"):
        put(plog, b"more")


# -- delete ------------------------------------------------------------------------------------------------------


def test_a_deleted_plog_is_gone_and_may_be_deleted_again(plog: Plog, plogs: PlogStore, disk: SimulatedDisk) -> None:
    plog.close()
    plogs.delete(ID)
    plogs.delete(ID)
    assert (disk.names(), plogs.files(), disk.used) == ([], set(), 0)
    with pytest.raises(NotFound, match=str(ID)):
        plogs.open_file(ID)


def test_a_plog_that_cannot_be_deleted_now_is_nobody_s_error(plog: Plog, plogs: PlogStore, disk: SimulatedDisk) -> None:
    disk.fail("remove")
    plogs.delete(ID)
    assert plogs.files() == {255}


def test_files_that_are_no_plogs_are_not_taken_for_one(plog: Plog, plogs: PlogStore, disk: SimulatedDisk) -> None:
    for name in ("notes.txt", "copy of a.plog", "ff.plog", f"{255:016X}.plog"):
        disk.create(f"plogs/{name}")
    assert plogs.files() == {255}
