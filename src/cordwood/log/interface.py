"""The interface of every log, on every engine."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Literal, Self, TypeAlias

from cordwood.records import Batch, StoredBatch, StoredRecord

from .topics import TopicChange, TopicConfig

Follow: TypeAlias = bool | Literal["wait"]
"""Whether a reader waits for new records; with `"wait"` it also waits until the log reaches its start."""

Starts: TypeAlias = Mapping[int, int] | Literal["first", "end"]
"""The first offset of each partition to read; or all partitions, from the first kept offset or from the end."""


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic as its engine keeps it.

    >>> info = TopicInfo("events", "17", 4, 1, None, None, "synced: fdatasync on 1 replica before the ack", 2 << 20)
    >>> info.partitions
    4
    """

    name: str
    id: str
    """Changes when a topic is deleted and created again under the same name."""
    partitions: int
    replication: int
    retention: timedelta | None
    """How long records are kept at least; None keeps them until they are trimmed."""
    retention_bytes: int | None
    """How many bytes of a partition are kept at least; None means no limit."""
    durability: str
    """The promise of an ack on this topic, in words."""
    batch_bytes_max: int
    """The largest batch, as a frame, that one append takes."""
    compacted: bool = False
    """Whether only the last record of a key is kept: such a topic is read and written, but holds no write-ahead log."""


