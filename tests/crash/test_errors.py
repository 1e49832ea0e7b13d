"""Every operation of the engine fails once: nothing acked is lost, every caller is answered, the log stays whole."""

from collections.abc import Iterator
from typing import get_args

import pytest

from cordwood.errors import CordwoodError
from cordwood.log.topics import TopicConfig
from cordwood.simulation.disk import SimulatedDisk
from cordwood.simulation.faults import Operation
from cordwood.simulation.folder import SimulatedFolder
from cordwood.simulation.power import PowerCut
from cordwood.simulation.workers import SimulatedWorkers
from tests.support.crash.forgiving_folder import ForgivingFolder
from tests.support.crash.histories import HISTORIES, History, cuts, go_on

each_operation = pytest.mark.parametrize("operation", get_args(Operation))


def lives_with_one_error(history: History, operation: Operation) -> Iterator[tuple[int, ForgivingFolder]]:
    """The history with the first of these operations failing, then with the second, and so on for all of them."""
    while_it_strikes, count = True, 0
    while while_it_strikes:
        disk = SimulatedDisk()
        disk.fail(operation, after=count)
        folder = ForgivingFolder(0, disk=disk)
        history(folder)
        folder.recover_breath()
        while_it_strikes = not disk.faults_left()
        # A check reads too: the fault must have struck before, or not at all.
        disk.forget_faults()
        yield count, folder
        count += 1


@each_operation
@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history.__name__)
def test_an_error_of_any_operation_leaves_a_log_that_is_whole(history: History, operation: Operation) -> None:
    for count, folder in lives_with_one_error(history, operation):
        try:
            folder.check()
            assert not folder.unanswered()
            shown = folder.killed().check_view()
            for _, cut in cuts(1, f"{history.__name__} {operation} {count}"):
                found = folder.power_cut(cut)
                found.open()
                found.check(settle=True)
                found.check_shown(shown)
            go_on(folder)
        except Exception as error:
            raise AssertionError(f"{operation} number {count} failed") from error


@each_operation
def test_an_opening_that_fails_at_any_operation_leaves_no_file_open(operation: Operation) -> None:
    crashed = SimulatedFolder()
    crashed.open()
    crashed.create_topic("a")
    crashed.put("a", 3)
    crashed.run()
    crashed.trim("a", 1)
    for before in (crashed, SimulatedFolder()):
        failed, count = True, 0
        while failed:
            found = before.killed()
            found.disk.fail(operation, after=count)
            try:
                found.open()
            except (CordwoodError, OSError):
                assert found.disk.open_files() == [], f"{operation} number {count} failed"
            failed, count = not found.disk.faults_left(), count + 1


def test_an_error_of_any_operation_of_a_recovery_leaves_a_whole_log() -> None:
    crashed = SimulatedFolder(5)
    crashed.open()
    crashed.create_topic("a")
    crashed.create_topic("b", TopicConfig(partitions=2))
    for step in range(7):
        crashed.put("a", 2, 900)
        crashed.put("b", 1, 900, partition=step % 2)
        crashed.run()
    crashed.trim("a", 3)
    crashed.run()
    crashed.disk.crash_at(crashed.disk.operations + 2)
    crashed.put("a", 1, 30)
    with pytest.raises(PowerCut):
        crashed.run()
    for operation in get_args(Operation):
        strikes, count = True, 0
        while strikes:
            found = crashed.killed()
            found.disk.fail(operation, after=count)
            for _ in range(3):
                try:
                    found.open()
                    found.check()
                    go_on(found)
                    break
                except (CordwoodError, OSError):
                    # The program tries again; jobs of an engine that could not be opened come to nothing.
                    found.workers = SimulatedWorkers(found.random)
            strikes, count = not found.disk.faults_left(), count + 1
            found.disk.forget_faults()
            cut = found.power_cut("none")
            cut.open()
            cut.check(settle=True)
