"""The write-ahead log: many tables share a region, which is a log with one owner.

`wal` opens regions, and an application uses a `region`. `record` has the records of the data log in memory, `layout`
the topics of a region's two logs.

- `state`: the tables that follow from the records, and which writes count (`fence`). Pure.
- `formats`: `codec=` chooses one. `interface` is what each of them offers. `cordwood` is ours: `writer` has the path of
  a write, `meta_writer` that of marks and snapshots, `snapshot_policy` when one is due, `restore` the path of an open.
  `entrywise` has one record per entry.
- `reading`: replay, single tables, recovery; `scan` is the scheduler that the last two share.
- `cleaning`: the cleaner, and the task that runs it in the background.

Imports `log` and below. Of an engine it uses nothing but the interface.
"""

from cordwood.wal.reading.reader import RegionReader, TableEntries
from cordwood.wal.reading.recovery import Apply, RecoveryReport
from cordwood.wal.region import Region
from cordwood.wal.state.state import TableMeta
from cordwood.wal.stats import RegionStats
from cordwood.wal.wal import OnFlushNeeded, Opening, Wal

__all__ = [
    "Apply",
    "OnFlushNeeded",
    "Opening",
    "RecoveryReport",
    "Region",
    "RegionReader",
    "RegionStats",
    "TableEntries",
    "TableMeta",
    "Wal",
]
