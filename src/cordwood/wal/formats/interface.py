"""The interface of a format: how it opens the two logs of a region, and the writers that an owner gets from it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from cordwood.errors import CordwoodError, Fenced
from cordwood.log import Log
from cordwood.wal.formats.applied_log import AppliedLog


class RegionLogs(NamedTuple):
    """The two logs of a region, before anything of them was read."""

    region: int
    data: Log
    meta: Log
    data_bytes_max: int
    """The largest batch that an append takes, framed."""
    meta_bytes_max: int
    timeout: float
    who: str
    """Host and process, for people."""
    permissive: bool = False
    """Whether a read passes over data records that cannot be decoded (R45)."""


class MetaPlace(Protocol):
    """A meta log that was read."""

    snapshot_offset: int
    """Up to where the data log is applied in the last snapshot; 0: there is none."""


class WriteUnderWay(Protocol):
    """One write that has its numbers."""

    table: int
    first: int
    count: int

    future: asyncio.Future[range]
    """Its numbers, once it is durable."""


class RegionWriter(Protocol):
    """The writes of a region."""

    fenced: Fenced | None
    closed: bool

    @property
    def full(self) -> bool: ...
    def check(self) -> None:
        """Raise the error that every write would raise."""

    def fence(self, error: Fenced) -> None:
        """Refuse all writes from now on."""

    def column_of(self, table: int, payloads: Sequence[bytes]) -> Any:
        """The payloads as `put` takes them; `TooLarge` before anything has a number."""

    async def room(self, timeout: float | None) -> None:
        """Backpressure: wait until there is room for one more write."""

    def put(self, table: int, count: int, column: Any) -> WriteUnderWay:
        """Give the write its sequence numbers, and queue it after all others."""

    def has_given(self, table: int) -> bool:
        """Whether a write of the table, in this opening, has got a number."""

    def last_given(self, table: int) -> int:
        """The last sequence number that a write of the table has, also of one that is under way."""

    async def close(self) -> None:
        """No more writes; returns when those under way are decided."""


class Snapshotted(NamedTuple):
    """A durable snapshot: up to which offset the data log is applied in it, and may be trimmed."""

    high_watermark: int
    trim_target: int


class RegionMetaWriter(Protocol):
    """The marks of a region."""

    @property
    def failure(self) -> CordwoodError | None: ...
    @property
    def refused(self) -> CordwoodError | None:
        """Why the meta log was not trimmed, if it was not."""

    async def mark(self, table: int, through: int, *, dropped: bool, timeout: float | None) -> None: ...
    async def snapshot(self, timeout: float | None) -> Snapshotted: ...
    def check_owner(self) -> None: ...
    async def close(self) -> None: ...


class OpenRegion(NamedTuple):
    """A region that was read; with a writer and a meta_writer, also one that is owned."""

    data: AppliedLog
    meta: MetaPlace
    lost: Mapping[int, range]
    writers: tuple[RegionWriter, RegionMetaWriter] | None = None
    """Of writes and of marks; None: it only reads."""


class RegionFormat(Protocol):
    """The form of a region's records, and how to open a region in it."""

    @property
    def only_reads(self) -> bool: ...
    @property
    def table_max(self) -> int:
        """The largest id that a table can have."""

    async def read(self, logs: RegionLogs) -> OpenRegion:
        """Read the region, and append nothing."""

    async def own(self, logs: RegionLogs) -> OpenRegion:
        """Become its owner."""
