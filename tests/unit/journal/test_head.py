"""The head of a partition: what it drops while an append waits for its verdict."""

import pytest

from cordwood.journal import head
from cordwood.journal.head import KeptBytes, PartitionHead
from cordwood.records import StoredBatch


def records(start: int, stop: int) -> StoredBatch:
    count = stop - start
    return StoredBatch.from_rows(range(start, stop), [b"v"] * count, keys=[b"k"] * count, timestamps=[1] * count)


def test_a_held_head_drops_replicated_records_and_skips_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "_HELD_MIN", 10)
    partition = PartitionHead(0, 0, KeptBytes(1 << 20))
    partition.held = True
    assert partition.pinned
    for start in range(0, 1000, 5):
        partition.feed(records(start, start + 5))
        partition.drop_before(start + 5)
        assert partition.upper - partition.lower < 10  # without an end of the load, too
    partition.drop_before(2000)  # another process has replicated records that this one has not read
    assert partition.upper == 1000
    partition.held = False
    partition.drop_before(2000)
    assert (partition.lower, partition.upper) == (2000, 2000)
