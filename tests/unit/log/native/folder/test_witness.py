"""The witness of a coordinator: never more changes than it has, and never fewer than it has confirmed."""

import logging
from collections.abc import Callable
from random import Random

import pytest

from cordwood.errors import Conflict, CordwoodError, Corrupt, NotFound, Unavailable
from cordwood.log.native.coordinator import Coordinator, Stamp
from cordwood.log.native.folder.witness import Witness, WitnessedCoordinator, witnessed_stamp
from cordwood.log.topics import TopicConfig
from cordwood.simulation.coordinator import SimulatedCoordinator
from cordwood.simulation.disk import SimulatedDisk
from cordwood.simulation.faults import Operation
from cordwood.simulation.power import PowerCut

FILE = "published/witness"
OPERATIONS: list[Operation] = ["create", "allocate", "sync", "write"]


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def inner(disk: SimulatedDisk) -> SimulatedCoordinator:
    return SimulatedCoordinator(disk)


def opened(inner: SimulatedCoordinator, disk: SimulatedDisk) -> WitnessedCoordinator:
    return WitnessedCoordinator(inner, Witness(disk))


def use(coordinator: Coordinator) -> None:
    """Every call that changes something."""
    epoch = coordinator.take_over()
    row = coordinator.create_topic("a", TopicConfig())
    coordinator.trim(row.id, 0, 1, 2)
    coordinator.set_metadata_plog(epoch, None, "local/0/00000000000000ff")
    coordinator.decide("plan")
    coordinator.finish("sink", 1)
    coordinator.delete_topic(row.id)


def test_every_change_is_confirmed_when_its_call_returns(inner: SimulatedCoordinator, disk: SimulatedDisk) -> None:
    coordinator = opened(inner, disk)
    calls: list[Callable[[], object]] = [
        coordinator.take_over,
        lambda: coordinator.create_topic("a", TopicConfig()),
        lambda: coordinator.trim(1, 0, 1, 2),
        lambda: coordinator.set_metadata_plog(1, None, "local/0/00000000000000ff"),
        lambda: coordinator.decide("plan"),
        lambda: coordinator.finish("sink", 1),
        lambda: coordinator.delete_topic(1),
    ]
    for number, call in enumerate(calls, 1):
        call()
        assert witnessed_stamp(disk.power_cut("none")) == inner.stamp()
        assert inner.stamp().changes == number


def test_no_power_cut_leaves_a_coordinator_that_is_behind() -> None:
    at = cuts = 0
    cut = True
    while cut:
        at += 1
        disk = SimulatedDisk()
        inner = SimulatedCoordinator(disk)
        disk.crash_at(at)
        try:
            use(opened(inner, disk))
            cut = False
        except PowerCut:
            cuts += 1
        found = [disk.killed(), *(disk.power_cut(Random(seed)) for seed in range(4))]
        for after in found:
            opened(inner.after_crash(after), after).close()
    assert cuts > 20


def test_a_coordinator_that_is_behind_is_corrupt_and_changes_nothing(
    inner: SimulatedCoordinator, disk: SimulatedDisk
) -> None:
    coordinator = opened(inner, disk)
    coordinator.create_topic("a", TopicConfig())
    behind = inner.after_crash(disk)
    coordinator.create_topic("b", TopicConfig())
    before = disk.contents(FILE)
    for _ in range(2):
        with pytest.raises(Corrupt, match=r"has lost changes: it has 1 changes in 1 rows, and 2 in 2 rows"):
            opened(behind, disk)
    assert disk.contents(FILE) == before
    opened(inner, disk)


def test_a_coordinator_with_as_many_changes_and_other_rows_is_corrupt(
    inner: SimulatedCoordinator, disk: SimulatedDisk
) -> None:
    other = inner.after_crash(disk)
    opened(inner, disk).create_topic("a", TopicConfig())
    other.create_topic("b", TopicConfig())
    with pytest.raises(Corrupt, match="has lost changes"):
        opened(other, disk)


