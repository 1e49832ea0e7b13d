"""Retention by age and by size, on plogs so small that each append of 3,000 bytes has one of its own."""

import errno
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from cordwood.errors import Corrupt, Unavailable
from cordwood.log.native.folder.observer import FolderObserver
from cordwood.log.topics import TopicChange, TopicConfig
from cordwood.simulation.coordinator import SimulatedCoordinator
from cordwood.simulation.folder import SimulatedFolder, check_trimmed, read_all
from tests.support.lock_order import meanwhile

BIG = 3000
MINUTE_MS = 60_000


@pytest.fixture
def folder() -> SimulatedFolder:
    folder = SimulatedFolder()
    folder.open()
    return folder


def put(folder: SimulatedFolder, topic: str = "a", *, size: int = BIG) -> None:
    folder.put(topic, 1, size)
    folder.run()


def enforce(folder: SimulatedFolder) -> None:
    folder.enforce_retention()
    folder.run()
    folder.check()


def bounds(folder: SimulatedFolder, topic: str = "a") -> tuple[int, int]:
    view = folder.log(topic).extent()
    return view.start, view.durable.next_offset


def plogs_of(folder: SimulatedFolder, topic: str = "a") -> int:
    """How many plogs the log has, each of which is a file."""
    links = folder.log(topic).extent().chain.links
    assert {f"plogs/{link.id.file_name}" for link in links} <= set(folder.disk.names())
    return len(links)


# -- by age --------------------------------------------------------------------------------------------------------


def test_by_age_a_plog_goes_when_its_newest_record_is_older_than_asked_for(folder: SimulatedFolder) -> None:
    folder.create_topic("a", TopicConfig(retention=timedelta(milliseconds=MINUTE_MS)))
    for _ in range(5):
        put(folder)
        folder.clock.advance(20)
    # Written 100, 80, 60, 40 and 20 seconds ago.
    enforce(folder)
    assert bounds(folder) == (2, 5)
    folder.clock.advance(0.001)
    enforce(folder)
    assert (bounds(folder), plogs_of(folder)) == ((3, 5), 2)


def test_by_age_a_plog_with_one_young_record_stays_whole(folder: SimulatedFolder) -> None:
    folder.create_topic("a", TopicConfig(retention=timedelta(milliseconds=MINUTE_MS)))
    put(folder, size=100)
    folder.clock.advance(59)
    put(folder, size=100)
    folder.clock.advance(59)
    enforce(folder)
    assert bounds(folder) == (0, 2)


def test_by_age_an_old_last_plog_goes_too_and_offsets_continue(folder: SimulatedFolder) -> None:
    folder.create_topic("a", TopicConfig(retention=timedelta(milliseconds=MINUTE_MS)))
    put(folder)
    put(folder, size=100)
    folder.clock.advance(61)
    enforce(folder)
    assert (bounds(folder), plogs_of(folder)) == ((2, 2), 0)
    put(folder)
    enforce(folder)
    assert bounds(folder) == (2, 3)
    folder.clock.advance(61)
    enforce(folder)
    folder.reopen()
    assert bounds(folder) == (3, 3)
    put(folder)
    assert bounds(folder) == (3, 4)
    folder.check()


def test_by_age_nothing_goes_from_behind_a_plog_that_stays(folder: SimulatedFolder) -> None:
    folder.create_topic("a", TopicConfig(retention=timedelta(milliseconds=MINUTE_MS)))
    put(folder)
    # The administrator sets the clock back: the second record is the older one.
    folder.clock.now_ms -= 100_000
    put(folder)
    folder.clock.advance(120)
    enforce(folder)
    assert bounds(folder) == (0, 2)
    folder.clock.advance(50)
    enforce(folder)
    assert bounds(folder) == (2, 2)


# -- by size -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bytes_max", "start"), [(1, 4), (3200, 3), (6400, 2), (9600, 1), (100_000, 0)])
def test_by_size_the_oldest_plogs_go_and_the_asked_size_stays(
    folder: SimulatedFolder, bytes_max: int, start: int
) -> None:
    folder.create_topic("a", TopicConfig(retention_bytes=bytes_max))
    for _ in range(5):
        put(folder)
    enforce(folder)
    assert (bounds(folder), plogs_of(folder)) == ((start, 5), 5 - start)
    view = folder.log("a").extent()
    kept = [view.end_of(link) for link in view.chain]
    assert start == 0 or sum(kept) >= bytes_max
    assert start == 4 or sum(kept[1:]) < bytes_max


