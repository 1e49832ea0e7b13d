"""A folder of logs on simulated parts, which records the calls and their results and checks itself against them.

folder = SimulatedFolder(seed=7)
folder.open()
folder.create_topic("a")
folder.append("a", b"one", b"two")
folder.run()
found = folder.power_cut("none")
found.open()
found.check()
"""

import copy
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from cordwood.errors import CordwoodError, Trimmed
from cordwood.log.native.folder.observer import FolderObserver
from cordwood.log.native.folder.staged import StagedCommits
from cordwood.log.native.folder.witness import Witness, WitnessedCoordinator
from cordwood.log.native.folder.writer import CLUSTER, GROUP, FolderSettings, FolderWriter
from cordwood.log.native.folder.written_log import WrittenLog
from cordwood.log.native.plog import PlogId
from cordwood.log.native.stream.append import Append
from cordwood.log.native.stream.reading.cursor import LogCursor, Source
from cordwood.log.topics import TopicConfig
from cordwood.records import Batch
from cordwood.simulation.clock import SimulatedClock
from cordwood.simulation.coordinator import SimulatedCoordinator
from cordwood.simulation.disk import SimulatedDisk
from cordwood.simulation.ledger import Broken, Contents, LogLedger, Write
from cordwood.simulation.power import Chooser
from cordwood.simulation.workers import SimulatedWorkers

# So small that a few appends roll plogs over, and a few rollovers fill a metadata plog.
TINY = FolderSettings(plog_bytes_max=4096, metadata_plog_bytes_min=1024)

_NEVER = float("inf")
_ONE_PARTITION = TopicConfig()


@dataclass(eq=False, slots=True)
class Topic:
    """A topic as the ledger knows it; `certain` is False while a call that creates or deletes it is under way."""

    name: str
    partitions: int
    certain: bool = False
    gone: bool = False
    logs: list[LogLedger] = field(default_factory=list)


class _Caller:
    """The caller of an append; it never gives up."""

    def __init__(self, write: Write, ledger: LogLedger) -> None:
        self.write = write
        self.ledger = ledger
        self.done = False

    def cancelled(self) -> bool:
        return False


