"""What goes wrong on the simulated disk when a test asks for it: errors, lack of space, rot, a crash."""

import errno
from collections.abc import Callable
from typing import get_args

import pytest

from cordwood.simulation.disk import SimulatedDisk
from cordwood.simulation.faults import Operation
from cordwood.simulation.power import PowerCut


def durable_file(disk: SimulatedDisk, name: str, contents: bytes) -> None:
    file = disk.create(name)
    file.write([contents], 0)
    file.sync()
    file.close()
    disk.sync_folder("")


def test_a_failed_sync_lies_when_it_is_tried_again() -> None:
    disk = SimulatedDisk()
    durable_file(disk, "a", b"...")
    file = disk.open("a", write=True)
    file.write([b"abcd"], 0)
    disk.fail("sync")
    with pytest.raises(OSError) as caught:
        file.sync()
    assert caught.value.errno == errno.EIO
    file.sync()
    assert disk.contents("a") == b"abcd"
    assert disk.power_cut("none").contents("a") == b"..."
    assert disk.power_cut("all").contents("a") == b"abcd"
    assert disk.killed().power_cut("none").contents("a") == b"..."


def test_what_is_synced_after_a_failed_sync_is_durable_over_a_gap() -> None:
    disk = SimulatedDisk()
    file = disk.create("a")
    disk.sync_folder("")
    file.write([b"one"], 0)
    disk.fail("sync")
    with pytest.raises(OSError):
        file.sync()
    file.write([b"two"], 3)
    file.sync()
    assert disk.power_cut("none").contents("a") == bytes(3) + b"two"
    file.write([b"1"], 0)
    file.sync()
    assert disk.power_cut("none").contents("a") == b"1\0\0two"


def test_a_failed_sync_of_a_folder_lies_too() -> None:
    disk = SimulatedDisk()
    disk.create("a").close()
    disk.fail("sync_folder")
    with pytest.raises(OSError):
        disk.sync_folder("")
    disk.create("b").close()
    disk.sync_folder("")
    assert disk.power_cut("none").names() == ["b"]


def test_a_fault_waits_for_its_operation_and_its_name() -> None:
    disk = SimulatedDisk()
    file, other = disk.create("plog"), disk.create("other")
    disk.fail("write", name_contains="plo", error=errno.ENOSPC, times=2, after=1)
    other.write([b"x"], 0)
    file.write([b"a"], 0)
    for _ in range(2):
        with pytest.raises(OSError) as caught:
            file.write([b"b"], 0)
        assert caught.value.errno == errno.ENOSPC
    other.write([b"x"], 0)
    assert disk.contents("plog") == b"a"
    file.write([b"c"], 0)
    assert disk.contents("plog") == b"c"


def test_a_failed_write_may_have_written_some_of_it() -> None:
    disk = SimulatedDisk()
    file = disk.create("a")
    disk.fail("write", written=2)
    with pytest.raises(OSError):
        file.write([b"abc"], 0)
    assert disk.contents("a") == b"ab"


def test_every_operation_can_fail_and_changes_nothing_then() -> None:
    disk = SimulatedDisk()
    durable_file(disk, "a", b"abc")
    file = disk.open("a", write=True)
    uses: dict[Operation, Callable[[], object]] = {
        "create": lambda: disk.create("b"),
        "remove": lambda: disk.remove("a"),
        "replace": lambda: disk.replace("a", "b"),
        "make_folder": lambda: disk.make_folder("folder"),
        "sync_folder": lambda: disk.sync_folder(""),
        "write": lambda: file.write([b"x"], 0),
        "sync": file.sync,
        "allocate": lambda: file.allocate(100),
        "truncate": lambda: file.truncate(0),
        "read": lambda: file.read(1, 0),
        "coordinator": lambda: disk.step("coordinator", "trim"),
    }
    assert set(uses) == set(get_args(Operation))
    for operation, use in uses.items():
        disk.fail(operation)
        with pytest.raises(OSError):
            use()
    assert disk.names() == ["a"]
    assert disk.contents("a") == b"abc"


def test_a_full_disk_changes_nothing_and_removing_frees_its_space() -> None:
    disk = SimulatedDisk(capacity=1000)
    first, second = disk.create("first"), disk.create("second")
    first.allocate(600)
    second.write([b"x" * 400], 0)
    with pytest.raises(OSError) as caught:
        second.allocate(401)
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(OSError) as caught:
        second.write([b"yy"], 399)
    assert caught.value.errno == errno.ENOSPC
    assert disk.contents("second") == b"x" * 400
    first.write([b"reserved"], 592)
    first.truncate(500)
    second.allocate(500)
    disk.remove("first")
    with pytest.raises(OSError):
        second.allocate(501)
    first.close()
    second.allocate(1000)
    assert disk.used == 1000


