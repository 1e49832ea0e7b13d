"""A write-ahead log: its regions, opened, made and found again."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Final, Self, TypeAlias
from weakref import WeakValueDictionary

from cordwood.errors import Conflict, CordwoodError, InvalidInput, NotFound, Timeout, Unavailable
from cordwood.log import Engine, Log, TopicInfo
from cordwood.log.arguments import checked_timeout
from cordwood.log.calls.deadline import deadline
from cordwood.log.topics import TopicConfig
from cordwood.wal.formats.by_name import format_of_codec
from cordwood.wal.formats.cordwood.data_log import check_topic
from cordwood.wal.formats.interface import OpenRegion, RegionLogs
from cordwood.wal.layout import LogPlace, RegionPlace, checked_layout
from cordwood.wal.names import checked_id, checked_wal_name
from cordwood.wal.record import NOBODY
from cordwood.wal.region import Region

_LOGGER = logging.getLogger("cordwood.wal")

CODEC: Final = "cordwood"
LAYOUT: Final = "two-topics"
CLEAN_EVERY: Final = 60.0
REGION_BYTES_MAX: Final = 1 << 30
RECORD_BYTES_MIN: Final = 4096
"""The smallest record limit of a topic for a region: a snapshot part with one table has up to 2.7 KB."""

OnFlushNeeded: TypeAlias = Callable[[Region, list[int]], Awaitable[None]]


class Wal:
    """A write-ahead log: regions, which are logs that many tables share. Making one does no I/O.

    ```python
    wal = cw.wal("metrics")
    async with wal.region(7) as region:
        await region.write(42, [b"first", b"second"])
    ```
    """

    name: str

    def __init__(
        self,
        engine: Engine,
        name: str,
        *,
        timeout: float,
        read_only: bool,
        on_open: Callable[[Region], None],
        codec: str = CODEC,
        layout: str = LAYOUT,
        clean_every: float | None = CLEAN_EVERY,
        region_bytes_max: int = REGION_BYTES_MAX,
        on_flush_needed: OnFlushNeeded | None = None,
    ) -> None:
        """`on_open` gets each region, so that it is closed with the engine; `Unavailable` if that is closed already."""
        self.name = checked_wal_name(name)
        self._layout = checked_layout(layout)
        self._format = format_of_codec(codec)
        self._codec_name = codec
        if clean_every is not None and not clean_every > 0:
            raise InvalidInput(f"clean_every is {clean_every} s: it must be more than 0, or None to clean by hand")
        if region_bytes_max < 1:
            raise InvalidInput(f"region_bytes_max is {region_bytes_max}: it must be at least 1")
        self._clean_every = clean_every
        self._region_bytes_max = region_bytes_max
        self._on_flush_needed = on_flush_needed
        self._engine = engine
        self._timeout = timeout
        self._read_only = read_only
        self._on_open = on_open
        self._regions: dict[int, Region] = {}
        self._opening: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._closed = False

    async def regions(self, *, timeout: float | None = None) -> list[int]:
        """The ids of all its regions, sorted.

        ```python
        await wal.regions()  # [7]
        ```
        """
        self._check_open()
        topics = await self._engine.topics(self._layout.prefix(self.name), timeout=self._time(timeout))
        return self._layout.regions_of(self.name, topics)

    def region(self, id: int, *, create: bool = True, timeout: float | None = None) -> Opening:
        """Open a region, or make it; `await` it, or use it as `async with`.

        `create=False`: `NotFound` if there is none. Opening a region takes it: an earlier owner is fenced, and can
        write no more. This object returns the region that it has open already. On a read-only connection an open
        fences nobody, and makes nothing.

        ```python
        async with wal.region(7) as region:
            ...
        ```
        """
        self._check_open()
        return Opening(self, checked_id("region", id), create, self._time(timeout))

    async def close(self) -> None:
        """Close the regions that it has open; twice is fine."""
        self._closed = True
        # At once: each leaves a snapshot, and none waits for the others' logs.
        await asyncio.gather(*(region.close() for region in self._regions.values()))
        self._regions.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<cordwood.Wal {self.name!r}{' closed' if self._closed else ''}>"

    async def _open(self, id: int, create: bool, timeout: float) -> Region:
        late = f"opening region {id} of {self.name!r} took more than {timeout} s"
        # One at a time for a region, and none waits for another region's log.
        async with deadline(timeout, lambda: Timeout(late)), self._opening.setdefault(id, asyncio.Lock()):
            self._check_open()
            region = self._regions.get(id)
            if region is None or not region._usable():
                region = await self._open_region(id, create, timeout)
                try:
                    self._on_open(region)
                    self._check_open()
                except Unavailable:  # closed meanwhile
                    await region.close()
                    raise
                self._regions[id] = region
            return region

    async def _open_region(self, id: int, create: bool, timeout: float) -> Region:
        begun = time.monotonic()
        place = self._layout.place(self.name, id)
        try:
            info = await self._engine.topic(place.data.topic, timeout=timeout)
        except NotFound:
            if self._only_reads or not create:
                hint = "" if self._format.only_reads else ": open it with create=True"
                raise NotFound(f"write-ahead log {self.name!r} has no region {id}{hint}") from None
            # The data topic is the region, so it comes last: a crash in between leaves nothing that looks like one.
            if not place.shared:
                await self._make(place.meta.topic, place.partitions, timeout)
            await self._make(place.data.topic, place.partitions, timeout)
            info = await self._engine.topic(place.data.topic, timeout=timeout)
        check_topic(info, place.partitions)
        meta_info = info if place.shared or self._only_reads else await self._meta_topic(id, place, timeout)
        for each in () if self._only_reads else (info, meta_info):
            _check_room(each)
        logs = RegionLogs(
            id,
            self._log(place.data),
            self._log(place.meta),
            info.batch_bytes_max,
            meta_info.batch_bytes_max,
            self._timeout,
            f"{socket.gethostname()}:{os.getpid()}",
        )
        opened = await (self._format.read(logs) if self._only_reads else self._format.own(logs))
        region = Region(opened, read_again=lambda: self._format.read(logs), refusal=lambda: self._refusal(id))
        if self._clean_every is not None and not self._only_reads:
            ask = self._on_flush_needed
            flush = None if ask is None else lambda tables: ask(region, tables)
            region._clean_in_background(self._clean_every, self._region_bytes_max, flush)
        _log_open(opened, time.monotonic() - begun)
        return region

    @property
    def _only_reads(self) -> bool:
        return self._read_only or self._format.only_reads

    def _refusal(self, id: int) -> CordwoodError:
        """The error for a write to a region that only reads."""
        if self._format.only_reads:
            return InvalidInput(
                f"region {id} of {self.name!r} has the codec {self._codec_name!r}, which only reads:"
                " the program that writes it also deletes its entries and cleans it",
                outcome="not_written",
            )
        return Unavailable(
            f"region {id} was opened on a connection with read_only=True: connect without it to write",
            outcome="not_written",
            reason="read-only",
        )

    def _log(self, place: LogPlace) -> Log:
        return self._engine.log(place.topic, place.partition, timeout=self._timeout)

    async def _meta_topic(self, id: int, place: RegionPlace, timeout: float) -> TopicInfo:
        topic = place.meta.topic
        try:
            info = await self._engine.topic(topic, timeout=timeout)
        except NotFound:
            _LOGGER.warning("topic %s is missing and made anew: deleted entries of region %d may return", topic, id)
            await self._make(topic, place.partitions, timeout)
            info = await self._engine.topic(topic, timeout=timeout)
        check_topic(info, place.partitions)
        return info

    async def _make(self, topic: str, partitions: int, timeout: float) -> None:
        config = TopicConfig(partitions)
        await self._engine.create_topic(topic, config, exist_ok=True, timeout=timeout)

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable(
                f"write-ahead log {self.name!r} is closed: ask the connection for it again", reason="closed"
            )

    def _time(self, timeout: float | None) -> float:
        return self._timeout if timeout is None else checked_timeout(timeout)


async def read_region(
    engine: Engine, name: str, id: int, codec: str, layout: str, *, permissive: bool, timeout: float
) -> OpenRegion:
    """A region as it is now, for a program that splits the reading of its data log itself. Appends nothing (R16).

    `permissive`: records that cannot be decoded are passed over (R45).
    """
    place = checked_layout(layout).place(name, id)
    try:
        info = await engine.topic(place.data.topic, timeout=timeout)
    except NotFound:
        raise NotFound(f"write-ahead log {name!r} has no region {id} in {layout}") from None
    check_topic(info, place.partitions)
    data, meta = (engine.log(each.topic, each.partition, timeout=timeout) for each in (place.data, place.meta))
    size = info.batch_bytes_max
    return await format_of_codec(codec).read(RegionLogs(id, data, meta, size, size, timeout, "a reader", permissive))


def _check_room(info: TopicInfo) -> None:
    if info.batch_bytes_max < RECORD_BYTES_MIN:
        raise Conflict(
            f"topic {info.name!r} takes records of at most {info.batch_bytes_max} bytes, and a region needs"
            f" {RECORD_BYTES_MIN}: raise its max.message.bytes, or use another name"
        )


def _log_open(opened: OpenRegion, seconds: float) -> None:
    data = opened.data
    owner = (
        "read-only" if opened.writers is None else "no owner id" if data.owner == NOBODY else f"owner id {data.owner}"
    )
    tables = [table for table in data.state.table_states.values() if not table.dropped]
    _LOGGER.info(
        "region %d in %s is open in %.3f s: %s, %d tables, %d live entries",
        data.region, data.log.name, seconds, owner, len(tables),
        sum(table.next_sequence - 1 - table.deleted_through for table in tables),
    )  # fmt: skip


class Opening:
    """A region that is about to be opened: await it, or enter it."""

    def __init__(self, wal: Wal, id: int, create: bool, timeout: float) -> None:
        self._wal = wal
        self._id = id
        self._create = create
        self._timeout = timeout
        self._region: Region | None = None

    def __await__(self) -> Generator[Any, None, Region]:
        return self._wal._open(self._id, self._create, self._timeout).__await__()

    async def __aenter__(self) -> Region:
        self._region = await self
        return self._region

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._region is not None
        await self._region.close()

    def __repr__(self) -> str:
        return f"region {self._id} of {self._wal.name!r}: await it, or enter it with `async with`"
