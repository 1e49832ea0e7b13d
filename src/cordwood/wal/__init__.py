"""The write-ahead log: many tables share a region, which is a log with one owner.

A reader starts with `wal` (regions) and `region` (what an application does with one), goes on to `writer` (the way of a
write), and ends with `fence` (which records count) and `codec` (how they lie in the log: `docs/formats/wal-data.md`).
`data_log` reads the data log and takes it over, `state` is what follows from it, `reader` gives logs out, `recovery`
splits them by table, `layout` says in which topics they lie.

What is deleted, and what spares an open the reading, is in the meta log: `meta_writer` (the way of a mark and of a
snapshot), `meta_log`, `meta_fold` (what its records come to), `meta_codec` (`docs/formats/wal-meta.md`), `snapshot` (a
state as parts, and back). `restore` opens a region from both logs; `cleaner` trims it, and `background` has it do so in the
background; `owning` is all that an owner has, `stats` what it shows.

All of this is the codec `cordwood`. `opened` is what a codec has to offer, `codecs` has them by name, and
`cordwood_codec` ours; `applied` is a data log as all readers see it, `pending` and `marks` what every writer and meta_writer
has. `plain_log` reads regions with one record a log and no owners, whose records `plain_codec`, `horaedb_codec` and
`rfc_codec` decode; `rfc_regions`, `rfc_writer` and `rfc_keeper` write some.

May import `log` and below. Of an engine it uses nothing but the interface.
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
