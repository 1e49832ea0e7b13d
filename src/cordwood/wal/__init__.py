"""The write-ahead log: many tables share a region, which is a log with one owner.

A reader starts with `wal` (regions) and `region` (what an application does with one), goes on to `writer` (the way of a
write), and ends with `fence` (which records count) and `codec` (how they lie in the log: `docs/formats/wal-data.md`).
`data_log` reads the log and takes it over, `state` is what follows from it, `reader` gives logs out, `recovery` splits
them by table, `names` has the names of topics.

May import `log` and below. Of an engine it uses nothing but the interface.
"""

from cordwood.wal.reader import RegionReader, TableLogs
from cordwood.wal.recovery import Apply, RecoveryReport
from cordwood.wal.region import Region
from cordwood.wal.state import TableMeta
from cordwood.wal.wal import Opening, Wal

__all__ = ["Apply", "Opening", "RecoveryReport", "Region", "RegionReader", "TableLogs", "TableMeta", "Wal"]
