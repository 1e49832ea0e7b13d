"""A topic is deleted under a reader that has the published files alone, at any of its steps."""

import errno
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, cast

import pytest

from cordwood.errors import NotFound, Trimmed
from cordwood.log.native.env.disk import Disk, File
from cordwood.log.native.folder.observer import FolderObserver
from cordwood.simulation.disk import SimulatedDisk
from cordwood.simulation.folder import SimulatedFolder, read_all
from tests.support.lock_order import meanwhile

RECORDS = 5
GONE = "topic 'a' was deleted"


def folder_with_records() -> SimulatedFolder:
    """Each record has a plog of its own."""
    folder = SimulatedFolder()
    folder.open()
    folder.create_topic("stays")
    folder.create_topic("a")
    put(folder, RECORDS)
    return folder


def put(folder: SimulatedFolder, records: int) -> None:
    for _ in range(records):
        folder.put("a", 1, 3000)
        folder.run()


def deleted(folder: SimulatedFolder) -> None:
    folder.delete_topic("a")
    folder.run()


def made_anew(folder: SimulatedFolder) -> None:
    """It gets the slots of the one before it, and has more records."""
    deleted(folder)
    folder.create_topic("a")
    put(folder, RECORDS + 1)


def made_anew_at_once(folder: SimulatedFolder) -> None:
    """The slots are the new one's already while the plogs of the old one are still there."""
    folder.delete_topic("a")
    folder.create_topic("a")
    folder.log("a").open()


def deleted_on_a_full_disk(folder: SimulatedFolder) -> None:
    """The list of topics cannot be replaced: it names the topic after its plogs are gone."""
    folder.disk.fail("create", name_contains="catalog", error=errno.ENOSPC, times=1000)
    deleted(folder)


def trimmed_to_the_end(folder: SimulatedFolder) -> None:
    folder.trim("a", RECORDS)
    folder.run()


class WatchedDisk:
    """The disk as a reader uses it; `happens` is called just before the chosen operation."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk
        self.happens: Callable[[], None] | None = None
        self.operations = 0

    def step(self) -> None:
        happens = self.happens
        if happens is None:
            return
        self.operations -= 1
        if self.operations < 0:
            self.happens = None
            with meanwhile():
                happens()

    def open(self, name: str, *, write: bool = False) -> "WatchedFile":
        self.step()
        return WatchedFile(self, self._disk.open(name, write=write))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)


class WatchedFile:
    def __init__(self, disk: WatchedDisk, file: File) -> None:
        self._disk = disk
        self._file = file

    def read(self, size: int, position: int) -> memoryview:
        self._disk.step()
        return self._file.read(size, position)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def ends_of_reads(happens: Callable[[SimulatedFolder], None], alive: bool, *, begun: bool = False) -> set[int | str]:
    """Where a read of everything ends, or with which error, if it happens during it: at any operation.

    `begun`: not before the reader has seen where the log ends.
    """
    ends: set[int | str] = set()
    for operations in count():
        folder = folder_with_records()
        disk = WatchedDisk(folder.disk)
        view = FolderObserver(cast(Disk, disk), lambda: alive)
        log = view.log("a", 0)
        if begun:
            log.extent()
        disk.happens, disk.operations = partial(happens, folder), operations
        try:
            contents = read_all(log)
            ends.add(contents.start + len(contents.values))
        except (NotFound, Trimmed) as error:
            ends.add(str(error))
        view.close()
        if disk.happens is not None:
            break
    return ends


beside_and_after = pytest.mark.parametrize("alive", [True, False], ids=["beside the writer", "after the writer"])


@beside_and_after
@pytest.mark.parametrize("happens", [deleted, made_anew, made_anew_at_once], ids=lambda happens: happens.__name__)
def test_whenever_a_topic_goes_a_reader_has_all_of_it_or_is_told(
    happens: Callable[[SimulatedFolder], None], alive: bool
) -> None:
    assert ends_of_reads(happens, alive) == {RECORDS, GONE}


@beside_and_after
def test_a_deleted_topic_that_a_full_disk_still_lists_is_not_damaged(alive: bool) -> None:
    assert ends_of_reads(deleted_on_a_full_disk, alive, begun=True) == {RECORDS, GONE}


@beside_and_after
@pytest.mark.parametrize("begun", [False, True], ids=["at its first look", "in the middle"])
def test_a_reader_never_takes_a_log_trimmed_to_its_end_for_deleted(begun: bool, alive: bool) -> None:
    trimmed = {f"a/0: offset {offset} is no longer kept; the first kept one is {RECORDS}" for offset in range(RECORDS)}
    assert {RECORDS} <= ends_of_reads(trimmed_to_the_end, alive, begun=begun) <= {RECORDS} | trimmed


@beside_and_after
def test_a_log_is_found_in_the_topic_of_its_name_that_is_there_now(alive: bool) -> None:
    folder = folder_with_records()
    view = FolderObserver(folder.disk, lambda: alive)
    before = view.log("a", 0)
    assert before.extent().durable.next_offset == RECORDS
    made_anew(folder)
    for _ in range(2):
        with pytest.raises(NotFound, match=GONE):
            before.extent(RECORDS)
    assert len(read_all(view.log("a", 0)).values) == RECORDS + 1
    view.close()


def test_a_look_at_a_quiet_log_reads_the_list_of_topics_once() -> None:
    folder = folder_with_records()
    disk = WatchedDisk(folder.disk)
    view = FolderObserver(cast(Disk, disk), lambda: True)
    log = view.log("a", 0)
    log.extent()
    disk.happens, disk.operations = lambda: None, 100
    log.extent(RECORDS)
    # The list is opened and read; where the log ends, and where it begins; which open speaks.
    assert 100 - disk.operations == 5
    view.close()
