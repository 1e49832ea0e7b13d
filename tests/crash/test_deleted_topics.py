"""Deleted topics: beside the sweep of an open, and beside a topic that is made at once."""

import pytest

from cordwood.log.native.folder.observer import FolderObserver
from cordwood.log.topics import TopicConfig
from cordwood.simulation.folder import SimulatedFolder


def killed_with_two_topics(seed: int) -> SimulatedFolder:
    folder = SimulatedFolder(seed=seed)
    folder.open()
    for topic in ("kept", "deleted"):
        folder.create_topic(topic)
        folder.put(topic)
    folder.run()
    return folder.killed(seed=seed)


@pytest.mark.parametrize("seed", range(60))
def test_a_topic_that_is_deleted_right_after_an_open_is_forgotten_once(seed: int) -> None:
    folder = killed_with_two_topics(seed)
    folder.open()
    folder.log("deleted").extent()  # used: where its last plog ends is to be recorded
    folder.delete_topic("deleted")
    folder.put("kept")
    folder.run()
    for _ in range(5):
        folder.tick()
    assert folder.unanswered() == []
    again = folder.killed(seed=seed)
    again.open()
    again.check()


@pytest.mark.parametrize("seed", range(30))
def test_the_last_end_of_a_deleted_topic_is_not_that_of_a_new_one(seed: int) -> None:
    folder = SimulatedFolder(seed=seed)
    folder.open()
    folder.create_topic("deleted")
    folder.put("deleted")
    folder.run()
    folder.put("deleted")  # under way
    folder.delete_topic("deleted")
    folder.create_topic("new")
    folder.put("new")
    folder.run()
    beside = FolderObserver(folder.disk, lambda: True).log("new", 0)
    assert beside.extent().durable == folder.log("new").extent().durable


@pytest.mark.parametrize("seed", range(20))
def test_the_next_open_sweeps_a_folder_that_was_closed_before_its_sweep(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    folder = killed_with_two_topics(seed)
    folder.open()
    folder.delete_topic("deleted")
    crashed = folder.killed(seed=seed)  # the topic is gone, its plogs are not
    crashed.open()
    crashed.close()
    again = crashed.killed(seed=seed)
    again.open()
    again.run()
    again.check()
    assert caplog.records == []


@pytest.mark.parametrize("seed", range(20))
def test_a_folder_that_is_closed_waits_for_what_is_left_of_a_deleted_topic(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    folder = SimulatedFolder(seed=seed)
    folder.open()
    folder.create_topic("deleted", TopicConfig(partitions=3))
    folder.put("deleted")
    folder.run()
    for partition in range(2):
        folder.put("deleted", 1, 3000, partition=partition)  # under way, into new plogs
    told: list[str] = []
    folder.engine.delete_topic("deleted", lambda: told.append("deleted"))
    folder.engine.close(lambda: told.append("closed"))
    folder.run()
    assert (told, folder.unanswered(), caplog.records) == (["deleted", "closed"], [], [])
    assert len([name for name in folder.disk.names() if name.startswith("plogs/")]) == 1
