"""Numbers about a journal that is open."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JournalStats:
    """What a journal has done in this process, and what it holds.

    >>> JournalStats(10, 2, 5, 1, 4096, 1, {0: 17}, {0: 2}, 9, 36, 0, (0,)).renumbered
    2
    """

    appends: int
    renumbered: int
    """Appends that lost to another writer and got the next number."""
    reads: int
    partitions_followed: int
    head_bytes: int
    keys_known: int
    pointers: dict[int, int]
    """The highest replicated offset of each partition, as it was last seen."""
    lag: dict[int, int]
    """The records of each partition that this process knows of, and the store does not have yet."""
    replicated_records: int
    replicated_events: int
    dead_letters: int
    replicated_partitions: tuple[int, ...]
    """The partitions that this process replicates in the background; another process has the leases of the others."""
