"""The log of each row: by its topic, its partition, or its key."""

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from cordwood.errors import InvalidInput, NotFound
from cordwood.log.partitioning import partition_of
from cordwood.log.topics import checked_topic_name


class Topic(Protocol):
    """The facts of a topic that routing needs; an engine's own class may have more."""

    @property
    def name(self) -> str: ...
    @property
    def partitions(self) -> int: ...


T = TypeVar("T", bound=Topic)


class Part(NamedTuple, Generic[T]):
    """Rows for one log, in their order."""

    topic: T
    partition: int
    rows: pa.RecordBatch

    @property
    def log(self) -> str:
        return f"{self.topic.name}/{self.partition}"


class Router(Generic[T]):
    """Splits the rows of one task. Rows with neither a partition nor a key all go to one partition of a topic.

    A key goes to the same partition as with `Client.append` and with Kafka's Java client. Each distinct key of a batch
    is hashed once; everything else is done for whole columns.
    """

    def __init__(self, topic: str | None, look_up: Callable[[str], T], task: int) -> None:
        self._topic = topic
        self._look_up = look_up
        self._task = task
        self._known: dict[str, T] = {}

    def parts(self, rows: pa.RecordBatch) -> Iterator[Part[T]]:
        """The rows by log."""
        if self._topic is not None:
            yield from self._by_partition(self._look_up_once(self._topic), rows)
            return
        topics = rows.column("topic")
        if topics.null_count:
            raise InvalidInput(
                "the column 'topic' has a null: each row needs one, or the option 'topic' names one for all"
            )
        names = pc.unique(topics).to_pylist()
        for name in names:
            mine = rows if len(names) == 1 else rows.filter(pc.equal(topics, name))
            yield from self._by_partition(self._look_up_once(name), mine)

    def _look_up_once(self, name: str) -> T:
        if name not in self._known:
            self._known[name] = self._look_up(checked_topic_name(name))
        return self._known[name]

    def _by_partition(self, topic: T, rows: pa.RecordBatch) -> Iterator[Part[T]]:
        partitions = self._partitions(topic, rows)
        if isinstance(partitions, int):
            yield Part(topic, partitions, rows)
            return
        # Stable: rows of one partition keep their order.
        order = pc.array_sort_indices(partitions)
        rows = rows.take(order)
        start = 0
        for count in sorted(pc.value_counts(partitions).to_pylist(), key=lambda count: int(count["values"])):
            yield Part(topic, count["values"], rows.slice(start, count["counts"]))
            start += count["counts"]

    def _partitions(self, topic: T, rows: pa.RecordBatch) -> pa.Array | int:
        """The partition of each row, or the one partition of all rows."""
        by_key = self._by_key(topic, rows)
        if "partition" not in rows.schema.names:
            return by_key
        given = rows.column("partition")
        extremes = pc.min_max(given).as_py()
        for partition in extremes.values():
            if partition is not None and not 0 <= partition < topic.partitions:
                raise NotFound(
                    f"topic {topic.name!r} has no partition {partition}: its partitions are 0 to {topic.partitions - 1}"
                )
        if given.null_count == len(given):
            return by_key
        return pc.coalesce(given, pa.scalar(by_key, pa.int32()) if isinstance(by_key, int) else by_key)

    def _by_key(self, topic: T, rows: pa.RecordBatch) -> pa.Array | int:
        keyless = self._task % topic.partitions
        if topic.partitions == 1 or "key" not in rows.schema.names:
            return keyless
        keys = rows.column("key")
        if keys.null_count == len(keys):
            return keyless
        encoded = keys.dictionary_encode()
        places = [partition_of(key, topic.partitions) for key in encoded.dictionary.to_pylist()]
        return pc.fill_null(pa.array(places, pa.int32()).take(encoded.indices), keyless)
