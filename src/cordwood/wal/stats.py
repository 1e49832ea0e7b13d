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
    """Where the oldest live log lies, or a little before; None: there are no live logs."""
    held_by: int | None
    """The table of that log: nothing can be cleaned before it is marked."""
    lag: int
    """Records of the data log from the oldest live log on."""
    bytes: int
    """About how large they are."""
    snapshot_lag: int
    """Records of the data log since the last snapshot, which the next open reads."""
    pruned_to: int
    """What lies before this offset is not needed any more, and a snapshot says so."""
    trimmed_to: int
    """What lies before this offset is gone; less than `pruned_to` where the log refuses to trim."""
    trim_refused: CordwoodError | None
    """Why it does."""
    lost: Mapping[int, range]
    """What was missing at the opening: numbers by table, as far as they are known."""
    failure: CordwoodError | None
    """Why the last snapshot, clean or call of `on_flush_needed` failed; None: it did not."""
