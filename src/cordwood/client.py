"""Connecting, and the calls of a connection."""

import asyncio
import os
import random
import time
import weakref
from collections.abc import Generator, Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from cordwood.errors import Conflict, CordwoodError, InvalidInput, Unavailable
from cordwood.journal import Journal
from cordwood.journal.opening import journal_config
from cordwood.log import Engine, Follow, Log, PartitionsReader, Starts, TopicInfo
from cordwood.log.arguments import checked_timeout
from cordwood.log.calls.outcome import change
from cordwood.log.engines import load
from cordwood.log.partitioning import split_by_key
from cordwood.log.topics import (
    LEFT_OUT,
    LeftOut,
    TopicChange,
    TopicConfig,
    checked_partition,
    checked_topic_name,
)
from cordwood.records import Batch
from cordwood.url import NO_CONFIG, Url, parse_url
from cordwood.wal import OnFlushNeeded, Region, Wal


def connect(
    url: str | os.PathLike[str],
    *,
    config: Mapping[str, str] = NO_CONFIG,
    timeout: float = 30,
    wait: float = 0,
    read_only: bool = False,
) -> "Connecting":
    """Connect to the logs at `url`; `await` it, or use it as `async with`.

    `file:./data` is a folder: nothing to install or to start. `kafka://b1:9092,b2:9092` is a Kafka cluster (extra
    `kafka`), with librdkafka settings as a query or, for secrets, in `config`. `timeout` is for connecting, and for
    each call unless it has its own. `wait` is how many seconds to wait for a folder that another process writes; then,
    and at once by default, the call raises `Unavailable` with `reason="busy"`. `wait` has no effect on `kafka://`, or
    with `read_only`, which take no lock. `read_only` works alongside a writing process: it takes no lock, and writes
    and repairs nothing.

    ```python
    async with cordwood.connect("file:./data") as cw:
        await cw.create_topic("events")
        await cw.log("events").append(Batch.of([b"hello"]))
    ```
    """
    # Parsed here, so that a relative path means the folder at the call, not at the await.
    parsed = parse_url(url, config)
    seconds = checked_timeout(timeout)
    if not seconds:
        raise InvalidInput(f"timeout is {timeout!r} seconds: it must be more than 0")
    return Connecting(parsed, seconds, checked_timeout(wait, "wait"), read_only)


class Connecting:
    """A connection that is about to be made: await it, or enter it."""

    def __init__(self, url: Url, timeout: float, wait: float, read_only: bool) -> None:
        self._url = url
        self._timeout = timeout
        self._wait = wait
        self._read_only = read_only
        self._client: Client | None = None

    def __await__(self) -> Generator[Any, None, "Client"]:
        return self._connect().__await__()

    async def __aenter__(self) -> "Client":
        if self._client is not None:
            raise InvalidInput(f"this connection to {self._url} is entered already: connect once more for a second one")
        self._client = await self._connect()
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._client is not None
        client, self._client = self._client, None
        await client.close()

    def __repr__(self) -> str:
        return f"cordwood.connect({str(self._url)!r}): await it, or enter it with `async with`"

    async def _connect(self) -> "Client":
        open_engine = load(self._url, "engine")
        engine = await open_engine(self._url, timeout=self._timeout, wait=self._wait, read_only=self._read_only)
        return Client(engine, self._url, timeout=self._timeout, read_only=self._read_only)


