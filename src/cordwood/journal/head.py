"""The head of one partition: the records that are not known to be replicated, by key.

The head keeps the offsets of every key, and the newest records within a limit that all partitions share. It parses
nothing: one dictionary step per record. It belongs to one event loop, and does no I/O.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence

from cordwood.records import BinaryColumn, StoredBatch, StoredRecord

_COMPACT_MIN = 10_000
_HELD_MIN = 8_192
"""A head that is held drops so many records at once: the states that the writer knows stay valid for as long."""


_BATCH_BYTES = 1_700
"""The Python objects of a kept batch besides its records, measured: they are most of a batch of one small record."""
_ROW_BYTES = 170
"""The Python objects of a record in a batch that has rows, as this process's own; one that was read has columns."""


class KeptBytes:
    """The limit on the records that the heads of one topic keep: the oldest batches go first, of any partition."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._batches: deque[tuple[PartitionHead, int, int]] = deque()
        self.bytes = 0

    def add(self, head: "PartitionHead", batch: StoredBatch) -> None:
        size = _memory_of(batch)
        self._batches.append((head, batch.offsets[-1], size))
        self.bytes += size
        while self.bytes > self._bytes_max:
            oldest, last, size = self._batches.popleft()
            self.bytes -= size
            oldest.forget_records(last)

    def discard(self, head: "PartitionHead") -> None:
        """Give back what a head that is no longer used has kept."""
        self._batches = deque(entry for entry in self._batches if entry[0] is not head)
        self.bytes = sum(size for _, _, size in self._batches)


def _memory_of(batch: StoredBatch) -> int:
    """About the memory that a kept batch takes."""
    values, _, _, _ = batch.rows()
    rows = 0 if isinstance(values, BinaryColumn) else len(values)
    return batch.weight + _BATCH_BYTES + _ROW_BYTES * rows


class PartitionHead:
    """All records of a partition in [lower, upper), by key.

    >>> head = PartitionHead(0, 5, KeptBytes(1 << 20))
    >>> head.feed(StoredBatch.from_rows(range(5, 7), [b"a", b"b"], keys=[b"k", b"j"], timestamps=[1, 2]))
    <StoredBatch of 2 at range(5, 7): 4 bytes>
    >>> head.lower, head.upper, head.offsets_of(b"j", 0), head.record(6).value
    (5, 7, [6], b'b')
    """

    def __init__(self, partition: int, start: int, kept: KeptBytes) -> None:
        self.partition = partition
        self.lower = start
        self.upper = start
        self._kept = kept
        self._offsets: dict[bytes, array[int]] = {}
        self._records = 0  # in _offsets, stale ones among them
        self._stale = 0  # dropped since the offsets were last compacted
        self._batches: list[StoredBatch] = []
        self._lasts: list[int] = []  # the last offset of each batch
        self._forgotten = 0  # the first batches of the two lists, already dropped
        self._pins: dict[int, int] = {}
        self.held = False
        """Whether every record that comes is needed: an append under way waits for its verdict."""

    def feed(self, batch: StoredBatch) -> StoredBatch:
        """Take the records at and above `upper`, and return them; those below are known already."""
        offsets = batch.offsets
        if offsets[0] < self.upper:
            batch = batch[bisect_left(offsets, self.upper) :]
            offsets = batch.offsets
            if not len(batch):
                return batch
        by_key = self._offsets
        _, keys, _, _ = batch.rows()
        if keys is not None:
            for key, offset in zip(keys, offsets, strict=True):
                if key is None:
                    continue
                try:
                    by_key[key].append(offset)
                except KeyError:
                    by_key[key] = array("q", (offset,))
            self._records += len(batch)
        self.upper = offsets[-1] + 1
        self._batches.append(batch)
        self._lasts.append(offsets[-1])
        self._kept.add(self, batch)
        return batch

    def pass_to(self, offset: int) -> None:
        """There is no record between `upper` and this offset."""
        self.upper = max(self.upper, offset)

    def offsets_of(self, key: bytes, start: int) -> list[int]:
        """The offsets of a key's records from `start` on, in order."""
        found = self._offsets.get(key)
        if found is None:
            return []
        start = max(start, self.lower)
        if found[0] >= start:
            return found.tolist()
        return found[bisect_left(found, start) :].tolist()

    def last_of(self, key: bytes) -> int:
        """The offset of a key's last record; -1 if it has none here."""
        found = self._offsets.get(key)
        return found[-1] if found is not None and found[-1] >= self.lower else -1

    def all_keys(self) -> list[bytes]:
        """The keys that have records here."""
        lower = self.lower
        return [key for key, offsets in self._offsets.items() if offsets[-1] >= lower]

    def record(self, offset: int) -> StoredRecord | None:
        """The record at an offset; None if it is not kept."""
        at = bisect_left(self._lasts, offset, self._forgotten)
        if at == len(self._lasts):
            return None
        batch = self._batches[at]
        offsets = batch.offsets
        if isinstance(offsets, range):
            return batch[offset - offsets.start] if offset >= offsets.start else None
        index = bisect_left(offsets, offset)
        return batch[index] if offsets[index] == offset else None

    @property
    def pinned(self) -> bool:
        return self.held or bool(self._pins)

    def pin(self) -> int:
        """Keep all records from `lower` on until `unpin`; the offset to unpin."""
        self._pins[self.lower] = self._pins.get(self.lower, 0) + 1
        return self.lower

    def unpin(self, lower: int) -> None:
        left = self._pins[lower] - 1
        if left:
            self._pins[lower] = left
        else:
            del self._pins[lower]

    def drop_before(self, offset: int) -> None:
        """Forget the records below this offset, which the store has, unless they are pinned."""
        if self._pins:
            offset = min(offset, min(self._pins))
        if self.held:
            offset = min(offset, self.upper)
            if offset - self.lower < _HELD_MIN:
                return
        if offset <= self.lower:
            return
        # Offsets below `lower` stay in the arrays until they are many: to find each would cost a step a record.
        self._stale += offset - self.lower
        self.lower = offset
        self.upper = max(self.upper, offset)
        self.forget_records(offset - 1)
        if self.lower == self.upper:
            self._offsets, self._records, self._stale = {}, 0, 0
        elif self._stale >= max(_COMPACT_MIN, self._records // 2):
            self._compact()

    def forget_records(self, last: int) -> None:
        """Keep no records up to this offset; their offsets stay."""
        at = bisect_right(self._lasts, last, self._forgotten)
        for index in range(self._forgotten, at):
            self._batches[index] = _NOTHING
        self._forgotten = at
        if at > 1000 and at > len(self._lasts) // 2:
            del self._batches[:at], self._lasts[:at]
            self._forgotten = 0

    def _compact(self) -> None:
        lower = self.lower
        kept: dict[bytes, array[int]] = {}
        for key, offsets in self._offsets.items():
            if offsets[-1] >= lower:
                kept[key] = offsets if offsets[0] >= lower else offsets[bisect_left(offsets, lower) :]
        self._offsets = kept
        self._records = sum(map(len, kept.values()))
        self._stale = 0


_NOTHING = StoredBatch.from_rows((), [], timestamps=())


def offsets_by_run(offsets: Sequence[int], gap_max: int) -> list[list[int]]:
    """Split increasing offsets where more than `gap_max` records are between two of them.

    >>> offsets_by_run([1, 2, 50, 52], 10)
    [[1, 2], [50, 52]]
    """
    runs: list[list[int]] = []
    for offset in offsets:
        if runs and offset - runs[-1][-1] <= gap_max:
            runs[-1].append(offset)
        else:
            runs.append([offset])
    return runs
