"""Records that the head knows, and does not keep: looked up in the log, in one scan for all callers that wait."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from cordwood.records import StoredRecord, record_bytes

from .coalesce import NextRun
from .head import PartitionHead
from .topic import JournalTopic

OFFSETS_MAX = 1000
"""The most records that a caller asks for at once."""
BYTES_MAX = 4 * 1024 * 1024
"""A look-up ends at the record that reaches so many bytes, and so does each scan: their callers hold no more."""


class Found(NamedTuple):
    """The records at the first offsets that a caller asked for."""

    records: dict[int, StoredRecord]
    """By offset; one that the log does not have is left out."""
    looked: int
    """How many of the offsets were looked up: at least one."""


class Scans:
    """The look-ups of one topic."""

    def __init__(self, topic: JournalTopic) -> None:
        self._topic = topic
        self._partitions: dict[int, _Scan] = {}

    async def records(self, head: PartitionHead, offsets: Sequence[int]) -> Found:
        """The records at the first of these offsets, at most OFFSETS_MAX, within about BYTES_MAX."""
        found: dict[int, StoredRecord] = {}
        missing: list[int] = []
        size, count = 0, len(offsets)
        for at, offset in enumerate(offsets, 1):
            record = head.record(offset)
            if record is None:
                missing.append(offset)
            else:
                found[offset] = record
                size += record_bytes(record)
                if size >= BYTES_MAX:
                    count = at
                    break
        if missing:
            scan = self._partitions.get(head.partition)
            if scan is None:
                scan = self._partitions[head.partition] = _Scan(self._topic, head.partition)
            scanned = await scan.records(missing)
            found.update(scanned.records)
            if scanned.looked < len(missing):
                count = offsets.index(missing[scanned.looked])
        return Found(found, count)


class _Scanned(NamedTuple):
    """The result of one scan."""

    records: dict[int, StoredRecord]
    through: int | None
    """The last offset that it has looked at; None if it has looked at all."""


class _Scan:
    def __init__(self, topic: JournalTopic, partition: int) -> None:
        self._log = topic.log(partition)
        self._wanted: set[int] = set()
        self._run = NextRun(self._fetch)

    async def records(self, offsets: Sequence[int]) -> Found:
        """The records at the first of these offsets."""
        while True:
            self._wanted.update(offsets)
            scanned = await self._run()
            through = scanned.through
            count = len(offsets) if through is None else bisect_right(offsets, through)
            if count:
                looked = offsets[:count]
                records = {offset: scanned.records[offset] for offset in looked if offset in scanned.records}
                return Found(records, count)
            # Lower offsets, of other callers, took all of its bytes.

    async def _fetch(self) -> _Scanned:
        wanted, self._wanted = self._wanted, set()
        offsets = sorted(wanted)
        records = await self._log.fetch(offsets, bytes_max=BYTES_MAX, uncommitted=True)
        is_cut = bool(records) and sum(map(record_bytes, records)) >= BYTES_MAX
        return _Scanned({record.offset: record for record in records}, records[-1].offset if is_cut else None)
