"""How a region is doing, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cordwood.errors import CordwoodError


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionStats:
    """A region at one moment, as this process knows it.

    ```python
    stats = region.stats()
    print(stats.bytes, stats.oldest_offset, stats.held_by)
    ```
    """

    tables: int
    """Tables that were written and not dropped."""
    next_offset: int
    """The first offset of the data log that is not applied here."""
    oldest_offset: int | None
    """The offset of the oldest live entry, or a little less; None: there are no live entries."""
    held_by: int | None
    """The table of that entry: nothing can be cleaned before the entry is marked."""
    lag: int
    """Records of the data log from the oldest live entry on."""
    bytes: int
    """About how large they are."""
    snapshot_lag: int
    """Records of the data log since the last snapshot, which the next open reads."""
    pruned_to: int
    """Safe to trim up to this offset, which a durable snapshot confirms."""
    trimmed_to: int
    """Trimmed up to this offset; less than `pruned_to` if the log refuses to trim."""
    trim_refused: CordwoodError | None
    """The error with which it refuses."""
    lost: Mapping[int, range]
    """Sequence numbers of entries that were missing at the opening, by table, as far as they are known."""
    failure: CordwoodError | None
    """Why the last snapshot, clean or call of `on_flush_needed` failed; None: it did not."""
