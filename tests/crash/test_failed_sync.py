"""A sync, a write or a new file that fails is final for that plog, and the caller gets the right outcome."""

from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from cordwood.errors import Unavailable
from cordwood.log.native.chain.chain import Link
from cordwood.log.native.chain.records import Full, Incremental, Init
from cordwood.log.native.env.clock import Clock
from cordwood.log.native.metadata.manager import MetadataManager
from cordwood.log.native.plog import PlogId, PlogStore
from cordwood.simulation.clock import SimulatedClock
from cordwood.simulation.coordinator import SimulatedCoordinator
from cordwood.simulation.disk import SimulatedDisk
from cordwood.simulation.folder import SimulatedFolder
from cordwood.simulation.ledger import Fate
from cordwood.simulation.power import PowerCut
from cordwood.simulation.workers import SimulatedWorkers


@pytest.fixture
def folder() -> SimulatedFolder:
    folder = SimulatedFolder()
    folder.open()
    folder.create_topic("a")
    folder.put("a", 2)
    folder.run()
    return folder


def last_plog(folder: SimulatedFolder) -> str:
    link = folder.log("a").extent().chain.last
    assert link is not None
    return f"plogs/{link.id.file_name}"


def syncs_of(folder: SimulatedFolder, name: str) -> int:
    return sum(entry.endswith(f" sync {name}") for entry in folder.disk.history)


def test_a_plog_whose_sync_failed_is_never_synced_again(
    folder: SimulatedFolder,
) -> None:
    failed = last_plog(folder)
    folder.disk.fail("sync", name_contains=failed)
    write = folder.put("a", 3)
    folder.run()
    assert write.fate is Fate.ACKED
    assert last_plog(folder) != failed
    writes = [entry for entry in folder.disk.history if f" write {failed} " in entry]
    tries = syncs_of(folder, failed)
    folder.put("a")
    folder.run()
    # What comes after is its seal, at the end that was synced before: a write and a sync behind all of its records.
    assert len([entry for entry in folder.disk.history if f" write {failed} " in entry]) <= len(writes) + 1
    assert syncs_of(folder, failed) <= tries + 1
    for found in (folder.power_cut("none"), folder.power_cut("all")):
        found.open()
        found.check(settle=True)


def test_a_write_that_failed_half_way_leaves_nothing_to_be_seen(folder: SimulatedFolder) -> None:
    folder.disk.fail("write", name_contains="plogs/", written=100)
    folder.put("a", 3)
    folder.run()
    assert not folder.errors
    folder.check()
    for crash in (folder.power_cut("all"), folder.killed()):
        crash.open()
        crash.check(settle=True)


@pytest.mark.parametrize("operation", ["sync", "write"])
def test_two_failures_in_a_row_make_the_outcome_unknown(folder: SimulatedFolder, operation: str) -> None:
    folder.disk.fail(operation, name_contains="plogs/", times=2)  # type: ignore[arg-type]  # one of two operations
    folder.put("a", 3)
    folder.run()
    assert [(type(error), error.outcome) for error in folder.errors] == [(Unavailable, "unknown")]
    folder.check()
    folder.put("a")
    folder.run()
    assert len(folder.errors) == 1
    folder.check()
    found = folder.power_cut("all")
    found.open()
    found.check(settle=True)


def test_no_room_after_a_failed_sync_is_an_unknown_outcome(
    folder: SimulatedFolder,
) -> None:
    folder.disk.fail("sync", name_contains="plogs/")
    folder.disk.fail("create", name_contains="plogs/", times=2)
    write = folder.put("a")
    folder.run()
    assert [error.outcome for error in folder.errors] == ["unknown"]
    killed = folder.killed()
    killed.open()
    killed.check(settle=True)
    assert killed.ledger("a").writes[write.number].fate is Fate.ACKED


def test_a_tail_whose_sync_failed_is_durable_once_recovery_shows_it(
    folder: SimulatedFolder,
) -> None:
    folder.disk.fail("sync", name_contains="plogs/")
    folder.disk.fail("create", name_contains="plogs/", times=2)
    folder.put("a", 4)
    folder.run()
    killed = folder.killed()
    killed.open()
    killed.check(settle=True)
    # The kernel held those pages for written: only writing them once more puts them on the disk.
    cut = killed.power_cut("none")
    cut.open()
    cut.check(settle=True)


def test_a_recovery_whose_sync_failed_can_be_tried_again(folder: SimulatedFolder) -> None:
    folder.disk.crash_at(folder.disk.operations + 2)
    folder.put("a", 4)
    with pytest.raises(PowerCut):
        folder.run()
    killed = folder.killed()
    killed.open()
    killed.disk.fail("sync", name_contains="plogs/")
    with pytest.raises(OSError):
        killed.check()
    killed.check(settle=True)
    cut = killed.power_cut("none")
    cut.open()
    cut.check(settle=True)


