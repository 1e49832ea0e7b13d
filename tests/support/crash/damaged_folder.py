"""A small folder of real files, closed or killed, to damage at will; and the truth to hold it against."""

import shutil
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from cordwood.errors import Corrupt
from cordwood.log.native.coordinator import TopicRow
from cordwood.log.native.env.disk import RealDisk
from cordwood.log.native.folder.observer import FolderObserver
from cordwood.log.native.folder.process import open_coordinator
from cordwood.log.native.folder.published import Owner
from cordwood.log.native.folder.staged import StagedCommits, StagedFile, StagedWriter, Write
from cordwood.log.native.folder.staged.plan import Plan, PlannedLog
from cordwood.log.native.folder.writer import FolderSettings, FolderWriter
from cordwood.log.native.stream.append import Append
from cordwood.log.native.stream.reading.cursor import LogCursor, Source
from cordwood.log.topics import TopicConfig
from cordwood.records import Batch
from cordwood.simulation.clock import SimulatedClock
from cordwood.simulation.workers import SimulatedWorkers

LogName = tuple[str, int]
Files = dict[str, bytes]

# So small that a few appends switch plogs, and a few switches fill a metadata plog.
TINY = FolderSettings(plog_bytes_max=600, metadata_plog_bytes_min=600)
SINK = "query"
NEXT = b"next"
"""The record that is appended to every log that is found right."""


@dataclass(slots=True)
class Truth:
    """The acked records."""

    ids: dict[str, int] = field(default_factory=dict)
    starts: dict[LogName, int] = field(default_factory=dict)
    values: dict[LogName, list[bytes]] = field(default_factory=dict)
    """Of every log, from offset 0 on, also the trimmed records."""
    batch: int | None = None

    def check(self, log: LogName, start: int, values: list[bytes], *, to_the_end: bool) -> None:
        assert start == self.starts.get(log, 0), f"{log} begins at {start}, not at {self.starts.get(log, 0)}"
        expected = self.values[log][start:]
        assert values == (expected if to_the_end else expected[: len(values)]), f"{log} has other records"


class Caller:
    def cancelled(self) -> bool:
        return False


class RealFolder:
    """A folder as `FolderOpenForWriting` opens it, without its threads: jobs run when they are waited for."""

    def __init__(self, path: Path, settings: FolderSettings = TINY) -> None:
        self.disk = RealDisk(path)
        self.disk.make_folder("")
        self.workers = SimulatedWorkers(Random(0))
        self.coordinator = open_coordinator(path, self.disk)
        try:
            clock = SimulatedClock()
            self.engine = FolderWriter(self.disk, clock, self.workers, self.coordinator, settings)
            self.staged = StagedCommits(self.disk, clock, self.workers, self.coordinator, self.engine)
            self.staged.finish_decided()
        except BaseException:
            self.coordinator.close()
            raise
        self.clock = clock

    def append(self, topic: str, partition: int, values: list[bytes]) -> range:
        acked: list[Append] = []
        append = Append(Batch.of(list(values)), len(values), Caller(), acked.extend, float("inf"))
        assert self.engine.log(topic, partition).submit(append)
        self.workers.run_until_idle()
        (answer,) = acked
        if answer.error is not None:
            raise answer.error
        assert answer.result is not None
        return answer.result

    def trim(self, topic: str, partition: int, before: int) -> None:
        self.engine.log(topic, partition).trim(before, lambda: None)
        self.workers.run_until_idle()

    def stage(self, write: Write, owner: Owner, values: list[bytes]) -> StagedFile:
        writer = StagedWriter(self.disk, self.clock, write.name(self.clock.time_ms(), f"{write.batch}", "0"))
        writer.add(owner, "a log", Batch.of(list(values)))
        file = writer.finish()
        assert file is not None
        return file

    def close(self) -> None:
        self.engine.close(lambda: None)
        self.workers.run_until_idle()


