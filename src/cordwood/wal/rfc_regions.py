"""Regions in the proposal's records."""

from __future__ import annotations

from cordwood.records import StoredBatch
from cordwood.wal.opened import Opened, RegionLogs
from cordwood.wal.plain_log import PlainLog, PlainMeta, ReadingCodec, restore_plain
from cordwood.wal.rfc_codec import ALL_MARKS, RfcCodec
from cordwood.wal.rfc_keeper import RfcKeeper
from cordwood.wal.rfc_writer import RfcWriter


class RfcRegions(ReadingCodec):
    """`codec="rfc"`: `docs/formats/wal-rfc.md`."""

    only_reads = False

    def __init__(self) -> None:
        super().__init__(RfcCodec())

    async def own(self, logs: RegionLogs) -> Opened:
        """Opening appends nothing: who has the region shows when two of them write."""
        data, meta = self._logs(logs)
        lost = await restore_plain(data, meta)
        writer = RfcWriter(data, logs.data_bytes_max, logs.timeout)
        return Opened(data, meta, lost, (writer, RfcKeeper(data, meta, writer, logs.meta_bytes_max, logs.timeout)))

    def _logs(self, logs: RegionLogs) -> tuple[PlainLog, PlainMeta]:
        data, _ = super()._logs(logs)
        return data, PlainMeta(logs.meta, logs.region, self._codec, _has_all_marks)


def _has_all_marks(batch: StoredBatch) -> bool:
    headers = batch.rows()[2]
    return headers is not None and ALL_MARKS in headers[0]