class Reader(ABC):
    """Batches of one log, in offset order: an async iterator, and a context manager that closes it.

    ```python
    async with log.read(start=10) as reader:
        async for batch in reader:
            ...
    ```
    It may be iterated without `async with`; then it closes at its end, or with the connection.
    Several tasks of one event loop may share it: each batch goes to one of them.
    """

    def __aiter__(self) -> Self:
        return self

    @abstractmethod
    async def __anext__(self) -> StoredBatch: ...

    @abstractmethod
    async def close(self) -> None:
        """Stop reading; a second call has no effect. A `__anext__` that waits raises StopAsyncIteration."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


class PartitionsReader(Reader):
    """Batches of several partitions of one topic, each in its offset order; `batch.partition` names the partition.

    ```python
    async with cw.read("events", start={0: 10, 1: 7}, follow=True) as reader:
        async for batch in reader:
            print(batch.partition, batch.offsets)
    ```
    It is used as a `Reader` is. Partitions that have records take turns, so a long one delays no other for long. An
    error of one partition ends the whole reader.
    """

    @abstractmethod
    def position(self, partition: int) -> int:
        """One past the last offset that the reader has returned of this partition; its start if there is none yet.

        At the end it also passes places without a record, such as the marks of transactions on Kafka. With `"first"`
        or `"end"` as start, it is known once the reader has looked the partition up, in its first step.

        ```python
        positions = {partition: reader.position(partition) for partition in (0, 1)}
        ```
        """

    @abstractmethod
    def add(self, partition: int, start: int) -> None:
        """Internal: a reader that follows also reads this partition from now on, up to no stop.

        The next step raises if the partition does not exist, or not have `start`.

        ```python
        reader.add(2, start=40)
        ```
        """

    @abstractmethod
    def drop(self, partition: int) -> None:
        """Internal: stop reading this partition; no batch of it is returned after this call.

        ```python
        reader.drop(2)
        ```
        """


class Log(ABC):
    """One ordered sequence of records, named topic/partition. The constructor does no I/O.

    ```python
    log = cw.log("events")
    await log.append(Batch.of([b"a", b"b"]))
    ```
    """

    topic: str
    partition: int

    @property
    def verifies_reads(self) -> bool:
        """Whether every read checks the records against the checksum of their append."""
        return False

    @property
    def name(self) -> str:
        """`topic/partition`."""
        return f"{self.topic}/{self.partition}"

    @abstractmethod
    async def append(self, batch: Batch, *, expected: int | None = None, timeout: float | None = None) -> Sequence[int]:
        """Append a batch, and return its offsets once it is durable: a `range` if they are consecutive.

        `expected` is the offset that the first record must get, else the call raises `Conflict`. An empty batch raises
        `InvalidInput`, and one over the limit `TooLarge`; neither writes anything.

        ```python
        offsets = await log.append(Batch.of([b"a", b"b"]))      # range(0, 2)
        ```
        """

    @abstractmethod
    def read(
        self,
        start: int | None = None,
        stop: int | None = None,
        follow: Follow = False,
        topic_id: str | None = None,
    ) -> Reader:
        """Read [start, stop); by default from the first kept offset to the end at the call.

        With `follow` the reader waits for new records, up to `stop` if that is given. At the first step, a start below
        the first kept offset raises `Trimmed`, and one beyond the end `InvalidInput`; `follow="wait"` waits until the
        log is that long. With the `id` of a `TopicInfo` as `topic_id`, the reader raises `Conflict` if the topic was
        deleted and created again since. A program that keeps its position passes both.

        ```python
        async with log.read(start=10, follow="wait", topic_id=info.id) as reader:
            async for batch in reader:
                print(batch.offsets, batch.values[0])
        ```
        """

    @abstractmethod
    async def fetch(
        self,
        offsets: Sequence[int],
        *,
        bytes_max: int | None = None,
        uncommitted: bool = False,
        timeout: float | None = None,
    ) -> list[StoredRecord]:
        """Internal: the records at these increasing offsets, which a program knows, in order.

        An offset without a record, such as the mark of a transaction on Kafka, is left out. One below the first kept
        offset raises `Trimmed`. Offsets that the log has not reached are left out too, once the call has seen the end:
        on Kafka a new leader may know a lower end for a moment. With `uncommitted` Kafka also returns records of open
        transactions, whatever the url says. With `bytes_max` it stops soon after the record that reaches so many bytes:
        it has looked at no offset above the last one it returns, and an empty result means that no offset has a record.

        ```python
        first, second = await log.fetch([17, 40_000])
        ```
        """

    @abstractmethod
    async def bounds(self, *, timeout: float | None = None) -> tuple[int, int]:
        """The first kept offset, and one past the last.

        ```python
        start, stop = await log.bounds()
        ```
        """

    @abstractmethod
    async def offset_at(self, when: datetime, *, timeout: float | None = None) -> int:
        """The first offset whose record has a timestamp at or after `when`; the end if there is none.

        Timestamps are whole milliseconds: a record that is written just after `when` may have one just before it.

        ```python
        log.read(start=await log.offset_at(datetime.now(UTC) - timedelta(hours=1)))
        ```
        """

    @abstractmethod
    async def trim(self, before: int, *, timeout: float | None = None) -> None:
        """Delete every record below `before`, for good.

        Beyond the end it raises `InvalidInput`; below the start it has no effect.

        ```python
        await log.trim(before=100)
        ```
        """


class Engine(ABC):
    """The engine of a connection: topics, and their logs."""

    @abstractmethod
    async def create_topic(self, name: str, config: TopicConfig, *, exist_ok: bool, timeout: float) -> TopicInfo:
        """Create a topic. With `exist_ok` return a topic that exists as it is, even if it differs from `config`."""

    @abstractmethod
    async def alter_topic(self, name: str, change: TopicChange, *, timeout: float) -> TopicInfo: ...

    @abstractmethod
    async def topics(self, prefix: str, *, timeout: float) -> list[str]: ...

    @abstractmethod
    async def topic(self, name: str, *, timeout: float) -> TopicInfo: ...

    @abstractmethod
    async def delete_topic(self, name: str, *, timeout: float) -> None: ...

    @abstractmethod
    async def check(self, topic: str, parts: Mapping[int, Batch], *, timeout: float) -> None:
        """Refuse, as `append` would, a batch that its partition cannot take, before any partition is written."""

    @abstractmethod
    def log(self, topic: str, partition: int, *, timeout: float) -> Log:
        """A log; no I/O. A missing topic raises at the first call on the log."""

    @abstractmethod
    def read(
        self,
        topic: str,
        start: Starts,
        *,
        stop: Mapping[int, int] | None,
        follow: Follow,
        topic_id: str | None,
        uncommitted: bool = False,
        timeout: float,
    ) -> PartitionsReader:
        """Read several partitions of a topic; no I/O. A missing topic or partition raises at the first step.

        `uncommitted` also returns records of open transactions on Kafka, whatever the url says.
        """

    @abstractmethod
    async def close(self, *, timeout: float) -> None:
        """Finish the calls under way, and close. The last connection of a process closes the shared object."""
