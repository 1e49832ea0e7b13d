"""Regions in our own format: one record a write, owners, marks and snapshots."""

from __future__ import annotations

from cordwood.wal.formats.cordwood.data_log import DataLog
from cordwood.wal.formats.cordwood.meta_log import MetaLog
from cordwood.wal.formats.cordwood.meta_writer import MetaWriter
from cordwood.wal.formats.cordwood.restore import restore, take_over
from cordwood.wal.formats.cordwood.writer import RECORD_SLACK_BYTES, Writer
from cordwood.wal.formats.interface import OpenRegion, RegionLogs
from cordwood.wal.names import ID_MAX


class CordwoodFormat:
    """`codec="cordwood"`: `docs/formats/wal-data.md` and `docs/formats/wal-meta.md`."""

    only_reads = False
    table_max = ID_MAX

    async def read(self, logs: RegionLogs) -> OpenRegion:
        """R16: reading never fences."""
        data = DataLog(logs.data, logs.region, logs.who, logs.permissive)
        meta = MetaLog(logs.meta, logs.region)
        return OpenRegion(data, meta, (await restore(data, meta)).lost)

    async def own(self, logs: RegionLogs) -> OpenRegion:
        data, meta = DataLog(logs.data, logs.region, logs.who), MetaLog(logs.meta, logs.region)
        found = await take_over(data, meta)
        writer = Writer(data, logs.data_bytes_max - RECORD_SLACK_BYTES, logs.timeout)
        limit = logs.meta_bytes_max - RECORD_SLACK_BYTES
        meta_writer = MetaWriter(data, meta, writer, limit, logs.timeout, due=found.gaps)
        return OpenRegion(data, meta, found.lost, (writer, meta_writer))
