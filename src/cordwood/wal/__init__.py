"""The write-ahead log: many tables share a region, which is a log with one owner.

`wal` opens regions, `region` is what an application uses. `record` has the records of the data log in memory, `layout`
the topics of a region's two logs.

- `state`: what follows from the records: tables, and which writes count (`fence`). Pure.
- `formats`: what `codec=` chooses. `interface` is what a format offers; `cordwood` is ours (`writer` has the path of a
  write, `meta_writer` that of marks and snapshots, `restore` that of an open); `entrywise` has one record per entry.
- `reading`: replay, single tables, recovery.
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
