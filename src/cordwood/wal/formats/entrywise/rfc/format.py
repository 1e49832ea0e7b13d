"""Regions in the proposal's records."""

from __future__ import annotations

from cordwood.records import StoredBatch
from cordwood.wal.formats.entrywise.log import EntrywiseLog, EntrywiseMeta, ReadingFormat, restore_entrywise
from cordwood.wal.formats.entrywise.rfc.codec import ALL_MARKS, RfcCodec
from cordwood.wal.formats.entrywise.rfc.meta_writer import RfcMetaWriter
from cordwood.wal.formats.entrywise.rfc.writer import RfcWriter
from cordwood.wal.formats.interface import OpenRegion, RegionLogs


class RfcFormat(ReadingFormat):
    """`codec="rfc"`: `docs/formats/wal-rfc.md`."""

    only_reads = False

    def __init__(self) -> None:
        super().__init__(RfcCodec())

    async def own(self, logs: RegionLogs) -> OpenRegion:
        """Open without appending: two owners notice each other when both write."""
        data, meta = self._logs(logs)
        lost = await restore_entrywise(data, meta)
        writer = RfcWriter(data, logs.data_bytes_max, logs.timeout)
        return OpenRegion(
            data, meta, lost, (writer, RfcMetaWriter(data, meta, writer, logs.meta_bytes_max, logs.timeout))
        )

    def _logs(self, logs: RegionLogs) -> tuple[EntrywiseLog, EntrywiseMeta]:
        data, _ = super()._logs(logs)
        return data, EntrywiseMeta(logs.meta, logs.region, self.codec, _has_all_marks)


def _has_all_marks(batch: StoredBatch) -> bool:
    headers = batch.rows()[2]
    return headers is not None and ALL_MARKS in headers[0]