def test_a_plog_that_cannot_be_created_refuses_the_append_alone(folder: SimulatedFolder) -> None:
    folder.disk.fail("create", name_contains="plogs/", times=5)
    big = folder.put("a", 1, 5000)
    folder.run()
    assert big.fate is Fate.GONE
    assert [error.outcome for error in folder.errors] == ["not_written"]
    small = folder.put("a", 1, 10)
    folder.run()
    assert small.fate is Fate.ACKED
    folder.check()


def each_failure_of_the_metadata(fail: Callable[[SimulatedFolder, int], None]) -> None:
    """Two logs roll over again and again, while an operation on plogs fails for some time, at every moment once."""
    for after in range(40):
        folder = SimulatedFolder()
        folder.open()
        folder.create_topic("a")
        folder.create_topic("b")
        fail(folder, after)
        for _ in range(5):
            folder.put("a", 1, 3000)
            folder.put("b", 1, 3000)
            folder.run()
        folder.disk.forget_faults()
        folder.tick()
        folder.tick()
        assert not folder.unanswered(), after
        folder.check()
        for crash in (folder.power_cut("none"), folder.killed()):
            crash.open()
            crash.check(settle=True)


def test_a_metadata_record_that_failed_never_passes_for_recorded() -> None:
    each_failure_of_the_metadata(lambda folder, after: folder.disk.fail("write", after=after, times=4))


def test_a_metadata_stream_whose_sync_fails_continues_in_another_plog() -> None:
    each_failure_of_the_metadata(lambda folder, after: folder.disk.fail("sync", after=after, times=4))


def test_a_coordinator_that_fails_at_its_commit_only_holds_acks_back() -> None:
    each_failure_of_the_metadata(
        lambda folder, after: folder.disk.fail(
            "coordinator", name_contains="set_metadata_plog", after=after // 4, times=1 + after % 4
        )
    )


def metadata_on(disk: SimulatedDisk, workers: SimulatedWorkers, clock: Clock) -> MetadataManager:
    plogs, coordinator = PlogStore(disk), SimulatedCoordinator(disk)
    plogs.prepare()
    return MetadataManager(
        plogs,
        workers,
        clock,
        coordinator,
        epoch=coordinator.take_over(),
        new_id=lambda: PlogId.new("local", "0"),
        published=None,
        plog_bytes_min=1024,
        on_durable=lambda durable: None,
        on_rollover=lambda durable: True,
    )


def test_a_group_larger_than_the_list_fits_into_a_new_metadata_plog() -> None:
    disk, workers = SimulatedDisk(), SimulatedWorkers(Random(1))
    metadata = metadata_on(disk, workers, SimulatedClock())
    recorded: list[str] = []
    ids = [PlogId("local", "0", number) for number in range(1, 500)]
    metadata.record("long", [Full([Link(id, 0, 8, 1, 1) for id in ids[:100]])], lambda: recorded.append("long"))
    workers.run_until_idle()
    for id in ids[100:]:
        metadata.record(str(id.random), [Init(Link(id, 0))], partial(recorded.append, str(id.random)))
    workers.run_until_idle()
    assert recorded == ["long", *(str(id.random) for id in ids[100:])]
    assert [len(metadata.chains[service]) for service in recorded] == [100] + 399 * [1]


class BrokenClock(SimulatedClock):
    """Stands for any defect in the writing of metadata."""

    broken = False

    def time_ms(self) -> int:
        if self.broken:
            raise ValueError("the clock is broken")
        return super().time_ms()


def test_a_defect_in_the_writing_of_metadata_confirms_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    workers, clock = SimulatedWorkers(Random(1)), BrokenClock()
    metadata = metadata_on(SimulatedDisk(), workers, clock)
    first, second, third = (PlogId("local", "0", number) for number in (1, 2, 3))
    recorded: list[str] = []
    metadata.record("a", [Init(Link(first, 0))], lambda: recorded.append("first"))
    workers.run_until_idle()
    clock.broken = True
    metadata.record("a", [Incremental(Link(first, 0, 8, 1), Link(second, 1))], lambda: recorded.append("second"))
    workers.run_until_idle()
    metadata.record("a", [Incremental(Link(second, 1, 8, 2), Link(third, 2))], lambda: recorded.append("third"))
    workers.run_until_idle()
    assert recorded == ["first"]
    assert "the clock is broken" in (metadata.stuck() or "")
    assert "the clock is broken" in caplog.text
    caplog.clear()
    clock.broken = False
    metadata.retry()
    workers.run_until_idle()
    assert recorded == ["first", "second", "third"]
    assert metadata.stuck() is None
    assert [link.id for link in metadata.chains["a"]] == [first, second, third]
