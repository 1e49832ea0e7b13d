"""Planning a read, and reading: each opens the folder read-only, in whichever process Spark runs it."""

import logging
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from cordwood.errors import CordwoodError, InvalidInput, NotFound, Trimmed, Unavailable
from cordwood.log.native.coordinator import TopicRow
from cordwood.log.native.folder import Folder, open_for_reading
from cordwood.log.native.stream.cursor import LogCursor, Source, offset_at
from cordwood.records import StoredBatch

from .options import EARLIEST, LATEST, Offsets, ReadOptions
from .plan import Task, at_least, tasks_of
from .rows import Rows

_logger = logging.getLogger("cordwood")
_CLOSE_SECONDS = 30.0
_GO_ON = "with failOnDataLoss=false what is there is read"


class LogsReader(DataSourceReader):
    """One batch read. `partitions` runs once, when Spark plans; `read` in a worker, on a copy of this object."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """A task each; the end of every log is fixed here, whatever is appended later."""
        with _opened(self._options) as folder:
            topics = self._topics(folder)
            for name, offsets in (("startingOffsets", self._options.start), ("endingOffsets", self._options.stop)):
                _check_complete(name, offsets, topics)
            tasks = [
                task
                for topic in topics
                for partition in range(topic.partitions)
                for task in self._tasks(folder.source(topic.name, partition), topic, partition)
            ]
        return [InputPartition(task) for task in at_least(tasks, self._options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, as Arrow batches."""
        task = partition.value
        if task is None:
            # What Spark makes of a read without any task.
            return
        with _opened(self._options) as folder:
            rows = Rows(task.topic, task.partition, self._options.include_headers)
            yield from rows.batches(self._frames(folder, task))

    def _topics(self, folder: Folder) -> list[TopicRow]:
        pattern = self._options.pattern
        if pattern is None:
            return [folder.topic(name) for name in self._options.topics]
        found = re.compile(pattern)
        return sorted((row for row in folder.topics() if found.fullmatch(row.name)), key=lambda row: row.name)

    def _tasks(self, source: Source, topic: TopicRow, partition: int) -> Iterator[Task]:
        options = self._options
        view = source.view()
        kept, end = view.start, view.durable.next_offset
        if options.start_ms is None:
            start = _resolved(options.start, topic.name, partition, kept, end)
        else:
            start = min(offset_at(source, options.start_ms), end)
        stop = _resolved(options.stop, topic.name, partition, kept, end)
        if start < kept:
            text = f"{source.name}: offset {start} is no longer kept; the first kept one is {kept}"
            self._lost(Trimmed(f"{text}; {_GO_ON}", start=kept))
            start = kept
        if max(start, stop) > end:
            self._lost(InvalidInput(f"{source.name}: offset {max(start, stop)} is beyond the end, {end}; {_GO_ON}"))
            start, stop = min(start, end), min(stop, end)
        if start < stop:
            yield from tasks_of(Task(topic.name, topic.id, partition, start, stop, 0), view)

    def _frames(self, folder: Folder, task: Task) -> Iterator[StoredBatch]:
        try:
            _check_same_topic(folder, task)
            source = folder.source(task.topic, task.partition)
        except NotFound as error:
            self._lost_from(task, task.start, error)
            return
        with closing(LogCursor(source, task.start)) as cursor:
            while cursor.offset < task.stop:
                try:
                    frames = cursor.read(task.stop)
                    if not frames:
                        raise Unavailable(
                            f"{source.name} ends at {cursor.offset}, but ended at {task.stop} when planned"
                        )
                except Trimmed as error:
                    self._lost(Trimmed(f"{error}: trimmed since this read was planned; {_GO_ON}", start=error.start))
                    cursor.offset = error.start
                    continue
                except CordwoodError:
                    # A topic that is deleted looks like damage to who is reading it.
                    try:
                        _check_same_topic(folder, task)
                    except NotFound as error:
                        self._lost_from(task, cursor.offset, error)
                        return
                    raise
                yield from frames

    def _lost_from(self, task: Task, offset: int, error: NotFound) -> None:
        log = f"{task.topic}/{task.partition}"
        self._lost(NotFound(f"{log}: offsets {offset} to {task.stop - 1} are gone: {error}; {_GO_ON}"))

    def _lost(self, error: CordwoodError) -> None:
        """Records that were asked for are not there: raised, or a warning."""
        if self._options.fail_on_data_loss:
            raise error
        _logger.warning("left out: %s", error)


@contextmanager
def _opened(options: ReadOptions) -> Iterator[Folder]:
    if not options.folder.is_dir():
        raise Unavailable(f"{options.folder} does not exist on this machine: every process of Spark reads it")
    folder = open_for_reading(options.folder)
    try:
        yield folder
    finally:
        folder.close(_CLOSE_SECONDS)


def _check_same_topic(folder: Folder, task: Task) -> None:
    if folder.topic(task.topic).id != task.topic_id:
        raise NotFound(f"topic {task.topic!r} was deleted and made anew since this read was planned")


def _check_complete(name: str, offsets: Offsets, topics: list[TopicRow]) -> None:
    """As Kafka's source: an offset for every log that is read, and for no other."""
    if offsets.by_log is None:
        return
    given = {(topic, partition) for topic, partitions in offsets.by_log.items() for partition in partitions}
    logs = {(topic.name, partition) for topic in topics for partition in range(topic.partitions)}
    for wrong, what in ((logs - given, "says nothing of"), (given - logs, "names what is not read:")):
        if wrong:
            raise InvalidInput(
                f"option {name!r} {what} {', '.join(f'{topic}/{partition}' for topic, partition in sorted(wrong))};"
                " it needs an offset for every partition of the topics"
            )


def _resolved(offsets: Offsets, topic: str, partition: int, kept: int, end: int) -> int:
    number = offsets.everywhere if offsets.by_log is None else offsets.by_log[topic][partition]
    assert number is not None
    return {EARLIEST: kept, LATEST: end}.get(number, number)
