"""Commits staged records. One transaction decides a commit; then this process or the next writer finishes it (R28).

A commit runs on its caller's thread and waits for the appends that it makes. It must have the folder to itself: another
append between the plan and its end would be counted as one of the plan's own.

Lock: `_Flight._lock` guards the appends under way and is never held during I/O.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence

from cordwood.errors import CordwoodError, Corrupt, NotFound, Unavailable, reason_of
from cordwood.locks import new_lock
from cordwood.log.native.coordinator import Coordinator
from cordwood.log.native.env.clock import Clock
from cordwood.log.native.env.disk import Disk
from cordwood.log.native.env.workers import Workers
from cordwood.log.native.folder.published import Owner
from cordwood.log.native.folder.writer import FolderWriter
from cordwood.log.native.folder.written_log import WrittenLog
from cordwood.log.native.stream.append import Append
from cordwood.records import StoredBatch

from .file import StagedFile, staged_frames
from .leftovers import Write, remove_staged, remove_unneeded
from .plan import GIVEN_UP, Plan, PlannedLog

IN_FLIGHT_BYTES_MAX = 16 * 1024 * 1024
"""The bytes of staged records that a commit appends at a time."""

APPEND_SECONDS_MAX = 120.0
"""How long one append of a commit may take: a disk that hangs must not block the committing process for ever."""


class StagedCommits:
    """The commits of a folder, in the process that writes it."""

    def __init__(
        self, disk: Disk, clock: Clock, workers: Workers, coordinator: Coordinator, engine: FolderWriter
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._workers = workers
        self._coordinator = coordinator
        self._engine = engine

    def finish_decided(self) -> None:
        """Finish a commit that a crash interrupted; to be called before any caller can append.

        `Corrupt` if a file that it needs is damaged or missing: nothing is lost silently.
        """
        text = self._coordinator.plan()
        if text == GIVEN_UP:
            self._coordinator.finish("", None)
        elif text is not None:
            self._finish(Plan.decode(text))

    def commit(self, write: Write, files: Sequence[StagedFile]) -> bool:
        """Append the records of all files, in order, once; False, and nothing appended, if an earlier call did that.

        An error with the outcome "not_written" came before the decision, and the files are removed. With "unknown" the
        commit is decided, or may be; then the next open for writing finishes it.
        """
        if write.batch is not None:
            last = self._coordinator.sink_batch(write.sink)
            if last is not None and write.batch <= last:
                remove_unneeded(self._disk, self._clock, write)
                return False
        try:
            plan = self._make_plan(write, files)
        except (CordwoodError, OSError) as error:
            remove_unneeded(self._disk, self._clock, write)
            if not isinstance(error, CordwoodError):
                raise Unavailable(
                    f"the commit was not begun: {error}", outcome="not_written", reason=reason_of(error)
                ) from error
            error.outcome = "not_written"
            raise
        self._decide(plan)
        self._finish(plan)
        remove_unneeded(self._disk, self._clock, write)
        return True

    def _make_plan(self, write: Write, files: Sequence[StagedFile]) -> Plan:
        """The plan, after a check of every frame: a decided commit must be possible to finish."""
        counts: dict[Owner, int] = {}
        for file in files:
            for owner, batch in staged_frames(self._disk, file):
                counts[owner] = counts.get(owner, 0) + len(batch)
        logs = [
            PlannedLog(*owner, start=_end(self._log(owner)), records=count) for owner, count in sorted(counts.items())
        ]
        return Plan(write.sink, write.batch, tuple(files), tuple(logs))

    def _decide(self, plan: Plan) -> None:
        try:
            self._coordinator.decide(plan.encode())
        except CordwoodError as error:
            error.outcome = "unknown"
            raise

    def _finish(self, plan: Plan) -> None:
        try:
            self._append(plan)
            # All is appended, and the plan still exists, so the files are not needed: a crash here leaves no leftovers.
            remove_staged(self._disk, [file.name for file in plan.files])
            self._coordinator.finish(plan.sink, plan.batch)
        except (CordwoodError, OSError) as error:
            text = (
                f"a commit of {plan.records} records was decided, and cannot be finished now: {error};"
                " it continues when it can, or at the next opening for writing: do not write them again"
            )
            if isinstance(error, Corrupt):
                raise Corrupt(text, outcome="unknown") from error
            raise Unavailable(text, outcome="unknown", reason=reason_of(error)) from error

    def _append(self, plan: Plan) -> None:
        # If a topic was deleted since, its part of the plan is dropped.
        names = {topic.id: topic.name for topic in self._engine.topics()}
        planned = {Owner(log.topic_id, log.partition): log for log in plan.logs if log.topic_id in names}
        logs = {owner: self._engine.log(names[owner.topic_id], owner.partition) for owner in planned}
        there = {owner: _end(log) - planned[owner].start for owner, log in logs.items()}
        for owner, log in logs.items():
            if not 0 <= there[owner] <= planned[owner].records:
                raise Corrupt(f"{log.name} ends at {_end(log)}, which does not fit the plan: {planned[owner]}")
        if all(there[owner] == planned[owner].records for owner in logs):
            return
        flight = _Flight(self._workers)
        for owner, place, batch in self._places(plan.files):
            if owner not in logs or place + len(batch) <= there[owner]:
                continue
            if place < there[owner]:
                raise Corrupt(f"{logs[owner].name} ends within a frame of the commit")
            deadline = self._clock.monotonic() + APPEND_SECONDS_MAX
            flight.append(logs[owner], batch, planned[owner].start + place, deadline)
        flight.land()
        for owner, log in logs.items():
            if _end(log) != planned[owner].start + planned[owner].records:
                raise Corrupt(f"{log.name} ends at {_end(log)} after the commit, against its plan: {planned[owner]}")

    def _places(self, files: Iterable[StagedFile]) -> Iterator[tuple[Owner, int, StoredBatch]]:
        """Every batch, with the number of records that its log gets before it."""
        counts: dict[Owner, int] = {}
        for file in files:
            for owner, batch in staged_frames(self._disk, file):
                place = counts.get(owner, 0)
                counts[owner] = place + len(batch)
                yield owner, place, batch

    def _log(self, owner: Owner) -> WrittenLog:
        for topic in self._engine.topics():
            if topic.id == owner.topic_id:
                return self._engine.log(topic.name, owner.partition)
        raise NotFound(f"the topic with the id {owner.topic_id} was deleted since the records were staged")


class _Flight:
    """Appends under way, within a limit on their bytes; the first error ends it."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._lock = new_lock("staged.flight")
        self._told = threading.Event()
        self._bytes = 0
        self._error: CordwoodError | None = None

    def cancelled(self) -> bool:
        return False

    def append(self, log: WrittenLog, batch: StoredBatch, expected: int, deadline: float) -> None:
        self._wait_until(IN_FLIGHT_BYTES_MAX - batch.weight)
        append = Append(batch, len(batch), self, self._on_landed, deadline, expected)
        with self._lock:
            self._bytes += append.weight
        submitted = log.submit(append)
        assert submitted, "a queue that only this commit uses is never full"

    def land(self) -> None:
        """Wait for all of them."""
        self._wait_until(0)

    def _on_landed(self, appends: list[Append]) -> None:
        with self._lock:
            for append in appends:
                self._bytes -= append.weight
                self._error = self._error or append.error
        self._told.set()

    def _wait_until(self, bytes_max: int) -> None:
        while True:
            self._told.clear()
            with self._lock:
                # An append that is still under way gets its expected offset, or is refused. A process that finishes the
                # plan later either finds its records, or its log refuses an append and it retries.
                if self._error is not None:
                    raise self._error
                if self._bytes <= max(0, bytes_max):
                    return
            self._workers.wait(self._told)


def _end(log: WrittenLog) -> int:
    return log.extent().durable.next_offset
