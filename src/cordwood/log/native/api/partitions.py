"""Reading several partitions of a topic from an event loop: one reader over the cursors of all."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from cordwood.errors import InvalidInput, NotFound
from cordwood.log.arguments import checked_follow, checked_starts, checked_stops, checked_topic_id, whole_number
from cordwood.log.calls.connection import Connection
from cordwood.log.interface import Follow, PartitionsReader, Starts
from cordwood.log.native.folder.process import OpenFolder
from cordwood.log.topics import checked_partition

from .part import Part, PartState
from .reader import FolderReader
from .sources import ends_at_call, raise_failure, source_of


class FolderPartitionsReader(FolderReader, PartitionsReader):
    """One memory limit for all partitions: the steps that are read ahead are those of a reader of one log."""

    def __init__(
        self,
        connection: Connection[OpenFolder],
        topic: str,
        parts: Iterable[Part] | Callable[[], list[Part]],
        new_part: Callable[[int, int], Part],
        *,
        follow: Follow,
        timeout: float,
    ) -> None:
        super().__init__(
            topic, connection.shared.executor, parts, follow=follow, check=connection.check, timeout=timeout
        )
        self._new_part = new_part

    def position(self, partition: int) -> int:
        self._check_inherited()
        part = self._parts.get(partition)
        if part is None and self._find_parts is None:
            raise InvalidInput(f"{self._name}: this reader does not read partition {partition}")
        if part is None or part.position is None:
            raise InvalidInput(f"{self._name}/{partition}: its start is not known before the first step of the reader")
        return part.position

    def add(self, partition: int, start: int) -> None:
        self._check_inherited()
        if not self._follow:
            raise InvalidInput(f"{self._name}: only a reader that follows can read one more partition")
        part = self._new_part(checked_partition(self._name, partition), whole_number("start", start))
        with self._lock:
            if part.partition in self._parts:
                raise InvalidInput(f"{self._name}: this reader reads partition {partition} already")
            self._begin([part])
            wanted, self._wanted = self._wanted, None
        if wanted is not None:
            wanted.wake()

    def drop(self, partition: int) -> None:
        self._check_inherited()
        with self._lock:
            part = self._parts.pop(partition, None)
            if part is None:
                return
            part.state = PartState.DROPPED
            self._left.append(part)
            if part in self._turn:
                self._turn.remove(part)
        part.forget_growth()
        for one in [one for one in self._ready if one[0] is part]:
            self._ready.remove(one)


def read_partitions(
    connection: Connection[OpenFolder],
    topic: str,
    start: Starts,
    stop: Mapping[int, int] | None,
    follow: Follow,
    topic_id: str | None,
    timeout: float,
) -> FolderPartitionsReader:
    """The reader of a `cw.read`."""
    connection.check()
    starts = checked_starts(start)
    stops = checked_stops(stop, starts)
    checked_follow(follow)
    checked_topic_id(topic_id)
    folder = connection.shared
    ends = None
    if start == "end" or not (follow or (starts is not None and starts.keys() <= stops.keys())):
        ends = ends_at_call(folder, topic, starts)

    def part_of(partition: int, first: int | None, last: int | None) -> Part:
        raise_failure(folder, topic, partition)
        return Part(
            f"{topic}/{partition}",
            partition,
            partial(source_of, folder, topic, partition, topic_id),
            start=first,
            stop=last,
            follow=follow,
            ends=ends,
            from_end=start == "end" and first is None,
        )

    def all_parts() -> list[Part]:
        partitions = folder.topic(topic).partitions
        for partition in stops:
            if partition >= partitions:
                raise NotFound(
                    f"topic {topic!r} has no partition {partition}: its partitions are 0 to {partitions - 1}"
                )
        return [part_of(partition, None, stops.get(partition)) for partition in range(partitions)]

    reader = FolderPartitionsReader(
        connection,
        topic,
        all_parts
        if starts is None
        else [part_of(partition, at, stops.get(partition)) for partition, at in starts.items()],
        lambda partition, first: part_of(partition, first, None),
        follow=follow,
        timeout=timeout,
    )
    connection.readers.add(reader)
    return reader
