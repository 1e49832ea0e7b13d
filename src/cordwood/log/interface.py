"""What every log can do, wherever it lives."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Literal, Self, TypeAlias

from cordwood.records import Batch, StoredBatch

from .topics import TopicChange, TopicConfig

Follow: TypeAlias = bool | Literal["wait"]
"""Whether a reader waits for new records, and `"wait"`: also for a log that ends before its start."""


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic as its engine keeps it.

    >>> info = TopicInfo("events", "17", 4, 1, None, None, "synced: fdatasync on 1 replica before the ack", 2 << 20)
    >>> info.partitions
    4
    """

    name: str
    id: str
    """Differs for a topic of the same name that was deleted and created again."""
    partitions: int
    replication: int
    retention: timedelta | None
    """How long records are kept at least; None: until trimmed."""
    retention_bytes: int | None
    """How many bytes of a partition are kept at least; None: no limit."""
    durability: str
    """What an ack promises here, in words."""
    batch_bytes_max: int
    """The largest batch that one append takes, framed."""
    compacted: bool = False
    """Whether only the last record of a key is kept: such a topic is read and written, but holds no write-ahead log."""


class Reader(ABC):
    """Batches of one log, in offset order: an async iterator, and a context manager that lets its files go.

    ```python
    async with log.read(start=10) as reader:
        async for batch in reader:
            ...
    ```
    It may be iterated bare; then it closes at its end, or with the connection.
    Several tasks of one event loop may share it: each batch goes to one of them.
    """

    def __aiter__(self) -> Self:
        return self

    @abstractmethod
    async def __anext__(self) -> StoredBatch: ...

    @abstractmethod
    async def close(self) -> None:
        """Stop reading; twice is fine. A `__anext__` that waits ends with StopAsyncIteration."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


class Log(ABC):
    """One ordered sequence of records, named topic/partition. Making one does no I/O.

    ```python
    log = cw.log("events")
    await log.append(Batch.of([b"a", b"b"]))
    ```
    """

    topic: str
    partition: int

    @property
    def verifies_reads(self) -> bool:
        """Whether every read checks the records against a checksum that was made when they were appended."""
        return False

    @property
    def name(self) -> str:
        """`topic/partition`."""
        return f"{self.topic}/{self.partition}"

    @abstractmethod
    async def append(self, batch: Batch, *, expected: int | None = None, timeout: float | None = None) -> Sequence[int]:
        """Append a batch, and return its offsets once it is durable: a `range` where they are consecutive.

        `expected` is the offset that the first record must get, else `Conflict`. An empty batch is `InvalidInput`,
        one over the limit `TooLarge`; neither writes anything.

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
        """Read [start, stop): from the first kept offset to the end at the call, unless told otherwise.

        `follow` continues, waiting for new records, up to `stop` if that is given. At the first step, a start below the
        first kept offset is `Trimmed`, and one beyond the end is `InvalidInput`; `follow="wait"` waits until the log
        is that long. With the `id` of a `TopicInfo` as `topic_id`, a topic that was deleted and created again since is
        `Conflict`. A program that keeps its position passes both.

        ```python
        async with log.read(start=10, follow="wait", topic_id=info.id) as reader:
            async for batch in reader:
                print(batch.offsets, batch.values[0])
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

        Timestamps are whole milliseconds: a record that is written just after `when` may have a time just before it.

        ```python
        log.read(start=await log.offset_at(datetime.now(UTC) - timedelta(hours=1)))
        ```
        """

    @abstractmethod
    async def trim(self, before: int, *, timeout: float | None = None) -> None:
        """Forget every record below `before`, for good; beyond the end is `InvalidInput`, below the start no effect.

        ```python
        await log.trim(before=100)
        ```
        """


class Engine(ABC):
    """What a connection leads to: topics, and their logs."""

    @abstractmethod
    async def create_topic(self, name: str, config: TopicConfig, *, exist_ok: bool, timeout: float) -> TopicInfo:
        """With `exist_ok` a topic that exists is returned as it is, also where it differs from `config`."""

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
        """Refuse, as `append` would, what a partition cannot take, before anything is written to the others."""

    @abstractmethod
    def log(self, topic: str, partition: int, *, timeout: float) -> Log:
        """No I/O: that the topic is missing shows at the first call on the log."""

    @abstractmethod
    async def close(self, *, timeout: float) -> None:
        """Finish what is under way, and let go. The last connection of a process closes what they shared."""