def test_a_coordinator_that_is_ahead_is_sound_and_confirmed(inner: SimulatedCoordinator, disk: SimulatedDisk) -> None:
    opened(inner, disk).close()
    inner.create_topic("a", TopicConfig())
    opened(inner, disk).close()
    assert witnessed_stamp(disk) == inner.stamp()


def test_a_change_that_is_not_confirmed_is_unknown_until_the_next_call(
    inner: SimulatedCoordinator, disk: SimulatedDisk
) -> None:
    coordinator = opened(inner, disk)
    for operation in OPERATIONS[-2:]:
        disk.fail(operation, name_contains=FILE)
        with pytest.raises(Unavailable, match=r"published/witness: .* not confirmed; make the call again") as caught:
            coordinator.create_topic(operation, TopicConfig())
        assert caught.value.outcome == "unknown"
        assert witnessed_stamp(disk.power_cut("none")) != inner.stamp()
        with pytest.raises(Conflict):
            coordinator.create_topic(operation, TopicConfig())
        assert witnessed_stamp(disk.power_cut("none")) == inner.stamp()


def test_nothing_is_told_of_a_change_that_cannot_be_confirmed(inner: SimulatedCoordinator, disk: SimulatedDisk) -> None:
    coordinator = opened(inner, disk)
    row = coordinator.create_topic("a", TopicConfig())
    disk.fail("write", name_contains=FILE, times=4)
    for look in (lambda: coordinator.delete_topic(row.id), coordinator.topics, coordinator.plan):
        with pytest.raises(Unavailable):
            look()
    # That it is gone was not confirmed either.
    with pytest.raises(Unavailable):
        coordinator.delete_topic(row.id)
    with pytest.raises(NotFound):
        coordinator.delete_topic(row.id)
    assert witnessed_stamp(disk) == inner.stamp()


def test_a_full_disk_confirms_changes(inner: SimulatedCoordinator, disk: SimulatedDisk) -> None:
    coordinator = opened(inner, disk)
    disk.capacity = disk.used
    use(coordinator)
    coordinator.close()
    opened(inner, disk).take_over()


def test_after_a_failed_sync_the_copy_that_is_sound_is_not_touched(
    inner: SimulatedCoordinator, disk: SimulatedDisk
) -> None:
    coordinator = opened(inner, disk)
    for number in range(4):
        before = inner.stamp()
        disk.fail("sync", name_contains=FILE, times=2)
        for _ in range(2):
            with pytest.raises(Unavailable):
                coordinator.take_over()
        for choose in ("none", "all", Random(number)):
            found = witnessed_stamp(disk.power_cut(choose))
            assert found is not None
            assert found.changes >= before.changes
        coordinator.take_over()


@pytest.mark.parametrize("place", [0, 4096])
def test_of_two_copies_one_may_be_damaged(inner: SimulatedCoordinator, disk: SimulatedDisk, place: int) -> None:
    coordinator = opened(inner, disk)
    coordinator.take_over()
    before = inner.after_crash(disk)
    coordinator.take_over()
    coordinator.take_over()
    disk.flip_bit(FILE, 8 * (place + 10))
    with pytest.raises(Corrupt, match="has lost changes"):
        opened(before, disk)
    opened(inner, disk).take_over()
    assert witnessed_stamp(disk) == inner.stamp()


def test_a_witness_that_is_gone_is_made_anew_and_said(
    inner: SimulatedCoordinator, disk: SimulatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    use(opened(inner, disk))
    assert not caplog.records
    disk.remove(FILE)
    assert witnessed_stamp(disk) is None
    opened(inner, disk).close()
    assert witnessed_stamp(disk) == inner.stamp()
    (record,) = caplog.records
    assert (record.levelno, "published/witness was gone or damaged" in record.getMessage()) == (logging.WARNING, True)


def test_an_opening_that_fails_leaves_no_file_open(inner: SimulatedCoordinator, disk: SimulatedDisk) -> None:
    for operation in OPERATIONS:
        disk.fail(operation, name_contains=FILE)
        with pytest.raises((CordwoodError, OSError)):
            opened(inner, disk)
        assert disk.open_files() == []
    opened(inner, disk)
    assert witnessed_stamp(disk) == Stamp(*inner.stamp())
