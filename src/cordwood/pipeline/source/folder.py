"""The logs of a folder, read by an observer: alongside the folder's writer, or without one.

Nothing stays open between two calls: an open takes a fifth of a millisecond, and a new call notices a folder that was
moved away or created again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import repeat

from cordwood.errors import CordwoodError, NotFound, Trimmed, Unavailable
from cordwood.log.native.folder.process import OpenFolder, open_for_reading
from cordwood.log.native.stream.reading.cursor import Extent, LogCursor, Source, offset_at
from cordwood.records import StoredBatch
from cordwood.url import FileUrl

from .logs import Bounds, LogName, Task, Topic
from .schema import CREATE_TIME

TASK_BYTES = 128 * 1024 * 1024
"""The most that a task of a batch reads, where whole plogs allow it: as much as Spark's tasks read of a file."""

_CLOSE_SECONDS = 30.0


class FolderLogs:
    """The `Logs` of a folder."""

    behind_seconds = 0.0

    def __init__(self, url: FileUrl) -> None:
        self._path = url.path
        self._views: dict[tuple[str, int], Extent] = {}
        """The last result of `bounds`, by id of the topic and partition: a new look-up for each log would read all
        again."""

    def topics(self, wanted: Callable[[str], object]) -> list[Topic]:
        with self._open() as folder:
            rows = sorted(folder.topics(), key=lambda row: row.name)
        return [Topic(row.name, str(row.id), row.partitions) for row in rows if wanted(row.name)]

    def bounds(self, topics: Sequence[Topic]) -> dict[LogName, Bounds]:
        with self._open() as folder:
            views = {log: source.extent() for log, source in _sources(folder, topics)}
        ids = {topic.name: topic.id for topic in topics}
        self._views = {(ids[log.topic], log.partition): view for log, view in views.items()}
        return {log: Bounds(view.start, view.durable.next_offset) for log, view in views.items()}

    def offsets_at(self, topics: Sequence[Topic], timestamp_ms: int) -> dict[LogName, int]:
        with self._open() as folder:
            return {log: offset_at(source, timestamp_ms) for log, source in _sources(folder, topics)}

    def split(self, task: Task) -> Iterator[Task]:
        view = self._views.get((task.topic_id, task.partition))
        if view is None:
            with self._open() as folder:
                view = _source(folder, task).extent()
        return by_plogs(task, view)

    def frames(self, task: Task) -> Iterator[tuple[StoredBatch, int]]:
        with self._open() as folder:
            source = _source(folder, task)
            with closing(LogCursor(source, task.start)) as cursor:
                while cursor.offset < task.stop:
                    try:
                        frames = cursor.read(task.stop)
                    except Trimmed:
                        raise
                    except CordwoodError:
                        # A reader sees a topic that is being deleted as damage.
                        _check_same_topic(folder, task.topic, task.topic_id)
                        raise
                    if not frames:
                        raise Unavailable(
                            f"{source.name} ends at {cursor.offset}, but ended at {task.stop} when this was planned",
                            reason="failed",
                        )
                    yield from zip(frames, repeat(CREATE_TIME), strict=False)

    def close(self) -> None:
        """Nothing is open."""

    @contextmanager
    def _open(self) -> Iterator[OpenFolder]:
        if not self._path.is_dir():
            raise Unavailable(
                f"{self._path} does not exist on this machine: every process of Spark reads it", reason="unreachable"
            )
        folder = open_for_reading(self._path)
        try:
            yield folder
        finally:
            folder.close(_CLOSE_SECONDS)


def by_plogs(task: Task, view: Extent, task_bytes: int = TASK_BYTES) -> Iterator[Task]:
    """The range of a task, cut where plogs begin; neighbours are merged up to `task_bytes`. No I/O."""
    start, size = task.start, 0
    for first, following, plog_bytes in _plogs(view):
        low, high = max(first, task.start), min(following, task.stop)
        if low >= high:
            continue
        part = plog_bytes * (high - low) // (following - first)
        if size and size + part > task_bytes:
            yield replace(task, start=start, stop=low, weight=size)
            start, size = low, 0
        size += part
    if start < task.stop:
        yield replace(task, start=start, weight=size)


def _plogs(view: Extent) -> Iterator[tuple[int, int, int]]:
    """First offset, first offset of the next plog, and bytes of each plog that may be read."""
    links = view.chain.links
    ends = [*(link.first_offset for link in links[1:]), view.durable.next_offset]
    for link, following in zip(links, ends, strict=True):
        yield link.first_offset, min(following, view.durable.next_offset), view.end_of(link)


def _sources(folder: OpenFolder, topics: Sequence[Topic]) -> Iterator[tuple[LogName, Source]]:
    for topic in topics:
        logs = [LogName(topic.name, partition) for partition in range(topic.partitions)]
        sources = [folder.source(*log) for log in logs]
        # Checked afterwards: ids are never reused, so the topic that has the id now is the one that was found before.
        _check_same_topic(folder, topic.name, topic.id)
        yield from zip(logs, sources, strict=True)


def _source(folder: OpenFolder, task: Task) -> Source:
    source = folder.source(*task.log)
    _check_same_topic(folder, task.topic, task.topic_id)
    return source


def _check_same_topic(folder: OpenFolder, name: str, id: str) -> None:
    if str(folder.topic(name).id) != id:
        raise NotFound(f"topic {name!r} was deleted and made anew since this was planned")
