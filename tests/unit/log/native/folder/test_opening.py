"""Opening a folder reads the tails of its logs, finding a time one plog; and it makes do with what others left."""

from collections import Counter
from collections.abc import Callable
from math import ceil

import pytest

from cordwood.errors import NotFound
from cordwood.log.native.coordinator import LogRow
from cordwood.log.native.folder.writer import FolderSettings
from cordwood.log.native.plog import PlogId
from cordwood.log.native.stream.reading.cursor import offset_at
from cordwood.simulation.coordinator import SimulatedCoordinator
from cordwood.simulation.file import SimulatedFile
from cordwood.simulation.folder import SimulatedFolder

PLOG_BYTES = 16 * 1024
SETTINGS = FolderSettings(plog_bytes_max=PLOG_BYTES, metadata_plog_bytes_min=1024)

# What the list has for a plog is 57 bytes, its plog is up to four times as long as the list, and it is read twice.
LIST_BYTES_A_PLOG_MAX = 600

Crash = Callable[[SimulatedFolder], SimulatedFolder]


def closed(folder: SimulatedFolder) -> SimulatedFolder:
    folder.close()
    return folder.killed()


CRASHES: dict[str, Crash] = {
    "closed": closed,
    "killed": lambda folder: folder.killed(),
    "without power": lambda folder: folder.power_cut("none"),
}
each_crash = pytest.mark.parametrize("crash", CRASHES.values(), ids=CRASHES)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The bytes that were read, by file."""
    found: Counter[str] = Counter()
    actual = SimulatedFile.read

    def counted(file: SimulatedFile, size: int, position: int) -> memoryview:
        data = actual(file, size, position)
        found[file.name] += len(data)
        return data

    monkeypatch.setattr(SimulatedFile, "read", counted)
    return found


def written(plogs: int) -> SimulatedFolder:
    """A log of so many plogs, each nearly full."""
    folder = SimulatedFolder(settings=SETTINGS)
    folder.open()
    folder.create_topic("a")
    for _ in range(plogs):
        folder.put("a", 1, PLOG_BYTES - 1000)
        folder.run()
    assert len(folder.log("a").extent().chain) == plogs
    return folder


def open_and_use(folder: SimulatedFolder, reads: Counter[str]) -> Counter[str]:
    """What an open, a look at the bounds and the first append have read."""
    reads.clear()
    folder.open()
    assert folder.log("a").extent().start == 0
    folder.put("a", 1, 100)
    folder.run()
    assert not folder.errors
    assert not folder.unanswered()
    return reads.copy()


@each_crash
def test_with_a_hundred_times_the_plogs_only_the_list_of_them_is_longer(crash: Crash, reads: Counter[str]) -> None:
    few = open_and_use(crash(written(3)), reads)
    many = open_and_use(crash(written(300)), reads)
    assert many.total() <= few.total() + 297 * LIST_BYTES_A_PLOG_MAX
    # Against what the log has.
    assert many.total() < 300 * PLOG_BYTES / 20


@each_crash
def test_an_open_reads_the_last_metadata_plog_and_the_last_of_each_log(crash: Crash, reads: Counter[str]) -> None:
    before = written(50)
    last = before.log("a").extent().chain.last
    assert last is not None
    found = crash(before)
    metadata = PlogId.parse(found.coordinator.metadata_plog() or "")
    names = {name for name in open_and_use(found, reads) if name.startswith("plogs/")}
    assert names - {f"plogs/{last.id.file_name}"} == {f"plogs/{metadata.file_name}"}


def test_after_a_clean_close_no_plog_of_a_log_is_read(reads: Counter[str]) -> None:
    found = closed(written(5))
    metadata = PlogId.parse(found.coordinator.metadata_plog() or "")
    names = {name for name in open_and_use(found, reads) if name.startswith("plogs/")}
    assert names == {f"plogs/{metadata.file_name}"}


def test_after_a_kill_the_last_plog_is_read_from_its_published_end_on(reads: Counter[str]) -> None:
    before = written(5)
    view = before.log("a").extent()
    assert view.durable.plog is not None
    name = f"plogs/{view.durable.plog.file_name}"
    rest = len(before.disk.contents(name)) - view.durable.end
    assert open_and_use(before.killed(), reads)[name] == rest < PLOG_BYTES / 10


def test_a_time_is_found_without_a_look_at_the_plogs_before_it(reads: Counter[str]) -> None:
    folder = SimulatedFolder(settings=SETTINGS)
    folder.open()
    folder.create_topic("a")
    began = folder.clock.time_ms()
    for _ in range(200):  # a frame each, one a second, about fourteen a plog
        folder.put("a", 1, 1000)
        folder.run()
        folder.clock.advance(1)
    log = folder.log("a")
    plogs = {f"plogs/{link.id.file_name}" for link in log.extent().chain}
    assert len(plogs) > 10
    for seconds in (0, 99.5, 150, 199, 200):
        reads.clear()
        assert offset_at(log, began + round(1000 * seconds)) == ceil(seconds)
        # Of one plog, or of none where it is after the last record.
        assert len(plogs & set(reads)) == (seconds <= 199)


@each_crash
def test_logs_that_nobody_uses_are_not_read(crash: Crash, reads: Counter[str]) -> None:
    folder = written(3)
    for number in range(30):
        folder.create_topic(f"b{number}")
        folder.put(f"b{number}", 1, 5000)
    folder.run()
    others = {f"plogs/{link.id.file_name}" for number in range(30) for link in folder.log(f"b{number}").extent().chain}
    assert len(others) == 30
    assert not others & set(open_and_use(crash(folder), reads))


class OvertakenCoordinator(SimulatedCoordinator):
    """Somebody's trim comes just after a topic is deleted, and before its logs are closed."""

    folder: SimulatedFolder
    told: NotFound | None = None

    def delete_topic(self, id: int) -> None:
        log = self.folder.log("a")
        super().delete_topic(id)
        try:
            log.trim(2, lambda: None)
        except NotFound as error:
            self.told = error


def test_a_trim_that_a_delete_overtook_does_not_prevent_an_open() -> None:
    folder = SimulatedFolder()
    coordinator = folder.coordinator = OvertakenCoordinator(folder.disk)
    coordinator.folder = folder
    folder.open()
    folder.create_topic("a")
    folder.put("a", 3)
    folder.run()
    folder.delete_topic("a")
    folder.run()
    folder.reopen()
    assert coordinator.told is not None
    folder.check()


class StrayRowCoordinator(SimulatedCoordinator):
    """Has the trim of a topic that is gone, as earlier versions could leave it."""

    def logs(self) -> list[LogRow]:
        return [*super().logs(), LogRow(77, 0, 5, 9)]


def test_the_trim_of_a_deleted_topic_does_not_prevent_an_open() -> None:
    folder = SimulatedFolder()
    folder.coordinator = StrayRowCoordinator(folder.disk)
    folder.open()
    folder.create_topic("a")
    folder.put("a", 3)
    folder.reopen()
    folder.check()
