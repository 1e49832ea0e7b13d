"""Which partition a key belongs to: as Kafka's Java client decides it, so that both agree on every topic."""

from functools import lru_cache

from cordwood.records import Batch

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """MurmurHash2, 32 bits, with the seed that Kafka uses.

    >>> murmur2(b"21")
    3321034988
    """
    length = len(key)
    h = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    if whole < length:
        h = (h ^ int.from_bytes(key[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


# Keys repeat, so most calls are a look-up in C. Long ones are left out: a cache that is bounded by count would not be
# bounded in bytes.
_known_hash = lru_cache(maxsize=1 << 16)(murmur2)
_KNOWN_KEY_BYTES_MAX = 128


def split_by_key(batch: Batch, partitions: int, keyless: int) -> dict[int, Batch]:
    """The batch's records by partition, in their order; `keyless` is the partition of those without a key."""
    if partitions == 1:
        return {0: batch}
    places: dict[int, list[int]] = {}
    for index, key in enumerate(batch.keys):
        partition = keyless if key is None else partition_of(key, partitions)
        places.setdefault(partition, []).append(index)
    if len(places) == 1:
        return {next(iter(places)): batch}
    return {partition: _take(batch, indexes) for partition, indexes in sorted(places.items())}


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key.

    >>> partition_of(b"21", 4)
    0
    """
    hashed = _known_hash(key) if len(key) <= _KNOWN_KEY_BYTES_MAX else murmur2(key)
    return (hashed & 0x7FFFFFFF) % partitions


def _take(batch: Batch, indexes: list[int]) -> Batch:
    values, keys, headers = list(batch.values), list(batch.keys), batch.headers
    timestamps = batch.timestamps
    return Batch.of(
        [values[i] for i in indexes],
        keys=[keys[i] for i in indexes],
        headers=[headers[i] for i in indexes],
        timestamps=None if timestamps is None else [timestamps[i] for i in indexes],
    )
