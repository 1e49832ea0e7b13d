"""Which partition a key belongs to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood import Batch, Record
from cordwood.log import partitioning
from cordwood.log.partitioning import _known_hash, murmur2, partition_of, split_by_key


def test_a_key_has_the_partition_that_its_hash_decides_known_or_not() -> None:
    for key in (b"", b"foobar", b"k" * 128, b"k" * 129, b"k" * 5000):
        for _ in range(2):
            assert partition_of(key, 7) == (murmur2(key) & 0x7FFFFFFF) % 7


def test_hashes_of_long_keys_are_not_kept() -> None:
    _known_hash.cache_clear()
    partition_of(b"k" * 129, 7)
    assert _known_hash.cache_info().currsize == 0
    partition_of(b"k" * 128, 7)
    assert _known_hash.cache_info().currsize == 1


KEYS = st.lists(st.none() | st.sampled_from([b"", b"a", b"b", b"c", b"longer"]) | st.binary(max_size=4), min_size=1)


@given(keys=KEYS, partitions=st.integers(1, 9), rest=st.booleans(), columns=st.booleans(), data=st.data())
def test_every_record_goes_with_its_key_and_keeps_its_order(
    keys: list[bytes | None], partitions: int, rest: bool, columns: bool, data: st.DataObject
) -> None:
    keyless = data.draw(st.integers(0, partitions - 1))
    batch = Batch.of(
        [b"%d" % index for index in range(len(keys))],
        keys=keys,
        headers=[[("n", b"%d" % index)] * (index % 3) for index in range(len(keys))] if rest else None,
        timestamps=range(len(keys)) if rest else None,
    )
    if columns:
        batch = Batch.of(batch.values, keys=batch.keys, headers=batch.headers, timestamps=batch.timestamps)
    expected: dict[int, list[Record]] = {}
    for record in batch:
        partition = keyless if record.key is None else partition_of(record.key, partitions)
        expected.setdefault(partition, []).append(record)
    split = split_by_key(batch, partitions, keyless)
    assert {partition: list(part) for partition, part in split.items()} == expected


def test_a_key_that_many_records_have_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    def noted(key: bytes, partitions: int) -> int:
        asked.append(key)
        return partition_of(key, partitions)

    monkeypatch.setattr(partitioning, "partition_of", noted)
    split_by_key(Batch.of([b"x"] * 3000, keys=[b"a", b"b", b"c"] * 1000), 7, 0)
    assert sorted(asked) == [b"a", b"b", b"c"]
