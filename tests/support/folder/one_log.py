"""A log of a simulated folder, and callers whose answers can be looked at."""

from collections.abc import Callable

import pytest

from cordwood.errors import CordwoodError
from cordwood.log.native.folder.writer import FolderSettings
from cordwood.log.native.plog import PlogStore
from cordwood.log.native.stream.append import Append
from cordwood.log.native.stream.reading.blocks import stored_batches
from cordwood.records import Batch, StoredBatch
from cordwood.simulation.file import SimulatedFile
from cordwood.simulation.folder import SimulatedFolder, read_all

NEVER = float("inf")


class Caller:
    """The caller of an append, and its answer; as with a future, only the first answer counts."""

    def __init__(self) -> None:
        self.gave_up = False
        self.answers: list[range | CordwoodError] = []

    def cancelled(self) -> bool:
        return self.gave_up

    @property
    def offsets(self) -> range:
        answer = self.answers[0]
        assert isinstance(answer, range), answer
        return answer

    @property
    def error(self) -> CordwoodError:
        answer = self.answers[0]
        assert isinstance(answer, CordwoodError), answer
        return answer


class OneLog:
    """The log a/0, opened and with one record in it, so that its first rollover is over."""

    def __init__(self, settings: FolderSettings = FolderSettings(), *, used: bool = True) -> None:  # noqa: B008  frozen
        folder = SimulatedFolder(settings=settings)
        folder.open()
        folder.create_topic("a")
        folder.run()
        self._take(folder)
        if used:
            self.submit(b"first")
            self.run()

    @classmethod
    def of(cls, folder: SimulatedFolder) -> "OneLog":
        """The same log after a crash."""
        one = cls.__new__(cls)
        one._take(folder)
        return one

    def _take(self, folder: SimulatedFolder) -> None:
        self.folder = folder
        self.log = folder.log("a")
        self.clock = folder.clock

    def try_submit(self, *values: bytes, expected: int | None = None, deadline: float = NEVER) -> Caller | None:
        """None if the queue is full."""
        caller = Caller()
        append = Append(Batch.of(list(values)), len(values), caller, _answer, deadline, expected)
        return caller if self.log.submit(append) else None

    def submit(self, *values: bytes, expected: int | None = None, deadline: float = NEVER) -> Caller:
        caller = self.try_submit(*values, expected=expected, deadline=deadline)
        assert caller is not None, "the queue is full"
        return caller

    def run(self) -> None:
        self.folder.run()

    def values(self) -> list[bytes]:
        return read_all(self.log).values

    def frames(self) -> list[StoredBatch]:
        """The frames of all plogs, as they are on the disk."""
        view = self.log.extent()
        plogs = PlogStore(self.folder.disk)
        return [frame for link in view.chain for frame in stored_batches(plogs, link.id, 0, view.end_of(link))]

    def syncs(self) -> int:
        """How often the last plog was synced since it was made."""
        last = self.log.extent().chain.last
        assert last is not None
        return sum(entry.endswith(f" sync plogs/{last.id.file_name}") for entry in self.folder.disk.history)


def _answer(appends: list[Append]) -> None:
    for append in appends:
        assert isinstance(append.waiter, Caller)
        answer = append.error or append.result
        assert answer is not None
        append.waiter.answers.append(answer)


def during_next_sync(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Let something happen while the disk is busy with the next sync of any file."""
    sync = SimulatedFile.sync

    def busy(file: SimulatedFile) -> None:
        monkeypatch.setattr(SimulatedFile, "sync", sync)
        act()
        sync(file)

    monkeypatch.setattr(SimulatedFile, "sync", busy)
