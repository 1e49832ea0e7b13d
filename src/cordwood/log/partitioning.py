"""The partition of a key, as Kafka's Java client computes it, so that both agree on every topic."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

from cordwood.records import Batch

T = TypeVar("T")

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


# Keys repeat, so most calls are a look-up in C. Long keys are left out: a cache with a bounded count would not have
# bounded bytes.
_known_hash = lru_cache(maxsize=1 << 16)(murmur2)
_KNOWN_KEY_BYTES_MAX = 128


def split_by_key(batch: Batch, partitions: int, keyless: int) -> dict[int, Batch]:
    """The batch's records by partition, in their order; `keyless` is the partition of those without a key.

    Python code runs for each distinct key; for each record only C code does.
    """
    if partitions == 1:
        return {0: batch}
    values, keys, headers, timestamps = batch.rows()
    if keys is None:
        return {keyless: batch}
    of_key = {key: keyless if key is None else partition_of(key, partitions) for key in set(keys)}
    if len(set(of_key.values())) == 1:
        return {of_key[keys[0]]: batch}
    places = list(map(of_key.__getitem__, keys))
    counts = Counter(places)
    # Stable: the records of one partition keep their order.
    order = sorted(range(len(places)), key=places.__getitem__)
    values, keys = _taken(values, order), _taken(keys, order)
    headers_taken = None if headers is None else _taken(headers, order)
    timestamps_taken = None if timestamps is None else _taken(timestamps, order)
    split: dict[int, Batch] = {}
    start = 0
    for partition in sorted(counts):
        mine = slice(start, start + counts[partition])
        split[partition] = Batch.of(
            values[mine],
            keys=keys[mine],
            headers=headers_taken and headers_taken[mine],
            timestamps=timestamps_taken and timestamps_taken[mine],
        )
        start = mine.stop
    return split


def _taken(rows: Iterable[T], order: Sequence[int]) -> list[T]:
    return list(map(list(rows).__getitem__, order))


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key.

    >>> partition_of(b"21", 4)
    0
    """
    hashed = _known_hash(key) if len(key) <= _KNOWN_KEY_BYTES_MAX else murmur2(key)
    return (hashed & 0x7FFFFFFF) % partitions