class SimulatedFolder:
    """Opens, uses, crashes and checks one folder. A crash returns another folder; this one stays as it is."""

    def __init__(self, seed: int = 0, *, settings: FolderSettings = TINY, disk: SimulatedDisk | None = None) -> None:
        self.settings = settings
        self.random = Random(seed)
        self.disk = disk or SimulatedDisk()
        self.clock = SimulatedClock()
        self.workers = SimulatedWorkers(self.random)
        self.coordinator = SimulatedCoordinator(self.disk)
        self.topics: dict[str, Topic] = {}
        self.errors: list[CordwoodError] = []
        """The errors of failed appends, in order."""
        self._callers: list[_Caller] = []
        self._engine: FolderWriter | None = None

    # -- life ----------------------------------------------------------------------------------------------------

    @property
    def engine(self) -> FolderWriter:
        assert self._engine is not None, "the folder is not open"
        return self._engine

    def open(self) -> FolderWriter:
        coordinator = WitnessedCoordinator(self.coordinator, Witness(self.disk))
        try:
            self._engine = FolderWriter(
                self.disk, self.clock, self.workers, coordinator, self.settings, new_id=self._new_id
            )
        except BaseException:
            coordinator.close()
            raise
        self.staged = StagedCommits(self.disk, self.clock, self.workers, coordinator, self._engine)
        self.staged.finish_decided()
        return self._engine

    def run(self) -> None:
        self.workers.run_until_idle()

    def close(self) -> None:
        """Close cleanly, and wait for it."""
        done: list[bool] = []
        self.engine.close(lambda: done.append(True))
        self.run()
        if done != [True]:
            raise Broken(f"the folder closed {len(done)} times")
        self._engine = None

    def reopen(self) -> None:
        self.close()
        self.open()

    def tick(self, seconds: float = 0.25) -> None:
        """Run the periodic work: advance the clock, expire callers, and retry appends that wait for room."""
        self.clock.advance(seconds)
        self.engine.expire()
        self.engine.catch_up()
        self.run()

    def power_cut(self, choose: Random | Chooser | Literal["none", "all"], *, seed: int = 0) -> "SimulatedFolder":
        return self._after(self.disk.power_cut(choose), seed)

    def killed(self, *, seed: int = 0) -> "SimulatedFolder":
        return self._after(self.disk.killed(), seed)

    def _after(self, disk: SimulatedDisk, seed: int) -> "SimulatedFolder":
        found = SimulatedFolder(seed, settings=self.settings, disk=disk)
        found.coordinator = self.coordinator.after_crash(disk)
        found.clock.now_ms = self.clock.now_ms
        found.topics = copy.deepcopy(self.topics)
        # Another seed may produce the ids of the first life again.
        found.random.seed(f"{seed} {self.random.random()}")
        return found

    def _new_id(self) -> PlogId:
        return PlogId(CLUSTER, GROUP, self.random.getrandbits(64) or 1)

    # -- use -----------------------------------------------------------------------------------------------------

    def create_topic(self, name: str, config: TopicConfig = _ONE_PARTITION) -> None:
        partitions = config.partitions or 1
        topic = Topic(name, partitions, logs=[LogLedger(f"{name}/{n}") for n in range(partitions)])
        self.topics[name] = topic
        self.engine.create_topic(name, config)
        topic.certain = True

    def delete_topic(self, name: str) -> None:
        """Returns when the topic is deleted; jobs that `run` runs free its space."""
        topic = self.topics[name]
        topic.certain = False
        self.engine.delete_topic(name, lambda: None)
        topic.certain = topic.gone = True

    def ledger(self, topic: str, partition: int = 0) -> LogLedger:
        return self.topics[topic].logs[partition]

    def log(self, topic: str, partition: int = 0) -> WrittenLog:
        return self.engine.log(topic, partition)

    def append(self, topic: str, *values: bytes, partition: int = 0, expected: int | None = None) -> Write:
        """Submit an append; it is acked, or not, while jobs run."""
        ledger = self.ledger(topic, partition)
        write = ledger.write(values)
        caller = _Caller(write, ledger)
        append = Append(Batch.of(list(values)), len(values), caller, self._notify, _NEVER, expected)
        if not self.log(topic, partition).submit(append):
            raise Broken(f"{ledger.name}: the queue is full")
        self._callers.append(caller)
        return write

    def put(self, topic: str, count: int = 1, size: int = 100, *, partition: int = 0) -> Write:
        """Append values that no other append has."""
        number = len(self.ledger(topic, partition).writes)
        values = [f"{topic}/{partition} {number}.{place} ".encode().ljust(size, b".") for place in range(count)]
        return self.append(topic, *values, partition=partition)

    def trim(self, topic: str, before: int, *, partition: int = 0) -> None:
        """Returns when the trim is confirmed; jobs that `run` runs free the space."""
        ledger = self.ledger(topic, partition)
        ledger.ask_trim(before)
        self.log(topic, partition).trim(before, lambda: None)
        ledger.trim(before)

    def enforce_retention(self) -> None:
        for topic, partition, ledger in self.logs():
            # The engine decides how much to trim, but never beyond the durable end.
            ledger.ask_trim(self.log(topic, partition).extent().durable.next_offset)
        self.engine.enforce_retention()
        for topic, partition, ledger in self.logs():
            ledger.trim(self.log(topic, partition).extent().start)
            ledger.start_max = ledger.start_min

    def _notify(self, appends: list[Append]) -> None:
        for append in appends:
            caller = append.waiter
            assert isinstance(caller, _Caller)
            if caller.done:
                # As with a future: a caller that has its answer gets no other.
                continue
            caller.done = True
            if append.error is None:
                assert append.result is not None
                caller.ledger.ack(caller.write, append.result)
                continue
            self.errors.append(append.error)
            if append.error.outcome == "not_written":
                caller.ledger.refuse(caller.write)

    def unanswered(self) -> list[Write]:
        """Appends whose callers still wait."""
        return [caller.write for caller in self._callers if not caller.done]

    # -- truth ---------------------------------------------------------------------------------------------------

    def check(self, *, settle: bool = False) -> None:
        """Compare every log with its promises. `settle` after a crash: the contents now decide the open questions."""
        self._check_topics({row.name for row in self.engine.topics()}, settle)
        for topic, partition, ledger in self.logs():
            log = self.log(topic, partition)
            contents = read_all(log)
            ledger.check(contents)
            check_trimmed(log, contents.start)
            if settle:
                ledger.settle(contents)

    def check_view(self, *, all_acked: bool = False, beside_writer: bool = False) -> dict[str, Contents]:
        """Compare a reader's view, without a writer or alongside this one, with the promises; return the view."""
        view = FolderObserver(self.disk, lambda: beside_writer)
        try:
            names = {row.name for row in view.topics()}
            self._check_topics(names, settle=False)
            shown = {}
            for topic, partition, ledger in self.logs():
                if topic not in names:
                    continue
                log = view.log(topic, partition)
                shown[ledger.name] = contents = read_all(log)
                ledger.check(contents, to_the_end=all_acked)
                check_trimmed(log, contents.start)
            return shown
        finally:
            view.close()

    def check_shown(self, shown: dict[str, Contents]) -> None:
        """Records that a reader saw must still be in the log (R8)."""
        for topic, partition, ledger in self.logs():
            seen = shown.get(ledger.name)
            if seen is None:
                continue
            now = read_all(self.log(topic, partition))
            there = dict(now.found())
            for offset, value in seen.found():
                if offset >= now.start and there.get(offset) != value:
                    raise Broken(f"{ledger.name}: a reader saw {value[:40]!r} at {offset}, now it is not there")
            if now.end < seen.end:
                raise Broken(f"{ledger.name}: a reader saw an end of {seen.end}, now it is {now.end}")

    def _check_topics(self, names: set[str], settle: bool) -> None:
        for topic in self.topics.values():
            there = topic.name in names
            if topic.certain and there == topic.gone:
                raise Broken(f"topic {topic.name} is {'there' if there else 'missing'}")
            if settle:
                topic.certain, topic.gone = True, not there
        if unknown := names - set(self.topics):
            raise Broken(f"topics that nobody made: {unknown}")

    def logs(self) -> list[tuple[str, int, LogLedger]]:
        """Topic, partition and ledger of every log that exists."""
        there = {row.name for row in self.engine.topics()} if self._engine is not None else set(self.topics)
        return [
            (topic.name, partition, ledger)
            for topic in self.topics.values()
            if topic.name in there and not topic.gone
            for partition, ledger in enumerate(topic.logs)
        ]


def read_all(source: Source) -> Contents:
    """All records of a log that a reader can see."""
    view = source.extent()
    cursor = LogCursor(source, view.start)
    values: list[bytes] = []
    try:
        while batches := cursor.read(None):
            for batch in batches:
                if batch.offsets[0] != view.start + len(values):
                    raise Broken(f"{source.name}: offset {batch.offsets[0]} follows {view.start + len(values) - 1}")
                values += [value or b"" for value in batch.values]
    finally:
        cursor.close()
    return Contents(view.start, view.durable.next_offset, values)


def check_trimmed(source: Source, start: int) -> None:
    """Check that every read below the start is refused, with the start (R7)."""
    for offset in {0, start // 2, start - 1} if start else ():
        cursor = LogCursor(source, offset)
        try:
            cursor.read(None)
        except Trimmed as error:
            if error.start != start:
                raise Broken(f"{source.name}: Trimmed says {error.start}, the start is {start}") from error
        else:
            raise Broken(f"{source.name}: offset {offset} was read, the start is {start}")
        finally:
            cursor.close()
