"""`Client.append`: the partition of each record, and the error when only some partitions could be written."""

import pytest

from cordwood.client import Client
from cordwood.errors import InvalidInput, TooLarge
from cordwood.records import Batch
from cordwood.testing.under_test import UnderTest, numbered, raises_as_write, records_of, values_of

# Signed, as in Java: the vectors of Kafka's own test of its hash.
MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def partition_of(key: bytes, partitions: int) -> int:
    """The partition that Kafka's Java client gives a key of the vectors: the hash without its sign, modulo."""
    return (MURMUR2[key] & 0x7FFFFFFF) % partitions


class Partitions(UnderTest):
    """Appends by key."""

    @pytest.mark.parametrize("partitions", [2, 7, 16])
    async def test_a_key_goes_where_kafkas_java_client_puts_it(self, cw: Client, topic: str, partitions: int) -> None:
        await cw.create_topic(topic, partitions=partitions)
        for key in MURMUR2:
            (partition,) = await cw.append(topic, Batch.of([key], keys=[key]))
            assert partition == partition_of(key, partitions), key
            assert key in await values_of(cw.log(topic, partition))

    async def test_a_batch_is_split_by_key_and_keeps_its_order(self, cw: Client, topic: str) -> None:
        await cw.create_topic(topic, partitions=5)
        keys = [key for _ in range(10) for key in MURMUR2]
        values = numbered(len(keys))
        stamps = list(range(1000, 1000 + len(keys)))
        headers = [[("n", value)] for value in values]
        offsets = await cw.append(topic, Batch.of(values, keys=keys, headers=headers, timestamps=stamps))
        assert sorted(offsets) == sorted({partition_of(key, 5) for key in MURMUR2})
        for partition in range(5):
            rows = zip(values, keys, headers, stamps, strict=True)
            wanted = [
                (value, key, tuple(pairs), at) for value, key, pairs, at in rows if partition_of(key, 5) == partition
            ]
            records = await records_of(cw.log(topic, partition).read())
            assert [tuple(record)[:4] for record in records] == wanted
            assert [record.offset for record in records] == list(offsets.get(partition, []))

    async def test_records_without_a_key_go_to_one_partition_a_batch(self, cw: Client, topic: str) -> None:
        await cw.create_topic(topic, partitions=8)
        used = set()
        for _ in range(40):
            offsets = await cw.append(topic, Batch.of(numbered(5)))
            (partition,) = offsets
            assert len(offsets[partition]) == 5
            used.add(partition)
        assert len(used) > 1  # of 8, at random: all 40 meet once in 10^35 runs

    async def test_an_empty_key_is_a_key(self, cw: Client, topic: str) -> None:
        await cw.create_topic(topic, partitions=8)
        used: set[int] = set()
        for _ in range(20):
            used.update(await cw.append(topic, Batch.of([b"x"], keys=[b""])))
        assert len(used) == 1

    async def test_keys_and_nulls_may_be_mixed(self, cw: Client, topic: str) -> None:
        await cw.create_topic(topic, partitions=3)
        keys = [b"abc", None, b"abc", None, None, b"21"]
        offsets = await cw.append(topic, Batch.of(numbered(6), keys=keys))
        assert sum(map(len, offsets.values())) == 6
        keyless = [
            partition
            for partition in range(3)
            if any(record.key is None for record in await records_of(cw.log(topic, partition).read()))
        ]
        assert len(keyless) == 1

    async def test_a_topic_of_one_partition_takes_the_batch_as_it_is(self, cw: Client, topic: str) -> None:
        await cw.create_topic(topic)
        offsets = await cw.append(topic, Batch.of(numbered(3), keys=[b"a", None, b"b"]))
        assert list(offsets) == [0]
        self.check_offsets(offsets[0], 0, 3)

    @pytest.mark.parametrize("partitions", [1, 3])
    async def test_an_empty_batch_is_invalid_however_many_partitions(
        self, cw: Client, topic: str, partitions: int
    ) -> None:
        await cw.create_topic(topic, partitions=partitions)
        with raises_as_write(InvalidInput, "not_written"):
            await cw.append(topic, Batch.of([]))

    @pytest.mark.parametrize("partitions", [1, 3])
    async def test_what_is_no_batch_is_a_type_error_however_many_partitions(
        self, cw: Client, topic: str, partitions: int
    ) -> None:
        await cw.create_topic(topic, partitions=partitions)
        with pytest.raises(TypeError):
            await cw.append(topic, [b"x"])  # type: ignore[arg-type]  # tested on purpose

    async def test_what_one_partition_cannot_take_is_written_to_none(self, cw: Client, topic: str) -> None:
        await cw.create_topic(topic, partitions=7)
        small, large = b"abc", b"21"
        assert partition_of(small, 7) != partition_of(large, 7)
        values = [b"small", bytes(self.batch_bytes_max + 1)]
        with raises_as_write(TooLarge, "not_written") as caught:
            await cw.append(topic, Batch.of(values, keys=[small, large]))
        assert not caught.value.written
        assert not caught.value.unknown
        for partition in range(7):
            assert await values_of(cw.log(topic, partition)) == [], partition

    async def test_an_error_where_nothing_was_written_says_so(self, cw: Client, topic: str) -> None:
        await cw.create_topic(topic, partitions=7)
        with raises_as_write(TooLarge, "not_written") as caught:
            await cw.append(topic, Batch.of([bytes(self.batch_bytes_max + 1)], keys=[b"k"]))
        assert not caught.value.written
        assert not caught.value.unknown
