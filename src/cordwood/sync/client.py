"""`connect` and the connection: blocking."""

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Self

from cordwood import client
from cordwood.log import Follow, Starts, TopicInfo, interface
from cordwood.log.topics import LEFT_OUT, LeftOut
from cordwood.records import Batch
from cordwood.sync.journal import Journal
from cordwood.sync.log import Log
from cordwood.sync.portal import Portal, portal
from cordwood.sync.reader import PartitionsReader
from cordwood.sync.wal import OnFlushNeeded, Wal, ask_on_a_thread
from cordwood.url import NO_CONFIG


def connect(
    url: str | os.PathLike[str],
    *,
    config: Mapping[str, str] = NO_CONFIG,
    timeout: float = 30,
    wait: float = 0,
    read_only: bool = False,
) -> "Client":
    """Connect to the logs at `url`, as `cordwood.connect` does. Blocks.

    ```python
    with cordwood.sync.connect("file:./data") as cw:
        cw.create_topic("events")
        cw.log("events").append(Batch.of([b"hello"]))
    ```
    """
    connecting = client.connect(url, config=config, timeout=timeout, wait=wait, read_only=read_only)
    through = portal()
    return Client(through.call(connecting.__aenter__), through)


class Client:
    """A connection: topics, logs, write-ahead logs and journals. It may be used from several threads.

    ```python
    with cordwood.sync.connect("file:./data") as cw:
        print(cw.topics())
    ```
    """

    def __init__(self, client: client.Client, through: Portal | None = None) -> None:
        """The blocking twin of an async connection that was not made by `connect`."""
        self._client = client
        self._portal = portal() if through is None else through
        self.read_only = client.read_only

    @property
    def url(self) -> str:
        """The url of this connection, without secrets."""
        return self._client.url

    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication: int | None = None,
        retention: timedelta | None = None,
        retention_bytes: int | None = None,
        exist_ok: bool = False,
        timeout: float | None = None,
    ) -> TopicInfo:
        """Create a topic; raises `Conflict` if it exists.

        With `exist_ok` a topic that exists stays as it is. The call then raises `Conflict` only if the topic differs in
        an argument that the call names. `partitions=None` means 1 for a new topic, and the number never changes,
        because keys would move. Without `retention` and `retention_bytes` records are kept until they are trimmed.

        ```python
        cw.create_topic("events", partitions=4, retention=timedelta(days=7))
        ```
        """
        return self._portal.call(
            self._client.create_topic,
            name,
            partitions=partitions,
            replication=replication,
            retention=retention,
            retention_bytes=retention_bytes,
            exist_ok=exist_ok,
            timeout=timeout,
        )

    def alter_topic(
        self,
        name: str,
        *,
        retention: timedelta | LeftOut | None = LEFT_OUT,
        retention_bytes: int | LeftOut | None = LEFT_OUT,
        timeout: float | None = None,
    ) -> TopicInfo:
        """Change the limits of a topic; an omitted limit stays as it is, and None removes it.

        A call that names neither raises `InvalidInput`. A topic that does not exist raises `NotFound`.

        ```python
        cw.alter_topic("events", retention=timedelta(days=7), retention_bytes=None)
        ```
        """
        return self._portal.call(
            self._client.alter_topic,
            name,
            retention=retention,
            retention_bytes=retention_bytes,
            timeout=timeout,
        )

    def topics(self, prefix: str = "", *, timeout: float | None = None) -> list[str]:
        """The names of all topics that begin with `prefix`, sorted."""
        return self._portal.call(self._client.topics, prefix, timeout=timeout)

    def topic(self, name: str, *, timeout: float | None = None) -> TopicInfo:
        """The settings and the promises of a topic; raises `NotFound` if there is none."""
        return self._portal.call(self._client.topic, name, timeout=timeout)

    def delete_topic(self, name: str, *, timeout: float | None = None) -> None:
        """Delete a topic and all its records; raises `NotFound` if there is none."""
        self._portal.call(self._client.delete_topic, name, timeout=timeout)

    def log(self, topic: str, partition: int = 0) -> Log:
        """One partition of a topic. No I/O: a missing topic raises at the first call on the log.

        ```python
        offsets = cw.log("events").append(Batch.of([b"hello"]))
        ```
        """
        self._portal.check()
        return Log(self._client.log(topic, partition), self._portal)

    def read(
        self,
        topic: str,
        start: Starts = "first",
        stop: Mapping[int, int] | None = None,
        follow: Follow = False,
        topic_id: str | None = None,
    ) -> PartitionsReader:
        """Read several partitions of a topic at once, each in its offset order; `batch.partition` names it.

        `start` has the first offset of each partition to read. `"first"` and `"end"` mean all partitions, from the
        first kept offset, or from the end at the call. `stop` has the offsets before which partitions end. Without
        `stop` and `follow`, each partition ends where it ended at the call. The rest is as in `Log.read`.

        All partitions share one memory limit, on Kafka also one client.

        ```python
        with cw.read("events", start={0: 10, 1: 7}) as reader:
            for batch in reader:
                print(batch.partition, batch.offsets, batch.values[0])
        ```
        """
        reader = self._portal.call(self._read, topic, start, stop, follow, topic_id)
        return PartitionsReader(reader, self._portal, follows=bool(follow))

    def wal(
        self,
        name: str,
        *,
        codec: str = "cordwood",
        layout: str = "two-topics",
        clean_every: float | None = 60.0,
        region_bytes_max: int = 1 << 30,
        on_flush_needed: OnFlushNeeded | None = None,
    ) -> Wal:
        """A write-ahead log: regions that many tables share. No I/O.

        `codec="rfc"` has the records of CeresDB's proposal instead of our own, and `codec="horaedb"` reads regions that
        HoraeDB has written. By `layout` a region is two topics, or the two partitions of one (`"one-topic"`). It cleans
        its open regions every `clean_every` seconds; with None only `clean` does. When live entries hold more than
        `region_bytes_max` bytes, it calls `on_flush_needed(region, tables)` on a thread, with the tables that hold
        them; the application then flushes and marks these tables.

        ```python
        with cw.wal("metrics").region(7) as region:
            region.write(42, [b"first", b"second"])
        ```
        """
        self._portal.check()
        wal = self._client.wal(
            name,
            codec=codec,
            layout=layout,
            clean_every=clean_every,
            region_bytes_max=region_bytes_max,
            on_flush_needed=None if on_flush_needed is None else ask_on_a_thread(on_flush_needed, self._portal),
        )
        return Wal(wal, self._portal)

    def journal(
        self,
        topic: str,
        *,
        store: str | None = None,
        store_config: Mapping[str, str] = NO_CONFIG,
        partitions: int = 4,
        fence: str | None = None,
        replicate: bool | None = None,
        single_writer: bool = False,
        keep: timedelta | None = timedelta(days=1),
        segment_size: int = 10_000,
        head_bytes_max: int = 64 << 20,
    ) -> Journal:
        """The journals of a topic: the events of many entities, replicated to an event store. No I/O.

        In a folder the store is `<folder>/store.db`, and a replicator of this process keeps it up to date. Elsewhere
        `store` must be named: `"sqlite:PATH"`. The first use creates the topic, with so many partitions, and binds it
        to the store. `keep` is how long the log keeps records that are replicated; None: the replicator never trims.
        `single_writer=True` shares the topic with Scala programs.

        ```python
        journal = cw.journal("orders")
        journal.append("order-1", [Event.json({"item": "tea"})])
        ```
        """
        self._portal.check()
        journal = self._client.journal(
            topic,
            store=store,
            store_config=store_config,
            partitions=partitions,
            fence=fence,
            replicate=replicate,
            single_writer=single_writer,
            keep=keep,
            segment_size=segment_size,
            head_bytes_max=head_bytes_max,
        )
        return Journal(journal, self._portal)

    def append(self, topic: str, batch: Batch, *, timeout: float | None = None) -> dict[int, Sequence[int]]:
        """Append each record to the partition that its key decides, as Kafka's Java client does.

        The result is {partition: offsets}. Records without a key go to one partition, chosen anew for each batch. The
        records of one partition are atomic; if some partitions fail, the error has `written` and `unknown`, by
        partition.
        """
        return self._portal.call(self._client.append, topic, batch, timeout=timeout)

    def close(self) -> None:
        """Finish the calls under way, and close; a second call has no effect."""
        self._portal.call_to_close(self._client.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def _read(
        self, topic: str, start: Starts, stop: Mapping[int, int] | None, follow: Follow, topic_id: str | None
    ) -> interface.PartitionsReader:
        # On the loop, since an engine may bind a reader to the loop that opens it.
        return self._client.read(topic, start, stop, follow, topic_id)

    def __repr__(self) -> str:
        return f"<cordwood.sync.Client of {self._client!r}>"
