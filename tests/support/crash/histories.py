"""Histories of a folder, and how to cut them short at every operation."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from random import Random
from typing import Literal
from unittest.mock import patch

from cordwood.log.topics import TopicConfig
from cordwood.records import pieces
from cordwood.simulation.disk import SimulatedDisk
from cordwood.simulation.folder import SimulatedFolder
from cordwood.simulation.power import PowerCut

History = Callable[[SimulatedFolder], None]
Cut = Literal["none", "all"] | Random


def grow_and_switch(folder: SimulatedFolder) -> None:
    """Two topics over many plogs, single records beside batches, and groups that share a frame or do not fit in one."""
    folder.open()
    folder.create_topic("a")
    folder.create_topic("b", TopicConfig(partitions=2))
    folder.run()
    for step in range(9):
        folder.put("a", 1, 30)
        folder.put("b", 3, 200, partition=step % 2)
        if step % 3 == 1:
            folder.put("a", 2, 1500)
            folder.put("a", 1, 5000)
        if step % 2:
            folder.run()
    folder.run()


def trim_and_go_on(folder: SimulatedFolder) -> None:
    """Trims in the middle of a plog, of whole plogs, and to the end; then more."""
    folder.open()
    folder.create_topic("a")
    for _ in range(6):
        folder.put("a", 2, 900)
        folder.run()
    folder.trim("a", 3)
    folder.put("a", 1, 10)
    folder.run()
    folder.trim("a", 8)
    folder.run()
    folder.trim("a", 13)
    folder.run()
    folder.put("a", 3, 10)
    folder.run()
    folder.trim("a", 16)
    folder.trim("a", 16)
    folder.run()
    folder.reopen()
    folder.put("a", 1, 700)
    folder.run()


def delete_and_make_again(folder: SimulatedFolder) -> None:
    """A topic goes while others stay, also with appends under way; a topic that never was used goes too."""
    folder.open()
    folder.create_topic("a")
    folder.create_topic("b", TopicConfig(partitions=2))
    folder.create_topic("c")
    for step in range(4):
        folder.put("a", 1, 1200)
        folder.put("b", 2, 1200, partition=step % 2)
        folder.run()
    folder.put("b", 1, 10)
    folder.delete_topic("b")
    folder.put("a", 1, 1200)
    folder.run()
    folder.delete_topic("c")
    folder.create_topic("d")
    folder.put("d", 2, 100)
    folder.run()


def close_and_reopen(folder: SimulatedFolder) -> None:
    """Clean closes: of an empty folder, of logs that were used, of logs that nobody opened since."""
    folder.open()
    folder.reopen()
    folder.create_topic("a")
    folder.create_topic("b")
    folder.put("a", 1, 10)
    folder.put("b", 1, 10)
    folder.reopen()
    folder.put("a", 2, 2500)
    folder.reopen()
    folder.reopen()
    folder.put("b", 1, 10)
    folder.run()
    folder.put("a", 1, 10)


def fall_quiet_and_wake(folder: SimulatedFolder) -> None:
    folder.open()
    folder.create_topic("a")
    folder.create_topic("b")
    for step in range(4):
        folder.put("a", 1, 300)
        if step < 2:
            folder.put("b", 1, 10)
        folder.run()
        folder.clock.advance(20)
        folder.engine.give_space_back()
        folder.run()
    folder.put("a", 2, 2000)
    folder.engine.give_space_back()
    folder.run()
    folder.trim("b", 2)
    folder.run()


def forget_by_age_and_size(folder: SimulatedFolder) -> None:
    folder.open()
    folder.create_topic("a", TopicConfig(retention=timedelta(milliseconds=60_000)))
    folder.create_topic("b", TopicConfig(retention_bytes=5000))
    for _ in range(5):
        folder.put("a", 2, 1000)
        folder.put("b", 2, 1000)
        folder.run()
        folder.clock.advance(20)
        folder.enforce_retention()
    folder.run()
    folder.clock.advance(100)
    folder.enforce_retention()
    folder.run()
    folder.put("a", 1, 10)
    folder.run()


def one_job_at_a_time(folder: SimulatedFolder) -> None:
    """Appends come while other jobs are half done: several groups in a plog whose rollover is not recorded yet."""
    folder.open()
    folder.create_topic("a")
    for step in range(40):
        folder.put("a", 1, (1200, 40, 40, 2800)[step % 4])
        folder.workers.run_one()
    folder.run()


def large_ones_in_pieces(folder: SimulatedFolder) -> None:
    """Batches so large that they are written in pieces: of large records, of small ones, and beside others."""
    with patch.multiple(pieces, _STREAMED_FROM=2000, _PIECE_BYTES=1000, _GATHERED_PART_BYTES=500, _HEAD_BYTES=300):
        folder.open()
        folder.create_topic("a")
        folder.run()
        for _ in range(2):
            folder.put("a", 4, 800)
            folder.run()
            folder.put("a", 60, 50)
            folder.run()
            folder.put("a", 1, 10)
            folder.put("a", 3, 900)
            folder.run()


HISTORIES: list[History] = [
    grow_and_switch,
    one_job_at_a_time,
    trim_and_go_on,
    delete_and_make_again,
    close_and_reopen,
    fall_quiet_and_wake,
    forget_by_age_and_size,
    large_ones_in_pieces,
]


def lived(history: History, *, seed: int, crash_at: int | None = None) -> SimulatedFolder:
    """The folder after a history, or at the operation at which the power failed."""
    disk = SimulatedDisk()
    if crash_at is not None:
        disk.crash_at(crash_at)
    folder = SimulatedFolder(seed, disk=disk)
    try:
        history(folder)
    except PowerCut:
        pass
    return folder


def boundaries(history: History, seed: int) -> range:
    """Every operation of a history, and the moment after the last."""
    return range(1, lived(history, seed=seed).disk.operations + 2)


def cuts(seeds: int, about: str) -> Iterator[tuple[str, Cut]]:
    """The ways to cut the power: nothing unsynced is left, all of it, and by chance."""
    yield "none", "none"
    yield "all", "all"
    for seed in range(seeds):
        yield f"seed {seed}", Random(f"{about} {seed}")


def go_on(folder: SimulatedFolder) -> None:
    """Use the folder after a crash: every log takes more, and shows all of it."""
    for topic, partition, _ in folder.logs():
        folder.put(topic, 1, 50, partition=partition)
        folder.put(topic, 2, 1500, partition=partition)
    folder.run()
    folder.check()
