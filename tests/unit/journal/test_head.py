"""The head of a partition: what it drops while an append waits for its verdict, and what it counts as kept."""

import pytest

from cordwood.journal import head
from cordwood.journal.head import KeptBytes, PartitionHead
from cordwood.records import Batch, StoredBatch
from tests.support.traced_memory import traced

HEADER = b'{"append":{"range":{"from":1,"to":1},"payloadType":"json","id":"0123456789abcdef-1","expected":0}}'


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


def appended(start: int, count: int, value_bytes: int) -> StoredBatch:
    """Records as the outbox keeps its own."""
    numbers = range(start, start + count)
    values: list[bytes | None] = [bytes(value_bytes) for _ in numbers]
    keys: list[bytes | None] = [b"key-%d" % (number % 100) for number in numbers]
    headers = Batch.of(values, headers=[[("journal.action", bytes(bytearray(HEADER)))] for _ in numbers]).headers
    return StoredBatch.from_rows(numbers, values, keys=keys, headers=headers, timestamps=[1_795_032_442_585] * count)


@pytest.mark.parametrize("records", [1, 16, 256])
@pytest.mark.parametrize("value_bytes", [0, 1000])
def test_the_limit_of_a_head_counts_what_a_batch_costs(records: int, value_bytes: int) -> None:
    limit = 4 << 20
    head = PartitionHead(0, 0, kept := KeptBytes(limit))
    with traced() as memory:
        for start in range(0, 12_288, records):
            head.feed(appended(start, records, value_bytes))
        held = memory.held
    assert kept.bytes <= limit
    assert head.record(12_287) is not None
    # The offsets of every record are known too: 8 bytes each.
    assert limit / 2 < held < limit * 1.15