class Author:
    """Writes the small folder, and keeps the truth."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.truth = Truth()
        self.folder = RealFolder(path)

    def create(self, topic: str, partitions: int = 1) -> None:
        self.truth.ids[topic] = self.folder.engine.create_topic(topic, TopicConfig(partitions=partitions)).id
        self.truth.values.update({(topic, partition): [] for partition in range(partitions)})

    def append(self, topic: str, partition: int = 0, *, times: int = 1) -> None:
        for _ in range(times):
            known = self.truth.values[topic, partition]
            values = [f"{topic}/{partition} {len(known) + n}".encode() for n in range(3)]
            assert self.folder.append(topic, partition, values) == range(len(known), len(known) + 3)
            known += values

    def trim(self, topic: str, before: int, partition: int = 0) -> None:
        self.folder.trim(topic, partition, before)
        self.truth.starts[topic, partition] = before

    def delete(self, topic: str) -> None:
        self.folder.engine.delete_topic(topic, lambda: None)
        self.folder.workers.run_until_idle()
        del self.truth.ids[topic], self.truth.values[topic, 0]

    def commit(self, batch: int, topic: str, *, finish: bool = True) -> None:
        """Commit a batch, or decide it only: the next writing open finishes it."""
        values = [f"batch {batch} {n}".encode() for n in range(3)]
        known = self.truth.values[topic, 0]
        write, owner = Write(SINK, batch), Owner(self.truth.ids[topic], 0)
        file = self.folder.stage(write, owner, values)
        if finish:
            assert self.folder.staged.commit(write, [file])
        else:
            planned = PlannedLog(*owner, start=len(known), records=len(values))
            self.folder.coordinator.decide(Plan(SINK, batch, (file,), (planned,)).encode())
        known += values
        self.truth.batch = batch

    def reopen(self) -> None:
        self.folder.close()
        self.folder = RealFolder(self.path)


@dataclass(frozen=True, slots=True)
class Damaged:
    """The files of the small folder as they were left, and what they hold."""

    files: Files
    truth: Truth

    def put(self, path: Path) -> None:
        """Make the folder anew, as it was left."""
        shutil.rmtree(path, ignore_errors=True)
        for name, data in self.files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)


def small_folder(path: Path, *, closed: bool) -> Damaged:
    """Topics that were trimmed, deleted and never used, several plogs each, new metadata plogs, and staged commits.

    Closed; or as a writer leaves it that is killed when it has decided a commit: its files are copied while it has
    them open.
    """
    author = Author(path)
    author.create("trimmed")
    author.create("gone")
    author.create("parts", 2)
    author.create("empty")
    for _ in range(3):
        author.append("trimmed", times=4)
        author.append("parts", 1)
        author.append("gone")
    author.trim("trimmed", 4)
    author.delete("gone")
    author.commit(6, "parts")
    author.reopen()
    author.create("late")
    author.append("late", times=8)
    author.append("trimmed", times=2)
    author.trim("trimmed", 20)
    author.trim("parts", 2, 1)
    author.commit(7, "parts")
    author.append("late")
    if closed:
        author.folder.close()
        files = contents(path)
    else:
        author.commit(8, "parts", finish=False)
        files = contents(path)
        author.folder.close()
    shutil.rmtree(path)
    return Damaged(files, author.truth)


def contents(path: Path) -> Files:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def check_writing(path: Path, truth: Truth) -> None:
    """Open for writing; hold all of it against the truth, and append to every log. Damage of one log costs no other."""
    folder = RealFolder(path)
    try:
        folder.workers.run_until_idle()  # what crashes left is swept away
        assert {row.name: row.id for row in folder.engine.topics()} == truth.ids
        assert folder.coordinator.sink_batch(SINK) == truth.batch
        damage = []
        for log in logs_of(folder.engine.topics()):
            try:
                truth.check(log, *read_all(folder.engine.log(*log)), to_the_end=True)
                end = len(truth.values[log])
                assert folder.append(*log, [NEXT]) == range(end, end + 1)
            except Corrupt as error:
                damage.append(error)
    finally:
        folder.close()
    if damage:
        raise damage[0]


def check_reading(path: Path, truth: Truth) -> None:
    """Open for reading, without a writer; the shown records are true, and may end earlier."""
    view = FolderObserver(RealDisk(path), lambda: False)
    with closing(view):
        assert {row.name: row.id for row in view.topics()} == truth.ids
        damage = []
        for log in logs_of(view.topics()):
            try:
                truth.check(log, *read_all(view.log(*log)), to_the_end=False)
            except Corrupt as error:
                damage.append(error)
    if damage:
        raise damage[0]


def logs_of(topics: list[TopicRow]) -> list[LogName]:
    return [(topic.name, partition) for topic in topics for partition in range(topic.partitions)]


def read_all(source: Source) -> tuple[int, list[bytes]]:
    start = source.extent().start
    cursor = LogCursor(source, start)
    values: list[bytes] = []
    try:
        while batches := cursor.read(None):
            for batch in batches:
                assert batch.offsets[0] == start + len(values)
                values += [value or b"" for value in batch.values]
    finally:
        cursor.close()
    return start, values
