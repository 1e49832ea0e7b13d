"""Regions in our own format: one record a write, owners, marks and snapshots."""

from __future__ import annotations

from cordwood.wal.data_log import DataLog
from cordwood.wal.keeper import Keeper
from cordwood.wal.meta_log import MetaLog
from cordwood.wal.names import ID_MAX
from cordwood.wal.opened import Opened, RegionLogs
from cordwood.wal.restore import restore, take_over
from cordwood.wal.writer import RECORD_SLACK_BYTES, Writer


class CordwoodCodec:
    """`codec="cordwood"`: `docs/formats/wal-data.md` and `docs/formats/wal-meta.md`."""

    only_reads = False
    table_max = ID_MAX

    async def read(self, logs: RegionLogs) -> Opened:
        """R16: reading never fences."""
        data, meta = DataLog(logs.data, logs.region, logs.who), MetaLog(logs.meta, logs.region)
        return Opened(data, meta, (await restore(data, meta)).lost)

    async def own(self, logs: RegionLogs) -> Opened:
        data, meta = DataLog(logs.data, logs.region, logs.who), MetaLog(logs.meta, logs.region)
        found = await take_over(data, meta)
        writer = Writer(data, logs.data_bytes_max - RECORD_SLACK_BYTES, logs.timeout)
        limit = logs.meta_bytes_max - RECORD_SLACK_BYTES
        keeper = Keeper(data, meta, writer, limit, logs.timeout, due=found.gaps)
        return Opened(data, meta, found.lost, (writer, keeper))