class Client:
    """A connection: topics, logs, write-ahead logs and journals.

    ```python
    async with cordwood.connect("file:./data") as cw:
        print(await cw.topics())
    ```
    """

    def __init__(self, engine: Engine, url: Url, *, timeout: float, read_only: bool) -> None:
        self._engine = engine
        self._url = url
        self._timeout = timeout
        self._closed = False
        self._regions: weakref.WeakSet[Region] = weakref.WeakSet()
        self._journals: set[Journal] = set()
        self.read_only = read_only

    @property
    def url(self) -> str:
        """The url of this connection, without secrets."""
        return str(self._url)

    async def create_topic(
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
        """Create a topic; `Conflict` if it exists.

        With `exist_ok` an existing topic stays as it is. Then the call raises `Conflict` only if the topic differs in
        an argument that the call names. `partitions=None` means 1 for a new topic, and the number never changes,
        because keys would move. Without `retention` and `retention_bytes` records are kept until they are trimmed.

        ```python
        await cw.create_topic("events", partitions=4, retention=timedelta(days=7))
        ```
        """
        self._check_open()
        with change():
            config = TopicConfig(partitions, replication, retention, retention_bytes)
            info = await self._engine.create_topic(
                checked_topic_name(name), config, exist_ok=exist_ok, timeout=self._time(timeout)
            )
            if exist_ok:
                _check_as_named(info, config)
            return info

    async def alter_topic(
        self,
        name: str,
        *,
        retention: timedelta | LeftOut | None = LEFT_OUT,
        retention_bytes: int | LeftOut | None = LEFT_OUT,
        timeout: float | None = None,
    ) -> TopicInfo:
        """Change the limits of a topic; an omitted limit stays as it is, and None removes it.

        A call that names neither is `InvalidInput`. A topic that does not exist is `NotFound`.

        ```python
        await cw.alter_topic("events", retention=timedelta(days=7), retention_bytes=None)
        ```
        """
        self._check_open()
        with change():
            limits = TopicChange(retention, retention_bytes)
            return await self._engine.alter_topic(checked_topic_name(name), limits, timeout=self._time(timeout))

    async def topics(self, prefix: str = "", *, timeout: float | None = None) -> list[str]:
        """The names of all topics that begin with `prefix`, sorted.

        ```python
        await cw.topics("ev")  # ["events"]
        ```
        """
        self._check_open()
        if not isinstance(prefix, str):
            raise TypeError(f"prefix is a str, not {type(prefix).__name__}")
        return await self._engine.topics(prefix, timeout=self._time(timeout))

    async def topic(self, name: str, *, timeout: float | None = None) -> TopicInfo:
        """The settings and limits of a topic; `NotFound` if there is none.

        ```python
        (await cw.topic("events")).partitions  # 4
        ```
        """
        self._check_open()
        return await self._engine.topic(checked_topic_name(name), timeout=self._time(timeout))

    async def delete_topic(self, name: str, *, timeout: float | None = None) -> None:
        """Delete a topic and all its records; `NotFound` if there is none.

        ```python
        await cw.delete_topic("events")
        ```
        """
        self._check_open()
        with change():
            await self._engine.delete_topic(checked_topic_name(name), timeout=self._time(timeout))

    def log(self, topic: str, partition: int = 0) -> Log:
        """One partition of a topic. No I/O: if it does not exist, the first call on it raises.

        ```python
        offsets = await cw.log("events").append(Batch.of([b"hello"]))
        ```
        """
        self._check_open()
        name = checked_topic_name(topic)
        return self._engine.log(name, checked_partition(name, partition), timeout=self._timeout)

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
        `stop` and `follow`, each partition ends where it ended at the call. The rest is as in `Log.read`: at the first
        step, a start below the first kept offset raises `Trimmed`, and one beyond the end `InvalidInput`, unless
        `follow="wait"` waits for it; `topic_id` raises `Conflict` if the topic was deleted and created again since.

        All partitions share one memory limit, on Kafka also one client.

        ```python
        async with cw.read("events", start={0: 10, 1: 7}, follow="wait", topic_id=info.id) as reader:
            async for batch in reader:
                print(batch.partition, batch.offsets, batch.values[0])
        ```
        """
        self._check_open()
        return self._engine.read(
            checked_topic_name(topic),
            start,
            stop=stop,
            follow=follow,
            topic_id=topic_id,
            timeout=self._timeout,
        )

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
        HoraeDB has written. By `layout` a region is two topics, or the two partitions of one (`"one-topic"`). The
        regions that it opens are cleaned every `clean_every` seconds; None: only by hand. If live entries hold more
        than `region_bytes_max` bytes, `on_flush_needed(region, tables)` is awaited with the tables that hold them; the
        program should flush and mark those.

        ```python
        async with cw.wal("metrics").region(7) as region:
            await region.write(42, [b"first", b"second"])
        ```
        """
        self._check_open()
        return Wal(
            self._engine,
            name,
            timeout=self._timeout,
            read_only=self.read_only,
            on_open=self._on_region_open,
            codec=codec,
            layout=layout,
            clean_every=clean_every,
            region_bytes_max=region_bytes_max,
            on_flush_needed=on_flush_needed,
        )

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
        await journal.append("order-1", [Event.json({"item": "tea"})])
        ```
        """
        self._check_open()
        return Journal(
            self._engine,
            checked_topic_name(topic),
            journal_config(
                self._url,
                store=store,
                store_config=store_config,
                partitions=partitions,
                fence=fence,
                replicate=replicate,
                single_writer=single_writer,
                keep=keep,
                segment_size=segment_size,
                head_bytes_max=head_bytes_max,
                read_only=self.read_only,
            ),
            timeout=self._timeout,
            read_only=self.read_only,
            check=self._check_open,
            on_open=self._journals.add,
            on_close=self._journals.discard,
        )

    async def append(self, topic: str, batch: Batch, *, timeout: float | None = None) -> dict[int, Sequence[int]]:
        """Append each record to the partition that its key decides, as Kafka's Java client does: {partition: offsets}.

        Records without a key go to one partition, chosen anew for each batch. If one partition cannot take its records,
        the call is refused before any is written. The records for one partition are atomic; if some partitions fail,
        the error has `written` and `unknown`, by partition.

        ```python
        await cw.append("events", Batch.of([b"a", b"b"], keys=[b"zoe", b"ann"]))  # {1: range(0, 1), 2: range(0, 1)}
        ```
        """
        if not isinstance(batch, Batch):
            raise TypeError(f"append takes a cordwood.Batch, not {type(batch).__name__}")
        if not len(batch):
            raise InvalidInput(f"{topic!r}: the batch is empty: a batch has at least 1 record", outcome="not_written")
        seconds = self._time(timeout)
        deadline = time.monotonic() + seconds
        try:
            info = await self.topic(topic, timeout=seconds)
            parts = split_by_key(batch, info.partitions, random.randrange(info.partitions))
            if len(parts) > 1:
                await self._engine.check(topic, parts, timeout=max(0, deadline - time.monotonic()))
        except CordwoodError as error:
            error.outcome = "not_written"  # a look-up sets no outcome, and here it is part of a write
            raise
        left = max(0, deadline - time.monotonic())
        appends = [self.log(topic, partition).append(part, timeout=left) for partition, part in parts.items()]
        results = await asyncio.gather(*appends, return_exceptions=True)
        return _all_or_error(dict(zip(parts, results, strict=True)))

    async def close(self) -> None:
        """Finish calls that are under way, and close; a second call does nothing."""
        if not self._closed:
            self._closed = True
            try:
                # At once: each region leaves a snapshot, and none waits for the others' logs.
                await asyncio.gather(
                    *(region.close() for region in list(self._regions)),
                    *(journal.close() for journal in list(self._journals)),
                )
            finally:
                await self._engine.close(timeout=self._timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "read-only" if self.read_only else "open"
        return f"<cordwood.Client {self.url} {state}>"

    def _on_region_open(self, region: Region) -> None:
        self._regions.add(region)
        self._check_open()  # a region that was opened during the close is not among those that it closes

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable(
                f"the connection to {self.url} is closed: connect again", outcome="not_written", reason="closed"
            )

    def _time(self, timeout: float | None) -> float:
        return self._timeout if timeout is None else checked_timeout(timeout)


def _check_as_named(info: TopicInfo, config: TopicConfig) -> None:
    """`Conflict` if a topic differs in a setting that the call names."""
    differences = [
        f"{field.name} is {found}, not {wanted}"
        for field in fields(config)
        if (wanted := getattr(config, field.name)) is not None and (found := getattr(info, field.name)) != wanted
    ]
    if differences:
        raise Conflict(
            f"topic {info.name!r} exists, and its {', its '.join(differences)}:"
            " leave the argument out to use the topic as it is; alter_topic changes a retention"
        )


def _all_or_error(results: Mapping[int, Sequence[int] | BaseException]) -> dict[int, Sequence[int]]:
    written = {partition: result for partition, result in results.items() if not isinstance(result, BaseException)}
    errors = {partition: error for partition, error in results.items() if isinstance(error, BaseException)}
    if not errors:
        return written
    unknown = {partition: error for partition, error in errors.items() if getattr(error, "outcome", None) == "unknown"}
    worst = next(iter(unknown.values()), next(iter(errors.values())))
    if isinstance(worst, CordwoodError):
        worst.written, worst.unknown = written, unknown
        if written and worst.outcome == "not_written":
            worst.outcome = "unknown"
    raise worst
