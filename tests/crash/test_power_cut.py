"""The power is cut at every operation of a history; whatever the disk kept of it, the log keeps its promises."""

from random import Random

import pytest

from cordwood.log.topics import TopicConfig
from cordwood.simulation.folder import SimulatedFolder
from cordwood.simulation.power import PowerCut
from tests.support.crash.histories import HISTORIES, History, boundaries, cuts, go_on, lived

each_history = pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history.__name__)


@each_history
def test_a_power_cut_at_any_operation_takes_nothing_that_was_acked(history: History, seeds: int) -> None:
    for at in boundaries(history, seed=0):
        crashed = lived(history, seed=0, crash_at=at)
        for name, cut in cuts(seeds, f"{history.__name__} {at}"):
            try:
                found = crashed.power_cut(cut, seed=at)
                shown = found.check_view()
                found.open()
                found.check(settle=True)
                found.check_shown(shown)
                go_on(found)
                again = found.power_cut("none", seed=at)
                again.open()
                again.check(settle=True)
            except Exception as error:
                raise AssertionError(f"cut at {at}, {name}: {crashed.disk.history[-5:]}") from error


@each_history
def test_a_second_power_cut_during_the_recovery_takes_nothing_either(history: History, seeds: int) -> None:
    random = Random(history.__name__)
    every = boundaries(history, seed=1)
    for at in random.sample(every, k=min(len(every), 15 * seeds)):
        crashed = lived(history, seed=1, crash_at=at)
        again_at = 0
        cut_short = True
        while cut_short:
            again_at += 1
            seed = f"{history.__name__} {at} {again_at}"
            found = crashed.power_cut(Random(seed), seed=at)
            shown = found.check_view()
            found.disk.crash_at(again_at)
            cut_short = recovered_and_cut_short(found)
            found = found.killed() if random.random() < 0.3 else found.power_cut(Random(f"{seed} again"), seed=at + 1)
            try:
                found.open()
                found.check(settle=True)
                found.check_shown(shown)
                go_on(found)
            except Exception as error:
                raise AssertionError(f"cut at {at}, then at {again_at} of the recovery") from error


def recovered_and_cut_short(folder: SimulatedFolder) -> bool:
    try:
        folder.open()
        folder.check()
        folder.run()
    except PowerCut:
        return True
    return False


@each_history
def test_after_a_kill_at_any_operation_a_reader_sees_durable_acks_alone(
    history: History,
) -> None:
    for at in boundaries(history, seed=2):
        crashed = lived(history, seed=2, crash_at=at)
        try:
            killed = crashed.killed()
            shown = killed.check_view(all_acked=True)
            # Without an open in between: what the reader saw must have been on the disk all the time.
            cut = killed.power_cut("none")
            cut.open()
            cut.check(settle=True)
            cut.check_shown(shown)
            killed.open()
            killed.check(settle=True)
            killed.check_shown(shown)
            # R8: what recovery has shown now is synced.
            cut = killed.power_cut("none")
            cut.open()
            cut.check(settle=True)
        except Exception as error:
            raise AssertionError(f"killed at {at}: {crashed.disk.history[-5:]}") from error


@pytest.mark.parametrize("seed", range(20))
def test_jobs_in_any_order_and_crashes_of_any_kind_one_after_the_other(seed: int) -> None:
    random = Random(f"life {seed}")
    folder = SimulatedFolder(seed)
    folder.open()
    folder.create_topic("a")
    folder.create_topic("b", TopicConfig(partitions=2, retention_bytes=9000))
    for _ in range(6):
        folder.disk.crash_at(folder.disk.operations + random.randrange(1, 120))
        try:
            live(folder, random)
        except PowerCut:
            pass
        folder = folder.killed(seed=seed) if random.random() < 0.4 else folder.power_cut(random, seed=seed)
        shown = folder.check_view()
        folder.open()
        folder.check(settle=True)
        folder.check_shown(shown)


def live(folder: SimulatedFolder, random: Random) -> None:
    """Use a folder, until the power fails or for a while."""
    for _ in range(60):
        topic, partition, ledger = random.choice(folder.logs())
        match random.randrange(12):
            case 0 if ledger.end_min > ledger.start_min:
                folder.trim(topic, random.randint(ledger.start_min, ledger.end_min), partition=partition)
            case 1:
                folder.clock.advance(random.choice((1, 20)))
                folder.engine.give_space_back()
            case 2:
                folder.enforce_retention()
            case 3:
                folder.reopen()
            case 4:
                folder.tick()
            case _:
                folder.put(topic, random.randint(1, 3), random.choice((10, 300, 2000, 6000)), partition=partition)
        if random.random() < 0.6:
            folder.workers.run_one()
        if random.random() < 0.2:
            folder.run()
