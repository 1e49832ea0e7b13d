"""Asking the engine for a log, which event loops do."""

import threading

import pytest

from cordwood.errors import NotFound
from cordwood.log.topics import TopicChange, TopicConfig
from cordwood.simulation.folder import SimulatedFolder


@pytest.fixture
def folder() -> SimulatedFolder:
    folder = SimulatedFolder()
    folder.open()
    folder.create_topic("a", TopicConfig(partitions=2))
    return folder


def test_a_log_is_found_while_a_topic_is_being_made(folder: SimulatedFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    making, go_on, found = threading.Event(), threading.Event(), threading.Event()
    create = folder.coordinator.create_topic

    def slow(*arguments: object) -> object:
        making.set()
        go_on.wait(10)
        return create(*arguments)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(folder.coordinator, "create_topic", slow)
    maker = threading.Thread(target=lambda: folder.engine.create_topic("b", TopicConfig()))
    maker.start()
    assert making.wait(10)

    def ask() -> None:
        folder.engine.log("a", 1)
        found.set()

    asker = threading.Thread(target=ask)
    asker.start()
    try:
        assert found.wait(5), "the disk is waited for"
    finally:
        go_on.set()
        maker.join()
        asker.join()


def test_no_log_comes_to_life_for_a_topic_that_was_just_deleted(
    folder: SimulatedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = folder.engine._published_topic("a")
    folder.engine.delete_topic("a", lambda: None)
    folder.run()
    # As a caller that had looked the topic up before the delete.
    monkeypatch.setattr(folder.engine, "_published_topic", lambda name: before)
    with pytest.raises(NotFound, match="'a' was deleted"):
        folder.engine.log("a", 0)


def test_a_log_comes_to_life_for_a_topic_that_was_just_altered(
    folder: SimulatedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = folder.engine._published_topic("a")
    folder.engine.alter_topic("a", TopicChange(retention_bytes=1))
    # As a caller that had looked the topic up before the change.
    monkeypatch.setattr(folder.engine, "_published_topic", lambda name: before)
    assert folder.engine.log("a", 0).name == "a/0"