@pytest.mark.parametrize("bytes_max", [1, BIG])
def test_by_size_the_last_plog_stays_however_large_it_is(folder: SimulatedFolder, bytes_max: int) -> None:
    folder.create_topic("a", TopicConfig(retention_bytes=bytes_max))
    put(folder)
    folder.clock.advance(1e6)
    enforce(folder)
    assert bounds(folder) == (0, 1)
    folder.reopen()
    enforce(folder)
    assert bounds(folder) == (0, 1)


# -- both, none, and many ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age_ms", "bytes_max", "start"),
    [(MINUTE_MS, 100_000, 2), (10 * MINUTE_MS, 3200, 3), (MINUTE_MS, 3200, 3), (1, 100_000, 5), (1, 1, 5)],
)
def test_with_both_a_plog_goes_for_either_reason(
    folder: SimulatedFolder, age_ms: int, bytes_max: int, start: int
) -> None:
    folder.create_topic("a", TopicConfig(retention=timedelta(milliseconds=age_ms), retention_bytes=bytes_max))
    for _ in range(5):
        put(folder)
        folder.clock.advance(20)
    enforce(folder)
    assert bounds(folder) == (start, 5)


def test_a_topic_without_retention_keeps_everything_and_is_not_even_opened(folder: SimulatedFolder) -> None:
    folder.create_topic("a")
    for _ in range(5):
        put(folder)
    folder.clock.advance(1e9)
    folder.reopen()
    folder.engine.enforce_retention()
    assert folder.log("a").stream is None
    assert bounds(folder) == (0, 5)


def test_partitions_are_looked_at_one_by_one(folder: SimulatedFolder) -> None:
    folder.create_topic("a", TopicConfig(partitions=2, retention_bytes=3200))
    for _ in range(4):
        folder.put("a", 1, BIG, partition=1)
        folder.run()
    folder.put("a", 1, BIG, partition=0)
    folder.run()
    enforce(folder)
    assert [folder.log("a", partition).extent().start for partition in (0, 1)] == [0, 2]


def test_what_goes_gives_its_space_back(folder: SimulatedFolder) -> None:
    folder.create_topic("a", TopicConfig(retention_bytes=3200))
    for _ in range(20):
        put(folder)
    before = folder.disk.used
    enforce(folder)
    assert before - folder.disk.used > 17 * BIG


@pytest.mark.parametrize("alive", [lambda: True, lambda: False], ids=["beside the writer", "without a writer"])
def test_a_reader_sees_the_log_begin_where_retention_left_it(
    folder: SimulatedFolder, alive: Callable[[], bool]
) -> None:
    folder.create_topic("a", TopicConfig(retention=timedelta(milliseconds=MINUTE_MS)))
    view = FolderObserver(folder.disk, alive)
    for _ in range(3):
        put(folder)
        folder.clock.advance(40)
    log = view.log("a", 0)
    assert log.extent().start == 0
    enforce(folder)
    assert (log.extent().start, len(read_all(log).values)) == (2, 1)
    check_trimmed(log, 2)
    view.close()


# -- altered ---------------------------------------------------------------------------------------------------------


def test_a_limit_that_is_altered_counts_from_the_next_look_on(folder: SimulatedFolder) -> None:
    folder.create_topic("a")
    for _ in range(5):
        put(folder)
    enforce(folder)
    assert bounds(folder) == (0, 5)
    assert folder.engine.alter_topic("a", TopicChange(retention_bytes=1)) == folder.engine.topic("a")
    enforce(folder)
    assert bounds(folder) == (4, 5)


def test_a_limit_is_removed_once_nothing_is_trimmed_by_it_any_more() -> None:
    class Altering(SimulatedCoordinator):
        """Somebody removes the limit while the topic is being trimmed by it."""

        def trim(self, topic_id: int, partition: int, start: int, next_offset: int) -> None:
            altering.start()
            altering.join(0.1)
            assert altering.is_alive(), "the limit is removed, and still trims"
            super().trim(topic_id, partition, start, next_offset)

    folder = SimulatedFolder()
    folder.coordinator = Altering(folder.disk)
    folder.open()
    folder.create_topic("a", TopicConfig(retention_bytes=1))
    put(folder)
    put(folder)
    altering = threading.Thread(target=lambda: folder.engine.alter_topic("a", TopicChange(retention_bytes=None)))
    enforce(folder)
    altering.join()
    put(folder)
    enforce(folder)
    assert bounds(folder) == (1, 3)


