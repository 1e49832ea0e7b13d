"""One suite for SQLite and for the coordinator of the simulation, so that the second can replace the first."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from cordwood.errors import Conflict, Fenced, NotFound
from cordwood.log.native.coordinator import Coordinator, LogRow, SqliteCoordinator, TopicRow
from cordwood.log.topics import TopicConfig
from cordwood.simulation.coordinator import SimulatedCoordinator
from cordwood.simulation.disk import SimulatedDisk

Reopen = Callable[[Coordinator], Coordinator]


@pytest.fixture(params=["sqlite", "simulated"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Coordinator, Reopen]]:
    """A new coordinator, and how the next process opens what it left."""
    found: list[Coordinator] = []

    def reopen(before: Coordinator) -> Coordinator:
        if isinstance(before, SimulatedCoordinator):
            return before.after_crash(SimulatedDisk())
        # What a process leaves that was killed: its file is not closed.
        found.append(SqliteCoordinator(tmp_path / "coordinator.db"))
        return found[-1]

    if request.param == "simulated":
        found.append(SimulatedCoordinator(SimulatedDisk()))
    else:
        found.append(SqliteCoordinator(tmp_path / "coordinator.db"))
    yield found[0], reopen
    for coordinator in found:
        coordinator.close()


@pytest.fixture
def coordinator(opened: tuple[Coordinator, Reopen]) -> Coordinator:
    return opened[0]


@pytest.fixture
def reopen(opened: tuple[Coordinator, Reopen]) -> Reopen:
    return opened[1]


def topic(coordinator: Coordinator, name: str) -> TopicRow:
    return coordinator.create_topic(name, TopicConfig())


def logs(coordinator: Coordinator) -> dict[tuple[int, int], tuple[int, int]]:
    return {(row.topic_id, row.partition): (row.start, row.next_offset) for row in coordinator.logs()}


def test_a_new_coordinator_knows_nothing(coordinator: Coordinator) -> None:
    assert (coordinator.topics(), coordinator.logs(), coordinator.metadata_plog()) == ([], [], None)


# -- topics ------------------------------------------------------------------------------------------------------


def test_a_topic_is_kept_as_it_was_made(coordinator: Coordinator) -> None:
    plain = coordinator.create_topic("plain", TopicConfig())
    full = coordinator.create_topic(
        "full", TopicConfig(partitions=7, replication=3, retention=timedelta(milliseconds=2**40), retention_bytes=2**50)
    )
    assert coordinator.topics() == [full, plain]
    assert full == TopicRow(full.id, "full", 7, 3, 2**40, 2**50)


def test_a_topic_has_the_limits_that_it_was_last_given(coordinator: Coordinator, reopen: Reopen) -> None:
    other, row = topic(coordinator, "other"), coordinator.create_topic("a", TopicConfig(retention_bytes=5))
    altered = replace(row, retention_ms=1000, retention_bytes=None)
    coordinator.alter_topic(altered)
    assert coordinator.topics() == [altered, other]
    assert reopen(coordinator).topics() == [altered, other]


def test_a_topic_that_is_gone_cannot_be_altered(coordinator: Coordinator) -> None:
    gone = topic(coordinator, "a")
    coordinator.delete_topic(gone.id)
    new = topic(coordinator, "a")
    with pytest.raises(NotFound, match=f"no topic has the id {gone.id}"):
        coordinator.alter_topic(replace(gone, retention_ms=1))
    assert coordinator.topics() == [new]


def test_topics_are_in_the_order_of_their_names_as_bytes(coordinator: Coordinator) -> None:
    names = ["b", "B", "a", "a-1", "a.1", "a1", "_", "10", "9", "aa"]
    for name in names:
        topic(coordinator, name)
    assert [row.name for row in coordinator.topics()] == sorted(names, key=str.encode)


def test_a_name_that_is_taken_is_a_conflict_and_changes_nothing(coordinator: Coordinator) -> None:
    first = topic(coordinator, "a")
    with pytest.raises(Conflict, match="'a' exists already"):
        coordinator.create_topic("a", TopicConfig(partitions=9, retention=timedelta(milliseconds=1), retention_bytes=1))
    assert coordinator.topics() == [first]
    assert topic(coordinator, "A").id > first.id


def test_the_id_of_a_deleted_topic_is_never_used_again(coordinator: Coordinator, reopen: Reopen) -> None:
    used = set()
    for _ in range(3):
        for _ in range(3):
            row = topic(coordinator, "a")
            assert row.id not in used
            used.add(row.id)
            coordinator.delete_topic(row.id)
        coordinator = reopen(coordinator)
    assert len(used) == 9


def test_deleting_takes_the_trims_of_a_topic_with_it_and_no_others(coordinator: Coordinator) -> None:
    gone, stays = topic(coordinator, "gone"), topic(coordinator, "stays")
    for row in (gone, stays):
        coordinator.trim(row.id, 0, 5, 9)
        coordinator.trim(row.id, 1, 6, 9)
    coordinator.delete_topic(gone.id)
    assert coordinator.topics() == [stays]
    assert logs(coordinator) == {(stays.id, 0): (5, 9), (stays.id, 1): (6, 9)}


def test_deleting_what_is_not_there_is_not_found(coordinator: Coordinator) -> None:
    row = topic(coordinator, "a")
    coordinator.delete_topic(row.id)
    with pytest.raises(NotFound, match=str(row.id)):
        coordinator.delete_topic(row.id)


# -- trims -------------------------------------------------------------------------------------------------------


def test_only_what_was_trimmed_has_a_row(coordinator: Coordinator) -> None:
    row = topic(coordinator, "a")
    assert coordinator.logs() == []
    coordinator.trim(row.id, 3, 5, 8)
    assert coordinator.logs() == [LogRow(row.id, 3, 5, 8)]


@pytest.mark.parametrize(
    ("second", "after"),
    [((7, 9), (7, 9)), ((3, 9), (5, 9)), ((7, 6), (7, 8)), ((0, 0), (5, 8)), ((5, 8), (5, 8))],
    ids=["both go on", "start would go back", "end would go back", "both would", "the same again"],
)
def test_a_trim_never_goes_back(coordinator: Coordinator, second: tuple[int, int], after: tuple[int, int]) -> None:
    row = topic(coordinator, "a")
    coordinator.trim(row.id, 0, 5, 8)
    coordinator.trim(row.id, 0, *second)
    assert logs(coordinator) == {(row.id, 0): after}


def test_a_trim_of_a_topic_that_is_gone_is_not_found_and_leaves_no_row(coordinator: Coordinator) -> None:
    row = topic(coordinator, "a")
    coordinator.delete_topic(row.id)
    with pytest.raises(NotFound, match=str(row.id)):
        coordinator.trim(row.id, 0, 5, 8)
    assert coordinator.logs() == []


# -- the owner ---------------------------------------------------------------------------------------------------


def test_every_owner_has_a_higher_epoch_than_all_before(coordinator: Coordinator, reopen: Reopen) -> None:
    epochs = []
    for _ in range(4):
        epochs += [coordinator.take_over(), coordinator.take_over()]
        coordinator = reopen(coordinator)
    assert epochs == sorted(set(epochs))
    assert epochs[0] > 0


def test_the_owner_sets_the_metadata_plog_from_what_it_was(coordinator: Coordinator) -> None:
    epoch = coordinator.take_over()
    coordinator.set_metadata_plog(epoch, None, "one")
    coordinator.set_metadata_plog(epoch, "one", "two")
    assert coordinator.metadata_plog() == "two"


def test_another_epoch_is_fenced_and_changes_nothing(coordinator: Coordinator, reopen: Reopen) -> None:
    epoch = coordinator.take_over()
    coordinator.set_metadata_plog(epoch, None, "one")
    newer = reopen(coordinator)
    assert newer.take_over() > epoch
    for stale in (epoch, 0, epoch + 2):
        with pytest.raises(Fenced, match=f"epoch {stale}"):
            newer.set_metadata_plog(stale, "one", "two")
    assert newer.metadata_plog() == "one"


@pytest.mark.parametrize("expected", [None, "two", ""])
def test_another_expectation_is_fenced_and_changes_nothing(coordinator: Coordinator, expected: str | None) -> None:
    epoch = coordinator.take_over()
    coordinator.set_metadata_plog(epoch, None, "one")
    with pytest.raises(Fenced):
        coordinator.set_metadata_plog(epoch, expected, "three")
    assert coordinator.metadata_plog() == "one"


# -- commits of staged records -----------------------------------------------------------------------------------


def test_a_plan_is_there_from_its_decision_to_its_end(coordinator: Coordinator, reopen: Reopen) -> None:
    assert coordinator.plan() is None
    coordinator.decide("one")
    coordinator = reopen(coordinator)
    assert coordinator.plan() == "one"
    coordinator.finish("sink", None)
    assert (coordinator.plan(), coordinator.sink_batch("sink")) == (None, None)
    coordinator.decide("two")
    assert coordinator.plan() == "two"


def test_a_second_plan_is_a_conflict_and_changes_nothing(coordinator: Coordinator) -> None:
    coordinator.decide("one")
    with pytest.raises(Conflict, match="not finished yet"):
        coordinator.decide("two")
    assert coordinator.plan() == "one"


def test_the_last_batch_of_each_sink_is_kept_and_never_goes_back(coordinator: Coordinator, reopen: Reopen) -> None:
    for sink, batch in (("a", 0), ("b", 7), ("a", 2**40), ("b", 3)):
        coordinator.finish(sink, batch)
    coordinator = reopen(coordinator)
    assert [coordinator.sink_batch(sink) for sink in ("a", "b", "c")] == [2**40, 7, None]


def test_everything_outlives_the_process(coordinator: Coordinator, reopen: Reopen) -> None:
    epoch = coordinator.take_over()
    a = topic(coordinator, "a")
    b = coordinator.create_topic("b", TopicConfig(partitions=4, retention=timedelta(seconds=1)))
    coordinator.trim(b.id, 3, 5, 8)
    coordinator.set_metadata_plog(epoch, None, "one")
    found = reopen(coordinator)
    assert found.topics() == [a, b]
    assert found.logs() == [LogRow(b.id, 3, 5, 8)]
    assert found.metadata_plog() == "one"
    # Until somebody takes over the owner is who it was.
    found.set_metadata_plog(epoch, "one", "two")


# -- the stamp ---------------------------------------------------------------------------------------------------


def test_every_change_counts_and_a_refused_one_does_not(coordinator: Coordinator, reopen: Reopen) -> None:
    first = coordinator.stamp()
    epoch = coordinator.take_over()
    row = topic(coordinator, "a")
    coordinator.trim(row.id, 0, 5, 8)
    coordinator.set_metadata_plog(epoch, None, "one")
    coordinator.decide("plan")
    coordinator.finish("sink", 1)
    stamp = coordinator.stamp()
    assert (stamp.changes, stamp.rows) == (first.changes + 6, 3)
    refused: list[Callable[[], object]] = [
        lambda: topic(coordinator, "a"),
        lambda: coordinator.delete_topic(row.id + 1),
        lambda: coordinator.trim(row.id + 1, 0, 5, 8),
        lambda: coordinator.set_metadata_plog(epoch + 1, "one", "two"),
    ]
    for call in refused:
        with pytest.raises((Conflict, Fenced, NotFound)):
            call()
    assert coordinator.stamp() == reopen(coordinator).stamp() == stamp
    coordinator.delete_topic(row.id)
    assert (coordinator.stamp().changes, coordinator.stamp().rows) == (stamp.changes + 1, 1)
