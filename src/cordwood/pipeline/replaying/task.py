"""The writes of one range that count, and are not deleted."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, repeat
from operator import add, ge, sub

from cordwood.errors import Corrupt
from cordwood.records import StoredBatch
from cordwood.wal.formats.cordwood.data_record import HEADER_BYTES, encode_payloads
from cordwood.wal.formats.decoder import RecordDecoder
from cordwood.wal.record import OwnerRecord
from cordwood.wal.state.fence import Fence

from .rows import BadPlace, TakenWrites


@dataclass
class RangeState:
    """What decides which writes of a range count; fed with its batches, in their order."""

    decoder: RecordDecoder
    fence: Fence
    deleted: Mapping[int, int]
    """By table, through which number."""
    tables: Collection[int] | None
    permissive: bool
    bad: list[BadPlace] = field(default_factory=list)
    """Records that cannot be decoded, and were not given out yet."""

    def take(self, batch: StoredBatch) -> tuple[TakenWrites | None, list[BadPlace]]:
        """The live writes of a batch, if it has some, and the records that could not be decoded."""
        writes = self._take_whole(batch) or self._take_each(batch)
        # What a bad record has hidden is known with the next write that counts.
        told: list[BadPlace] = []
        if self.bad and not self.fence.passed_over:
            told, self.bad = self.bad, []
        return (writes if writes.starts else None), told

    def _take_whole(self, batch: StoredBatch) -> TakenWrites | None:
        """Take a batch of which every write counts and none is deleted, as most are: with little Python per write."""
        writes = self.decoder.writes(batch)
        if writes is None or any(map(ge, map(self.deleted.get, writes.tables, repeat(0)), writes.firsts)):
            return None
        if not self.fence.take_writes(writes.owners, writes.running_counts, writes.lengths):
            return None
        values = batch.values
        _, offsets, data = values.buffers()
        bounds = offsets[values.start : values.start + len(values) + 1].tolist()
        starts = list(map(add, bounds[:-1], repeat(HEADER_BYTES)))
        taken = TakenWrites(
            data, starts, bounds[1:], writes.tables, writes.firsts, writes.lengths, batch.offsets, bare=False
        )
        return taken if self.tables is None else taken.only(map(self.tables.__contains__, writes.tables))

    def _take_each(self, batch: StoredBatch) -> TakenWrites:
        """Take the records one by one."""
        fence, deleted, only = self.fence, self.deleted, self.tables
        columns: list[memoryview | bytes] = []
        tables, firsts, counts, offsets = list[int](), list[int](), list[int](), list[int]()
        for offset, record in self.decoder.records(batch, self._pass_over if self.permissive else None):
            before = fence.running_count
            if isinstance(record, OwnerRecord):
                if fence.take_owner(offset, record):
                    self._tell_missing(before, record.running_count)
                continue
            if not fence.take_write(record.owner, record.running_count, record.length):
                continue
            self._tell_missing(before, record.running_count)
            table, first, count = record.table, record.first, record.length
            gone = deleted.get(table, 0) + 1 - first
            if gone >= count or (only is not None and table not in only):
                continue
            column: memoryview | bytes = record.column
            if gone > 0:
                column = encode_payloads([payload or b"" for payload in record.payloads[gone:]])
                first, count = first + gone, count - gone
            columns.append(column)
            tables.append(table)
            firsts.append(first)
            counts.append(count)
            offsets.append(offset)
        stops = list(accumulate(map(len, columns)))
        starts = list(map(sub, stops, map(len, columns)))
        data = memoryview(b"".join(columns))
        return TakenWrites(data, starts, stops, tables, firsts, counts, offsets, self.decoder.bare)

    def _pass_over(self, offset: int, error: Corrupt) -> None:
        self.fence.pass_over(offset)
        self.bad.append(BadPlace(offset, str(error)))

    def _tell_missing(self, before: int, running_count: int) -> None:
        """R45: name the numbers that were in the records that cannot be decoded."""
        if self.bad and before < running_count:
            last = self.bad[-1]
            text = f"; entries {before + 1} to {running_count} in the region's count are missing"
            self.bad[-1] = last._replace(error=last.error + text)
