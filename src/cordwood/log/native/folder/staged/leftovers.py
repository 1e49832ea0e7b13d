"""Names of staged files, and which of them are no longer needed.

A staging task holds no lock, may be killed at any moment, and may continue after others have given up. So a file is
removed only if no commit can name it: under the lock, or because its attempt was never committed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cordwood.log.native.env.clock import Clock
from cordwood.log.native.env.disk import Disk, make_durable_folder

FOLDER = "staged"

ORPHAN_SECONDS = 7 * 24 * 3600
"""Staged files that are older are orphans: no write takes so long from its first record to its commit."""

_FRAMES = "frames"
_ABORTED = "aborted"


class StagedName(NamedTuple):
    """The parts of a staged file's name; `attempt` is shared by the tasks of one attempt at a write.

    >>> StagedName("4158b19d", "7", 1_700_000_000_000, "c0ffee", "0-15").file_name
    '4158b19d.7.1700000000000.c0ffee.0-15.frames'
    """

    sink: str
    batch: str
    made_ms: int
    attempt: str
    task: str

    @property
    def file_name(self) -> str:
        return f"{self.sink}.{self.batch}.{self.made_ms}.{self.attempt}.{self.task}.{_FRAMES}"

    @staticmethod
    def parse(name: str) -> "StagedName | None":
        """None if it is not the name of a staged file."""
        match name.split("."):
            case [sink, batch, made_ms, attempt, task, "frames"] if made_ms.isdigit():
                return StagedName(sink, batch, int(made_ms), attempt, task)
        return None


@dataclass(frozen=True, slots=True)
class Write:
    """One write of a sink. A numbered batch is appended once, however often it comes; others are not recorded."""

    sink: str
    batch: int | None = None

    def name(self, now_ms: int, attempt: str, task: str) -> StagedName:
        """A name for the staged file of a task."""
        return StagedName(self.sink, "-" if self.batch is None else str(self.batch), now_ms, attempt, task)

    def owns(self, name: StagedName) -> bool:
        """Whether a staged file was made for this write, or for an earlier one of the same sink."""
        if name.sink != self.sink:
            return False
        return self.batch is None or (name.batch.isdigit() and int(name.batch) <= self.batch)


def abort_attempt(disk: Disk, clock: Clock, attempt: str) -> None:
    """Remove the files of an attempt that was never committed; tasks that still run remove theirs themselves.

    A task finishes its file, then looks for the mark of an abort. This function writes the mark first, then looks for
    files: so one of the two sees the other. If a task is killed, the next commit removes its file.
    """
    make_durable_folder(disk, FOLDER)
    disk.create(f"{FOLDER}/{attempt}.{clock.time_ms()}.{_ABORTED}").close()
    names = map(StagedName.parse, disk.list(FOLDER))
    remove_staged(disk, [name.file_name for name in names if name is not None and name.attempt == attempt])


def is_aborted(disk: Disk, attempt: str) -> bool:
    return attempt in _aborted(disk.list(FOLDER))


def remove_unneeded(disk: Disk, clock: Clock, write: Write) -> None:
    """Remove the files of this write, of earlier writes of its sink, and of aborted attempts, and the orphans.

    The writer of the folder calls it, while no plan is pending.
    """
    try:
        there = disk.list(FOLDER)
    except OSError:
        return
    orphans_before = clock.time_ms() - ORPHAN_SECONDS * 1000
    aborted = _aborted(there)
    gone = [f"{attempt}.{made_ms}.{_ABORTED}" for attempt, made_ms in aborted.items() if made_ms < orphans_before]
    for name in filter(None, map(StagedName.parse, there)):
        if write.owns(name) or name.attempt in aborted or name.made_ms < orphans_before:
            gone.append(name.file_name)
    remove_staged(disk, gone)


def remove_staged(disk: Disk, names: Iterable[str]) -> None:
    """Remove files. If the disk fails, a later commit removes the rest."""
    for name in names:
        try:
            disk.remove(f"{FOLDER}/{name}")
        except OSError:
            continue


def _aborted(names: Sequence[str]) -> dict[str, int]:
    """The attempts that were aborted, and when."""
    parts = [name.split(".") for name in names if name.endswith(f".{_ABORTED}")]
    return {part[0]: int(part[1]) for part in parts if len(part) == 3 and part[1].isdigit()}
