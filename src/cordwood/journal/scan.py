"""Records that the head knows, and does not keep: looked up in the log, in one scan for all callers that wait."""

from collections.abc import Sequence

from cordwood.records import StoredRecord

from .coalesce import NextRun
from .head import PartitionHead
from .topic import JournalTopic

OFFSETS_MAX = 1000
"""The most records that a caller asks for at once: a scan holds no more of it in memory."""


class Scans:
    """The look-ups of one topic."""

    def __init__(self, topic: JournalTopic) -> None:
        self._topic = topic
        self._partitions: dict[int, _Scan] = {}

    async def records(self, head: PartitionHead, offsets: Sequence[int]) -> dict[int, StoredRecord]:
        """The records at these offsets, at most OFFSETS_MAX; one that the log does not have is left out."""
        found: dict[int, StoredRecord] = {}
        missing: list[int] = []
        for offset in offsets:
            record = head.record(offset)
            if record is None:
                missing.append(offset)
            else:
                found[offset] = record
        if missing:
            scan = self._partitions.get(head.partition)
            if scan is None:
                scan = self._partitions[head.partition] = _Scan(self._topic, head.partition)
            found.update(await scan.records(missing))
        return found


class _Scan:
    def __init__(self, topic: JournalTopic, partition: int) -> None:
        self._log = topic.log(partition)
        self._wanted: set[int] = set()
        self._run = NextRun(self._fetch)

    async def records(self, offsets: Sequence[int]) -> dict[int, StoredRecord]:
        self._wanted.update(offsets)
        found = await self._run()
        return {offset: found[offset] for offset in offsets if offset in found}

    async def _fetch(self) -> dict[int, StoredRecord]:
        wanted, self._wanted = self._wanted, set()
        records = await self._log.fetch(sorted(wanted), uncommitted=True)
        return {record.offset: record for record in records}
