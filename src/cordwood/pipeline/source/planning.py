"""The common part of batches and streams: looking up topics, resolving starts, reading a task, and data loss."""

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from cordwood.errors import CordwoodError, InvalidInput, NotFound, Trimmed, Unavailable
from cordwood.records import StoredBatch

from .logs import Bounds, LogName, Logs, Task, Topic, open_logs
from .options import EARLIEST, LATEST, Offsets, ReadOptions
from .rows import Rows

GO_ON = "with failOnDataLoss=false the rest is read"

_logger = logging.getLogger("cordwood.spark")
_TRIES = 5


class Losses:
    """How missing records are reported: as an error, or as a warning."""

    def __init__(self, options: ReadOptions) -> None:
        self._fail = options.fail_on_data_loss

    def report(self, error: CordwoodError) -> None:
        """Raise the error, or log it as a warning; then the caller continues with the records that are there."""
        if self._fail:
            raise error
        _logger.warning("left out: %s", error)


@dataclass(frozen=True)
class Look:
    """Topics, by name, and the bounds of their logs, as of one moment."""

    topics: Mapping[str, Topic]
    bounds: Mapping[LogName, Bounds]


def look(logs: Logs, wanted: Callable[[str], object]) -> Look:
    """The topics whose name is wanted, as they are now."""
    for _ in range(_TRIES):
        topics = logs.topics(wanted)
        # NotFound: the topic was deleted in between.
        with suppress(NotFound):
            return Look({topic.name: topic for topic in topics}, logs.bounds(topics))
    raise Unavailable("topics are deleted while they are looked at, again and again: try again", reason="failed")


def selection(options: ReadOptions) -> Callable[[str], object]:
    """The names of topics that the options select, as a predicate."""
    return frozenset(options.topics).__contains__ if options.pattern is None else re.compile(options.pattern).fullmatch


def check_all_there(options: ReadOptions, now: Look) -> None:
    """Raise `NotFound` if the options name a topic that does not exist."""
    for name in options.topics:
        if name not in now.topics:
            raise NotFound(f"topic {name!r} does not exist in {options.url}")


def resolved(name: str, offsets: Offsets, now: Look) -> dict[LogName, int]:
    """An option's offset for every log; as with Kafka's source it must name each log of the read, and no other."""
    if offsets.by_log is None:
        number = offsets.everywhere
        given = {log: number for log in now.bounds if number is not None}
    else:
        given = {
            LogName(topic, partition): number
            for topic, of in offsets.by_log.items()
            for partition, number in of.items()
        }
    for wrong, what in (
        (now.bounds.keys() - given, "says nothing of"),
        (given.keys() - now.bounds, "names logs that are not read:"),
    ):
        if wrong:
            raise InvalidInput(
                f"option {name!r} {what} {', '.join(map(str, sorted(wrong)))};"
                " it needs an offset for every partition of the topics"
            )
    return {log: {EARLIEST: kept, LATEST: end}.get(given[log], given[log]) for log, (kept, end) in now.bounds.items()}


def starts(options: ReadOptions, logs: Logs, now: Look) -> dict[LogName, int]:
    """The start of each log, by `startingTimestamp` or `startingOffsets`; it may be below the first kept offset."""
    if options.start_ms is None:
        assert options.start is not None
        return resolved("startingOffsets", options.start, now)
    found = logs.offsets_at(list(now.topics.values()), options.start_ms)
    return {log: min(found[log], end) for log, (_, end) in now.bounds.items()}


def kept_range(log: LogName, start: int, stop: int, bounds: Bounds, losses: Losses) -> Bounds:
    """The kept part of a range; missing records on either side are a loss."""
    if start < min(bounds.start, stop):
        text = f"{log}: offset {start} is no longer kept; the first kept one is {bounds.start}"
        losses.report(Trimmed(f"{text}; {GO_ON}", start=bounds.start))
        start = bounds.start
    if max(start, stop) > bounds.stop:
        losses.report(InvalidInput(f"{log}: offset {max(start, stop)} is beyond the end, {bounds.stop}; {GO_ON}"))
        stop = min(stop, bounds.stop)
    return Bounds(min(start, stop), stop)


def read_task(options: ReadOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of one task, as Arrow batches; runs in a worker."""
    task = partition.value
    if task is None:
        # Spark passes None for a read without any task.
        return
    with open_logs(options.url) as logs:
        yield from Rows(task.topic, task.partition, options.include_headers).batches(
            _kept_frames(logs, task, Losses(options))
        )


def _kept_frames(logs: Logs, task: Task, losses: Losses) -> Iterator[tuple[StoredBatch, int]]:
    while task.start < task.stop:
        try:
            for frame, time_type in logs.frames(task):
                yield frame, time_type
                task = replace(task, start=frame.offsets[-1] + 1)
            return
        except Trimmed as error:
            losses.report(Trimmed(f"{error}: trimmed since this was planned; {GO_ON}", start=error.start))
            task = replace(task, start=error.start)
        except NotFound as error:
            # Noticed only at the end: any of the records that were read may be another topic's.
            which = f"offsets {task.start} to" if task.start < task.stop else "some of the offsets up to"
            losses.report(NotFound(f"{task.log}: {which} {task.stop - 1} are gone: {error}; {GO_ON}"))
            return
