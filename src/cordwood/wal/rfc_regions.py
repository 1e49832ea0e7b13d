"""Regions in the proposal's records: reading, marks, and taking one."""

from __future__ import annotations

import asyncio
from copy import copy

from cordwood.errors import CordwoodError, Timeout
from cordwood.records import Batch
from cordwood.wal.opened import Opened, RegionLogs, Snapshotted
from cordwood.wal.plain_log import PlainLog, PlainMeta, ReadingCodec, restore_plain
from cordwood.wal.rfc_codec import RfcCodec, encode_mark
from cordwood.wal.rfc_writer import RfcWriter


class RfcKeeper:
    """The marks of a region: each is a record of the meta log, and there is nothing else in it."""

    failure: CordwoodError | None = None
    refused: CordwoodError | None = None

    def __init__(self, data: PlainLog, meta: PlainMeta, writer: RfcWriter, timeout: float) -> None:
        self._data = data
        self._meta = meta
        self._writer = writer
        self._timeout = timeout

    async def mark(self, table: int, through: int, *, dropped: bool, timeout: float | None) -> None:
        """Make it durable, then apply it. A dropped table is one all of whose logs are deleted: no record says more."""
        if through <= self._data.state.deleted.get(table, 0):
            return
        self.check_owner()
        key, value = encode_mark(table, through + 1)
        limit = self._timeout if timeout is None else timeout
        try:
            async with asyncio.timeout(limit):
                await self._meta.log.append(Batch.of([value], keys=[key]), timeout=limit)
        except TimeoutError as error:
            if isinstance(error, CordwoodError):
                raise
            raise Timeout(
                f"region {self._data.region}: a mark of table {table} took more than {limit} s: it may become durable",
                outcome="unknown",
            ) from error
        self._data.state.mark(table, through)

    async def snapshot(self, timeout: float | None) -> Snapshotted:
        """There is none in these records: what is known is what the logs say."""
        self.check_owner()
        state = self._data.state
        return Snapshotted(state.next_offset, state.trim_target)

    def check_owner(self) -> None:
        """Whoever is fenced appends nothing more."""
        if self._writer.fenced is not None:
            raise copy(self._writer.fenced)

    async def close(self) -> None:
        """Nothing is left to do."""


class RfcRegions(ReadingCodec):
    """`codec="rfc"`: `docs/formats/wal-rfc.md`."""

    only_reads = False

    def __init__(self) -> None:
        super().__init__(RfcCodec())

    async def own(self, logs: RegionLogs) -> Opened:
        """Opening appends nothing: who has the region shows when two of them write."""
        data = PlainLog(logs.data, logs.region, self._codec)
        meta = PlainMeta(logs.meta, logs.region, self._codec)
        lost = await restore_plain(data, meta)
        writer = RfcWriter(data, logs.data_bytes_max, logs.timeout)
        return Opened(data, meta, lost, (writer, RfcKeeper(data, meta, writer, logs.timeout)))