def scenario(disk: SimulatedDisk) -> None:
    disk.make_folder("plogs")
    disk.sync_folder("")
    file = disk.create("plogs/1")
    file.allocate(2048)
    file.sync()
    disk.sync_folder("plogs")
    file.write([b"x" * 700], 0)
    file.sync()
    file.truncate(700)
    disk.replace("plogs/1", "plogs/2")
    disk.remove("plogs/2")
    disk.sync_folder("plogs")


def test_the_power_fails_at_every_operation_and_stays_off() -> None:
    whole = SimulatedDisk()
    scenario(whole)
    assert whole.operations == len(whole.history) == 12
    for operation in range(1, whole.operations + 1):
        disk = SimulatedDisk()
        disk.crash_at(operation)
        with pytest.raises(PowerCut):
            scenario(disk)
        assert disk.operations == operation
        assert disk.history == whole.history[:operation]
        with pytest.raises(PowerCut):
            disk.create("late")
        with pytest.raises(PowerCut):
            disk.list("")
        with pytest.raises(PowerCut):
            disk.sync_folder("")
        assert disk.operations == operation


def test_a_crash_at_an_operation_that_is_over_takes_the_power_at_once() -> None:
    disk = SimulatedDisk()
    durable_file(disk, "a", b"abc")
    disk.crash_at(1)
    with pytest.raises(PowerCut):
        disk.list("")


def test_a_crash_passes_through_the_handling_of_errors() -> None:
    disk = SimulatedDisk()
    disk.crash_at(1)
    disk.fail("create")
    with pytest.raises(PowerCut):
        try:
            disk.create("a")
        except Exception:
            pytest.fail("went on without power")


def test_files_can_be_closed_and_nothing_else_without_power() -> None:
    disk = SimulatedDisk()
    file = disk.create("a")
    disk.crash_at(2)
    with pytest.raises(PowerCut):
        file.sync()
    for use in (lambda: file.read(1, 0), file.size, lambda: file.write([b"x"], 0)):
        with pytest.raises(PowerCut):
            use()
    file.close()


def test_the_write_that_is_cut_may_be_found() -> None:
    disk = SimulatedDisk()
    durable_file(disk, "a", b"...")
    disk.crash_at(disk.operations + 1)
    with pytest.raises(PowerCut):
        disk.open("a", write=True).write([b"abc"], 0)
    assert disk.power_cut("none").contents("a") == b"..."
    assert disk.power_cut("all").contents("a") == b"abc"


def test_a_kill_may_stop_a_write_half_way() -> None:
    disk = SimulatedDisk()
    durable_file(disk, "a", b"...")
    file = disk.open("a", write=True)
    disk.crash_at(disk.operations + 1, written=2)
    with pytest.raises(PowerCut):
        file.write([b"abc"], 0)
    assert disk.killed().contents("a") == b"ab."


def test_the_sync_that_is_cut_has_made_nothing_sure() -> None:
    disk = SimulatedDisk()
    durable_file(disk, "a", b"...")
    file = disk.open("a", write=True)
    file.write([b"abc"], 0)
    disk.create("b").close()
    disk.crash_at(disk.operations + 1)
    for sync in (file.sync, lambda: disk.sync_folder("")):
        with pytest.raises(PowerCut):
            sync()
    assert disk.power_cut("none").names() == ["a"]
    assert disk.power_cut("none").contents("a") == b"..."
    assert disk.power_cut("all").names() == ["a", "b"]
    assert disk.power_cut("all").contents("a") == b"abc"


def test_a_flipped_bit_stays_flipped_whatever_is_synced_or_lost() -> None:
    disk = SimulatedDisk()
    durable_file(disk, "a", b"abc")
    file = disk.open("a", write=True)
    file.write([b"X"], 2)
    disk.flip_bit("a", 8)
    disk.flip_bit("a", 16)
    assert disk.contents("a") == b"acY"
    assert disk.power_cut("none").contents("a") == b"acb"
    file.sync()
    assert disk.power_cut("none").contents("a") == b"acY"
    with pytest.raises(ValueError, match="outside"):
        disk.flip_bit("a", 24)
