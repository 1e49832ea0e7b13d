"""Commits of staged records on a simulated folder, whose ledgers take what a commit gives to a log for one append."""

from cordwood.log.native.folder.published import Owner
from cordwood.log.native.folder.staged import StagedFile, StagedWriter, Write
from cordwood.records import Batch
from cordwood.simulation.folder import SimulatedFolder
from cordwood.simulation.ledger import Write as Written

LOGS = (("a", 0), ("b", 0), ("b", 1))


class Commit:
    """Two tasks stage records for three logs, each in two frames; then they are committed."""

    def __init__(self, folder: SimulatedFolder, label: str, write: Write, *, size: int = 400) -> None:
        self.folder = folder
        self.write = write
        self.records = {log: [f"{label} {log} {n} ".encode().ljust(size, b".") for n in range(12)] for log in LOGS}
        self.files: list[StagedFile] = []

    def stage(self) -> None:
        ids = {row.name: row.id for row in self.folder.engine.topics()}
        for task in range(2):
            name = self.write.name(self.folder.clock.time_ms(), f"{self.folder.random.getrandbits(32):x}", str(task))
            writer = StagedWriter(self.folder.disk, self.folder.clock, name)
            for first in (6 * task, 6 * task + 3):
                for (topic, partition), values in self.records.items():
                    batch = Batch.of(list(values[first : first + 3]))
                    writer.add(Owner(ids[topic], partition), f"{topic}/{partition}", batch)
            staged = writer.finish()
            assert staged is not None
            self.files.append(staged)

    def expect(self) -> list[Written]:
        """Tell the ledgers of the records that will come."""
        return [self.folder.ledger(*log).write(values) for log, values in self.records.items()]

    def run(self) -> None:
        """Stage and commit, as one append of each log for the ledgers."""
        written = self.expect()
        self.stage()
        assert self.folder.staged.commit(self.write, self.files)
        for log, write in zip(self.records, written, strict=True):
            ledger = self.folder.ledger(*log)
            ledger.ack(write, range(ledger.end_min, ledger.end_min + len(write.values)))

    def fates(self, folder: SimulatedFolder) -> set[str]:
        """What has become of it in each log, after a crash that was settled."""
        return {
            write.fate.value
            for log, values in self.records.items()
            for write in folder.ledger(*log).writes
            if write.values == tuple(values)
        }


def staged_names(folder: SimulatedFolder) -> list[str]:
    return [name for name in folder.disk.names() if name.startswith("staged/")]