def test_the_limits_of_a_topic_do_not_count_for_the_next_of_its_name() -> None:
    class Replacing(SimulatedCoordinator):
        """Somebody makes the topic b anew, without a limit, while a is being trimmed."""

        def trim(self, topic_id: int, partition: int, start: int, next_offset: int) -> None:
            super().trim(topic_id, partition, start, next_offset)
            if not replaced:
                replaced.append("b")
                with meanwhile():
                    folder.delete_topic("b")
                    folder.create_topic("b")
                    put(folder, "b")
                    put(folder, "b")

    replaced: list[str] = []
    folder = SimulatedFolder()
    folder.coordinator = Replacing(folder.disk)
    folder.open()
    for topic in ("a", "b"):
        folder.create_topic(topic, TopicConfig(retention_bytes=1))
        put(folder, topic)
        put(folder, topic)
    folder.engine.enforce_retention()
    assert (replaced, bounds(folder, "a"), bounds(folder, "b")) == (["b"], (1, 2), (0, 2))


def test_readers_beside_the_writer_see_the_altered_limits(folder: SimulatedFolder) -> None:
    folder.create_topic("a", TopicConfig(partitions=2, retention_bytes=1))
    put(folder)
    altered = folder.engine.alter_topic("a", TopicChange(retention=timedelta(minutes=1), retention_bytes=None))
    assert (altered.retention_ms, altered.retention_bytes) == (MINUTE_MS, None)
    view = FolderObserver(folder.disk, lambda: True)
    assert view.topic("a") == altered
    assert len(read_all(view.log("a", 0)).values) == 1
    view.close()
    assert folder.killed().open().topic("a") == altered


# -- beside others ---------------------------------------------------------------------------------------------------


def test_a_damaged_log_is_named_and_prevents_no_trim_of_others(folder: SimulatedFolder) -> None:
    for topic in ("a", "b", "c", "d"):
        folder.create_topic(topic, TopicConfig(retention_bytes=1))
        put(folder, topic)
        put(folder, topic)
    killed = folder.killed()
    damaged = {topic: folder.log(topic).extent().chain.links[-1].id for topic in ("b", "d")}
    for plog in damaged.values():
        killed.disk.remove(f"plogs/{plog.file_name}")
    killed.open()
    with pytest.raises(Corrupt, match=str(damaged["b"])):
        killed.engine.enforce_retention()
    assert (bounds(killed, "a"), bounds(killed, "c")) == ((1, 2), (1, 2))
    for topic, plog in damaged.items():
        with pytest.raises(Corrupt, match=str(plog)):
            killed.log(topic).raise_failure()


class FailingCoordinator(SimulatedCoordinator):
    """Its disk takes no trim for a while."""

    failing = True

    def trim(self, topic_id: int, partition: int, start: int, next_offset: int) -> None:
        if self.failing:
            raise OSError(errno.EIO, "Input/output error")
        super().trim(topic_id, partition, start, next_offset)


def test_the_next_call_on_a_log_raises_its_background_error_once() -> None:
    folder = SimulatedFolder()
    coordinator = folder.coordinator = FailingCoordinator(folder.disk)
    folder.open()
    for topic in ("a", "b"):
        folder.create_topic(topic, TopicConfig(retention_bytes=1 if topic == "a" else 1 << 30))
        put(folder, topic)
        put(folder, topic)
    with pytest.raises(OSError, match="Input/output"):
        folder.engine.enforce_retention()
    put(folder, "b")
    with pytest.raises(Unavailable, match=r"a/0: its retention failed in the background.*Input/output error") as raised:
        folder.put("a", 1, BIG)
    assert isinstance(raised.value.__cause__, OSError)
    put(folder)
    assert bounds(folder) == (0, 3)
    coordinator.failing = False
    enforce(folder)
    assert bounds(folder) == (2, 3)
    put(folder)


class DeletingCoordinator(SimulatedCoordinator):
    """Somebody deletes the topic b while a is being trimmed."""

    folder: SimulatedFolder

    def trim(self, topic_id: int, partition: int, start: int, next_offset: int) -> None:
        super().trim(topic_id, partition, start, next_offset)
        if any(row.name == "b" for row in self.topics()):
            with meanwhile():
                self.folder.delete_topic("b")


def test_a_topic_that_is_deleted_meanwhile_is_nobody_s_error() -> None:
    folder = SimulatedFolder()
    coordinator = folder.coordinator = DeletingCoordinator(folder.disk)
    coordinator.folder = folder
    folder.open()
    for topic in ("a", "b", "c"):
        folder.create_topic(topic, TopicConfig(retention_bytes=1))
        put(folder, topic)
        put(folder, topic)
    folder.engine.enforce_retention()
    folder.run()
    assert (bounds(folder, "a"), bounds(folder, "c")) == ((1, 2), (1, 2))
