"""One log of a reader: where its part begins and ends, and the cursor that reads it."""

from collections.abc import Callable
from enum import Enum, auto

from cordwood.errors import Conflict, CordwoodError, NotFound, Trimmed
from cordwood.log.arguments import beyond_end
from cordwood.log.interface import Follow
from cordwood.log.native.folder.written_log import WrittenLog
from cordwood.log.native.stream.reading.cursor import Extent, LogCursor, Source, Step, trimmed

from .sources import Ends


class PartState(Enum):
    """What a reader does with a part. The reader's lock guards it."""

    READING = auto()
    RESTING = auto()
    """At the end of the log: the reader waits for growth."""
    FINISHED = auto()
    DROPPED = auto()


class Part:
    """`open` and `fetch` block on the disk: the threads of the reader call them by turns."""

    def __init__(
        self,
        name: str,
        partition: int,
        resolve: Callable[[], Source],
        *,
        start: int | None,
        stop: int | None,
        follow: Follow,
        ends: Callable[[], Ends] | None = None,
        from_end: bool = False,
    ) -> None:
        self.name = name
        self.partition = partition
        self.state = PartState.READING
        self.position = start
        """One past what the reader has returned; None until the start is known."""
        self.growth: Callable[[], None] | None = None
        """The job that waits for the log to grow."""
        self.source: Source | None = None
        self._cursor: LogCursor | None = None
        self._resolve = resolve
        self._start = start
        self._stop = stop
        self._follow = follow
        self._ends = ends
        self._from_end = from_end
        self._begins = True

    @property
    def next_offset(self) -> int:
        """The next offset to fetch; only once it is open."""
        assert self._cursor is not None
        return self._cursor.offset

    @property
    def at_stop(self) -> bool:
        return self._stop is not None and self._cursor is not None and self._cursor.offset >= self._stop

    @property
    def ends(self) -> bool:
        """Whether a part at the end of its log is finished."""
        return not self._follow or self.at_stop

    def open(self) -> None:
        """Find the log, and check the start. A second call has no effect."""
        if self._cursor is not None:
            return
        source = self._resolve()
        view = source.extent()
        if self._stop is not None or self._follow:
            self._check_start(view.durable.next_offset)
        else:
            end = self._end(source, view)
            self._check_start(end)
            self._stop = end
        start = self._start
        if start is None:
            start = self._end(source, view) if self._from_end else view.start
        elif start < view.start and not self._is_empty:
            raise trimmed(source.name, start, view.start)
        self._cursor, self.source = LogCursor(source, start), source
        if self.position is None:
            self.position = start

    def fetch(self, read_bytes: int) -> Step | None:
        """The next step, of about so many bytes; None at the stop, or at the end of the log."""
        cursor = self._cursor
        assert cursor is not None
        begins, self._begins = self._begins, False
        while not self.at_stop:
            try:
                return cursor.fetch(self._stop, read_bytes)
            except Trimmed as error:
                if not begins or self._start is not None or self._from_end:
                    raise
                # A trim came after the look at the extent: a reader without a start begins at the first kept offset.
                cursor.offset = error.start
        return None

    def error_of(self, error: NotFound) -> CordwoodError:
        """The error after the topic was deleted: `Conflict` if the reader has a topic id and there is a new topic."""
        try:
            self._resolve()
        except Conflict as conflict:
            return conflict
        except Exception:
            return error
        return error

    def close(self) -> None:
        if self._cursor is not None:
            self._cursor.close()

    def forget_growth(self) -> None:
        """Drop the job that waits for growth: the reader has given up."""
        growth, self.growth = self.growth, None
        if growth is not None and isinstance(self.source, WrittenLog):
            self.source.forget(growth)

    @property
    def _is_empty(self) -> bool:
        """An empty range asks for nothing, wherever the log begins and ends."""
        return self._stop is not None and self._start is not None and self._start >= self._stop

    def _check_start(self, end: int) -> None:
        if self._start is None or self._start <= end or self._follow == "wait" or self._is_empty:
            return
        raise beyond_end(self.name, self._start, end)

    def _end(self, source: Source, view: Extent) -> int:
        """Where the log ended at the call."""
        end = None if self._ends is None else self._ends()[self.partition]
        if end is not None:
            return end
        return source.first_end() if isinstance(source, WrittenLog) else view.durable.next_offset
