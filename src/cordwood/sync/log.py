"""A log: blocking."""

from collections.abc import Sequence
from datetime import datetime

from cordwood import log
from cordwood.log import Follow
from cordwood.records import Batch, StoredRecord
from cordwood.sync.portal import Portal
from cordwood.sync.reader import Reader


class Log:
    """One ordered sequence of records, named topic/partition. The constructor does no I/O.

    ```python
    log = cw.log("events")
    log.append(Batch.of([b"a", b"b"]))
    ```
    """

    topic: str
    partition: int

    def __init__(self, log: log.Log, through: Portal) -> None:
        self.topic = log.topic
        self.partition = log.partition
        self._log = log
        self._portal = through

    @property
    def verifies_reads(self) -> bool:
        """Whether every read checks the records against the checksum of their append."""
        return self._log.verifies_reads

    @property
    def name(self) -> str:
        """`topic/partition`."""
        return self._log.name

    def append(self, batch: Batch, *, expected: int | None = None, timeout: float | None = None) -> Sequence[int]:
        """Append a batch, and return its offsets once it is durable: a `range` if they are consecutive.

        `expected` is the offset that the first record must get, else the call raises `Conflict`. An empty batch raises
        `InvalidInput`, and one over the limit `TooLarge`; neither writes anything.

        ```python
        offsets = log.append(Batch.of([b"a", b"b"]))      # range(0, 2)
        ```
        """
        return self._portal.call(self._log.append, batch, expected=expected, timeout=timeout)

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
        with log.read(start=10) as reader:
            for batch in reader:
                ...
        ```
        """
        reader = self._portal.call(self._read, start, stop, follow, topic_id)
        return Reader(reader, self._portal, follows=bool(follow))

    def fetch(
        self,
        offsets: Sequence[int],
        *,
        bytes_max: int | None = None,
        uncommitted: bool = False,
        timeout: float | None = None,
    ) -> list[StoredRecord]:
        """Internal: the records at these increasing offsets, which a program knows, in order.

        Offsets without a record, and those that the log has not reached, are left out. One below the first kept offset
        raises `Trimmed`. With `uncommitted` Kafka also returns records of open transactions, whatever the url says.
        With `bytes_max` it stops soon after the record that reaches so many bytes.

        ```python
        first, second = log.fetch([17, 40_000])
        ```
        """
        return self._portal.call(
            self._log.fetch, offsets, bytes_max=bytes_max, uncommitted=uncommitted, timeout=timeout
        )

    def bounds(self, *, timeout: float | None = None) -> tuple[int, int]:
        """The first kept offset, and one past the last."""
        return self._portal.call(self._log.bounds, timeout=timeout)

    def offset_at(self, when: datetime, *, timeout: float | None = None) -> int:
        """The first offset whose record has a timestamp at or after `when`; the end if there is none."""
        return self._portal.call(self._log.offset_at, when, timeout=timeout)

    def trim(self, before: int, *, timeout: float | None = None) -> None:
        """Delete every record below `before`, for good.

        Beyond the end it raises `InvalidInput`; below the start it has no effect.
        """
        self._portal.call(self._log.trim, before, timeout=timeout)

    def __repr__(self) -> str:
        return f"<cordwood.sync.Log {self.name}>"

    async def _read(self, start: int | None, stop: int | None, follow: Follow, topic_id: str | None) -> log.Reader:
        # On the loop, since an engine may bind a reader to the loop that opens it.
        return self._log.read(start, stop, follow, topic_id)
