"""Reading several partitions of a topic with one client: the reader, and what its thread reads.

Any number of partitions needs one thread, one client and the memory of one reader.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future

from cordwood.errors import CordwoodError, InvalidInput, NotFound
from cordwood.log.arguments import checked_follow, checked_starts, checked_stops, checked_topic_id, whole_number
from cordwood.log.calls.connection import Connection
from cordwood.log.interface import Follow, PartitionsReader, Starts
from cordwood.log.topics import checked_partition
from cordwood.records import StoredBatch

from .cluster import Bounds, SharedCluster
from .cursor import TopicCursor, trimmed
from .reader import KafkaReader, Part, Taken
from .same_topic import SameTopic
from .settings import ClientKind
from .starting import check_named, wait_for_bounds, wait_for_starts

_FOLLOW_SECONDS = 0.05
"""A partition that is added or dropped has to wait for that."""


class KafkaPartitionsReader(KafkaReader, PartitionsReader):
    """Holds at most what a reader of one log holds: the client's queue, and four batches of about 4 MiB together."""

    def __init__(self, connection: Connection[SharedCluster], reading: "_Reading", timeout: float) -> None:
        cluster = connection.shared
        super().__init__(reading.topic, reading.batches, cluster.reading, connection.check, timeout)
        self._reading = reading

    def position(self, partition: int) -> int:
        self._check_inherited()
        part = self._reading.parts.get(partition)
        if part is not None:
            return self._ahead.position_of(part)
        if not self._reading.found:
            raise InvalidInput(f"{self._name}/{partition}: its start is not known before the first step of the reader")
        raise InvalidInput(f"{self._name}: this reader does not read partition {partition}")

    def add(self, partition: int, start: int) -> None:
        self._check_inherited()
        self._reading.add(checked_partition(self._name, partition), whole_number("start", start))

    def drop(self, partition: int) -> None:
        self._check_inherited()
        part = self._reading.drop(partition)
        if part is not None:
            self._ahead.drop(part)


