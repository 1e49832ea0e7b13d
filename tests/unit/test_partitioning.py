"""Which partition a key belongs to."""

from cordwood.log.partitioning import _known_hash, murmur2, partition_of


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
