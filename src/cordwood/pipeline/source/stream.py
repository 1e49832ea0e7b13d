"""A stream: one process that lives as long as the query plans each micro-batch, and tasks read it.

Spark writes the position that `latestOffset` returns into the checkpoint, and only then asks `partitions` for the tasks
up to it. After a crash it asks again, with the same two positions. So the result of `partitions` depends only on them,
and on the records that are still kept.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from cordwood.errors import CordwoodError, InvalidInput, NotFound, Trimmed, Unavailable

from .logs import Bounds, LogName, Logs, Task, logs_at
from .options import BEGAN_AT, TOPIC_IDS, ReadOptions
from .plan import at_least
from .planning import GO_ON, Look, Losses, check_all_there, kept_range, look, read_task, selection, starts
from .position import Position
from .share import shares

_LOOK_AGAIN_SECONDS = 0.05
_NOWHERE = {TOPIC_IDS: {}, BEGAN_AT: "nowhere"}
"""A position that no query reaches: even a query without a topic has a start."""


class LogsStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reading side of one query. Workers run `read`, on copies that were made before anything was opened."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options.for_stream()
        self._losses = Losses(options)
        self._opened: Logs | None = None
        self._initial: dict[str, Any] | None = None
        self._no_start: CordwoodError | None = None
        """Why a query could not begin."""
        self._final: Look | None = None
        """With `availableNow`: the logs as of the start of the query, which reads no more than that."""
        self._latest: Position | None = None
        self._missing: set[str] = set()

    def initialOffset(self) -> dict[str, Any]:
        """The start of a query that has no checkpoint yet.

        Spark also asks for it to repeat the first micro-batch, whose end position has the start already. So errors are
        raised only where the start counts, in `latestOffset`: a partition that was added since, or a deleted topic,
        must not keep a query from continuing.
        """
        try:
            self._initial, self._no_start = self._beginning().json(), None
        except (InvalidInput, NotFound, Trimmed) as error:
            self._initial, self._no_start = _NOWHERE, error
        return self._initial

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next micro-batch; equal to `start` if there are no new records.

        Losses are detected here already: the error then leaves the checkpoint as it is.
        """
        if self._no_start is not None and start == self._initial:
            raise self._no_start
        before = Position.of(start)
        now = self._look(selection(self._options), before)
        self._latest = _end(now)
        until = self._latest if self._final is None else _no_further(self._latest, _end(self._final))
        until = _nothing_forgotten(before, until, self._latest.ids)
        ranges = self._ranges(before, until, now)
        self._check_missing(now)
        if isinstance(limit, ReadMaxRows):
            waiting = {log: stop - begin for log, (begin, stop) in ranges.items()}
            # The number of read records grows by the limit each time, so the next turn begins where this one ended.
            given = shares(limit.max_rows, waiting, sum(before.offsets.values()))
            ranges = {log: Bounds(begin, begin + given[log]) for log, (begin, _) in ranges.items()}
        end = Position({log: stop for log, (_, stop) in ranges.items()}, until.ids)
        if start == self._initial:
            return {**end.json(), BEGAN_AT: start}
        return start if end == before else end.json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """`maxOffsetsPerTrigger`."""
        return ReadAllAvailable() if self._options.max_offsets is None else ReadMaxRows(self._options.max_offsets)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The ends of the logs, which Spark shows in the progress, as the lag of the query."""
        return None if self._latest is None else self._latest.json()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end, for all micro-batches of this run."""
        self._final = look(self._logs(), selection(self._options))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One task for each log with new records, unless `minPartitions` asks for more."""
        before, until = Position.before(start, end), Position.of(end)
        ranges = self._ranges(before, until, self._look(until.ids.__contains__, until))
        tasks = [
            Task(log.topic, until.ids[log.topic], log.partition, begin, stop, stop - begin)
            for log, (begin, stop) in ranges.items()
            if begin < stop
        ]
        return [InputPartition(task) for task in at_least(tasks, self._options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, as Arrow batches."""
        return read_task(self._options, partition)

    def stop(self) -> None:
        """The query has ended."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _beginning(self) -> Position:
        now = self._final or look(self._logs(), selection(self._options))
        check_all_there(self._options, now)
        begin = starts(self._options, self._logs(), now)
        kept = {
            log: kept_range(log, begin[log], bounds.stop, bounds, self._losses) for log, bounds in now.bounds.items()
        }
        return Position({log: start for log, (start, _) in kept.items()}, _ids(now))

    def _logs(self) -> Logs:
        if self._opened is None:
            self._opened = logs_at(self._options.url)
        return self._opened

    def _look(self, wanted: Callable[[str], object], known: Position) -> Look:
        """The present topics and bounds. A known log counts as missing only if it stays missing for a while."""
        logs = self._logs()
        deadline = time.monotonic() + logs.behind_seconds
        while True:
            now = look(logs, wanted)
            if _all_known(now, wanted, known) or time.monotonic() >= deadline:
                return now
            time.sleep(_LOOK_AGAIN_SECONDS)

    def _ranges(self, before: Position, until: Position, now: Look) -> dict[LogName, Bounds]:
        """The range of each log between two positions; missing records are a loss."""
        self._report_gone(before, until)
        ranges = {}
        for log, stop in until.offsets.items():
            id = until.ids[log.topic]
            # A new log is read from its very first record; if that one is no longer kept, it is a loss too.
            begin = before.offsets.get(log, 0) if before.ids.get(log.topic) == id else 0
            if begin > stop:
                text = f"{log}: was read up to offset {begin}, but ends at {stop} now"
                self._losses.report(InvalidInput(f"{text}; {GO_ON}"))
                begin = stop
            topic = now.topics.get(log.topic)
            if topic is not None and topic.id == id:
                ranges[log] = self._kept(log, begin, stop, now)
            elif begin < stop:
                what = "does not exist any more" if topic is None else "was deleted and made anew"
                text = f"{log}: offsets {begin} to {stop - 1} are gone: topic {log.topic!r} {what}"
                self._losses.report(NotFound(f"{text}; {GO_ON}"))
        return ranges

    def _kept(self, log: LogName, begin: int, stop: int, now: Look) -> Bounds:
        if log in now.bounds:
            return kept_range(log, begin, stop, now.bounds[log], self._losses)
        if begin < stop:
            text = f"{log}: offsets {begin} to {stop - 1} are due, but the server that was asked does not know it yet"
            raise Unavailable(f"{text}: try again", reason="unreachable")
        return Bounds(begin, stop)

    def _check_missing(self, now: Look) -> None:
        """If topics may be missing, the query also waits for one that its options name; it logs that once."""
        missing = set(self._options.topics) - now.topics.keys()
        for name in sorted(missing - self._missing):
            text = f"topic {name!r} does not exist in {self._options.url}"
            self._losses.report(NotFound(f"{text}; with failOnDataLoss=false the query waits for it"))
        self._missing = missing

    def _report_gone(self, before: Position, until: Position) -> None:
        for name, id in before.ids.items():
            if until.ids.get(name) == id:
                continue
            if name in until.ids:
                what = "was deleted and made anew"
            elif not selection(self._options)(name):
                what = "is in the checkpoint, but the query does not read it any more"
            else:
                what = "does not exist any more"
            read = ", ".join(f"{log} up to {offset}" for log, offset in before.offsets.items() if log.topic == name)
            text = f"topic {name!r} {what}: the records after its last position ({read}) are gone"
            self._losses.report(NotFound(f"{text}; {GO_ON}"))


def _all_known(now: Look, wanted: Callable[[str], object], known: Position) -> bool:
    ids = _ids(now)
    same = all(ids.get(name) == id for name, id in known.ids.items() if wanted(name))
    return same and all(log in now.bounds for log in known.offsets if wanted(log.topic))


def _ids(now: Look) -> Mapping[str, str]:
    return {topic.name: topic.id for topic in now.topics.values()}


def _end(now: Look) -> Position:
    return Position({log: stop for log, (_, stop) in now.bounds.items()}, _ids(now))


def _nothing_forgotten(before: Position, until: Position, ids: Mapping[str, str]) -> Position:
    """The later position, with every log of the earlier one whose topic still exists, by the present ids.

    A broker may not know an added partition or topic yet. A log that is left out would count as new when it is seen
    again, and be read from its first record on.
    """
    same = {name: id for name, id in before.ids.items() if ids.get(name) == id}
    kept = {log: offset for log, offset in before.offsets.items() if log.topic in same}
    return Position({**kept, **until.offsets}, {**same, **until.ids})


def _no_further(latest: Position, final: Position) -> Position:
    """The latest position, limited to the topics and the offsets of the final one."""
    ids = {name: id for name, id in latest.ids.items() if final.ids.get(name) == id}
    offsets = {
        log: min(offset, final.offsets[log])
        for log, offset in latest.offsets.items()
        if log.topic in ids and log in final.offsets
    }
    return Position(offsets, ids)