class _Reading:
    """The partitions of a reader. It has no reference to the reader, which can be collected."""

    def __init__(
        self,
        cluster: SharedCluster,
        topic: str,
        start: Starts,
        stop: Mapping[int, int] | None,
        follow: Follow,
        topic_id: str | None,
        uncommitted: bool,
        timeout: float,
    ) -> None:
        starts = checked_starts(start)
        checked_follow(follow)
        self.topic = topic
        self.parts: dict[int, Part] = {}
        self.found = starts is not None
        """Whether the partitions are known."""
        self._cluster = cluster
        self._from_end = start == "end"
        self._stops = checked_stops(stop, starts)
        self._follow = follow
        self._same_topic = SameTopic(cluster.offsets, topic, checked_topic_id(topic_id), timeout)
        self._kind = ClientKind(follow=bool(follow), several=True, uncommitted=uncommitted)
        self._timeout = timeout
        if starts is not None:
            self._find(starts)
        self._first = list(self.parts.values())
        self._changes: deque[Part] = deque()  # added, or dropped, since then
        self._look: Future[Bounds] | None = None
        if self._from_end or not follow:
            # At the call: records that are appended later are not part of the read, or are the first ones.
            self._look = cluster.look_at_ends(topic, starts, uncommitted=uncommitted)

    def add(self, partition: int, start: int) -> None:
        if not self._follow:
            raise InvalidInput(f"{self.topic}: only a reader that follows can read one more partition")
        if partition in self.parts:
            raise InvalidInput(f"{self.topic}: this reader reads partition {partition} already")
        part = self.parts[partition] = Part(self.topic, partition, start)
        self._changes.append(part)

    def drop(self, partition: int) -> Part | None:
        part = self.parts.pop(partition, None)
        if part is not None:
            part.dropped = True
            self._changes.append(part)
        return part

    def batches(self, wanted: Callable[[], bool]) -> Iterator[Taken | None]:
        """Yield batches, and None at the end; runs on the reader's thread."""
        bounds = self._begin(wanted)
        parts = [part for part in self._first if not part.dropped]
        if not wanted() or (all(part.at_stop for part in parts) and (parts or not self._follow)):
            return
        cluster = self._cluster
        cursor = TopicCursor(
            cluster.consumers,
            cluster.offsets,
            cluster.settings,
            self.topic,
            parts,
            self._kind,
            same_topic=self._same_topic,
            beyond=[part for part in parts if part.offset > bounds[part.partition][1]],
            waits=self._follow == "wait",
        )
        try:
            while wanted() and not self._is_finished(cursor):
                for part, batch in self._read(cursor):
                    yield Taken(batch, part)
                for part in list(self.parts.values()):
                    part.passed = part.offset
            # Before the client is given back: the caller need not wait for that.
            yield None
        finally:
            cursor.close()

    def _begin(self, wanted: Callable[[], bool]) -> Bounds:
        """Find the partitions, and check that they have their starts."""
        offsets, topic, uncommitted = self._cluster.offsets, self.topic, self._kind.uncommitted
        if self._look is not None:
            bounds = wait_for_bounds(topic, self._look, self._timeout)
        else:
            partitions = [part.partition for part in self._first] if self.found else None
            bounds = offsets.bounds_of(topic, partitions, self._timeout, uncommitted=uncommitted)
        if self._same_topic.named:
            check_named(topic, self._same_topic, wanted)
        elif self._follow:
            # From the beginning: a follower may wait for its first record while the topic is created again.
            self._same_topic.check(topic)
        if not self.found:
            self._find({partition: end if self._from_end else first for partition, (first, end) in bounds.items()})
            self._first, self.found = list(self.parts.values()), True
            for partition in self._stops.keys() - bounds.keys():
                raise NotFound(f"topic {topic!r} has the partitions 0 to {len(bounds) - 1}, and not {partition}")
        for part in self._first:
            if part.offset < bounds[part.partition][0]:
                raise trimmed(part.name, part.offset, bounds[part.partition][0])
        beyond = {
            part.partition: part.offset
            for part in self._first
            if not part.at_stop and part.offset > bounds[part.partition][1]
        }
        if beyond and self._follow != "wait":
            bounds |= wait_for_starts(
                self._cluster, topic, beyond, self._follow, self._same_topic, wanted, uncommitted=uncommitted
            )
        for part in self._first:
            end = bounds[part.partition][1]
            part.begun = part.offset <= end
            if not self._follow:
                part.stop = end if part.stop is None else min(part.stop, end)
        return bounds

    def _find(self, starts: Mapping[int, int]) -> None:
        for partition, start in starts.items():
            self.parts[partition] = Part(self.topic, partition, start, self._stops.get(partition))

    def _read(self, cursor: TopicCursor[Part]) -> list[tuple[Part, StoredBatch]]:
        self._make_changes(cursor)
        try:
            return cursor.read_batches(_FOLLOW_SECONDS)
        except CordwoodError:
            # An error of a partition that was dropped meanwhile is of no interest; any other comes again.
            if not any(part.dropped for part in self._changes):
                raise
            return []

    def _make_changes(self, cursor: TopicCursor[Part]) -> None:
        while self._changes:
            part = self._changes.popleft()
            if part.dropped:
                cursor.drop(part)
            else:
                cursor.add(part)

    def _is_finished(self, cursor: TopicCursor[Part]) -> bool:
        # A follower without a partition waits for the first one.
        return cursor.at_stop and not self._changes and (bool(self.parts) or not self._follow)


def read_partitions(
    connection: Connection[SharedCluster],
    topic: str,
    start: Starts,
    stop: Mapping[int, int] | None,
    follow: Follow,
    topic_id: str | None,
    uncommitted: bool,
    timeout: float,
) -> KafkaPartitionsReader:
    """The reader of a `cw.read`."""
    connection.check()
    reading = _Reading(connection.shared, topic, start, stop, follow, topic_id, uncommitted, timeout)
    reader = KafkaPartitionsReader(connection, reading, timeout)
    connection.readers.add(reader)
    return reader
