"""What a region holds, as plain Python."""

from collections import defaultdict
from typing import Any

from cordwood import Client, Region
from cordwood.wal import RegionReader
from cordwood.wal.formats.cordwood.meta_record import SnapshotPart, decode_meta

Logs = dict[int, bytes]


async def taken(reader: RegionReader) -> list[tuple[int, range, list[bytes | None]]]:
    """(table, sequences, payloads) of each write, in log order; offsets only grow."""
    found = []
    last = -1
    async with reader:
        async for entries in reader:
            assert entries.offset > last
            assert len(entries) == len(entries.sequences) == len(entries.payloads) > 0
            last = entries.offset
            found.append((entries.table, entries.sequences, list(entries.payloads)))
    return found


async def by_table(region: Region) -> dict[int, Logs]:
    """{table: {sequence: payload}}; the numbers of a table only grow."""
    tables: dict[int, Logs] = defaultdict(dict)
    lasts: dict[int, int] = defaultdict(int)
    for table, sequences, payloads in await taken(region.replay()):
        for sequence, payload in zip(sequences, payloads, strict=True):
            assert sequence > lasts[table], f"table {table}: {sequence} comes twice, or goes back"
            lasts[table] = sequence
            assert payload is not None
            tables[table][sequence] = payload
    return dict(tables)


async def logs_of(reader: RegionReader) -> Logs:
    """{sequence: payload} of a reader of one table, in the order in which they came."""
    found: Logs = {}
    for _, sequences, payloads in await taken(reader):
        for sequence, payload in zip(sequences, payloads, strict=True):
            assert payload is not None
            found[sequence] = payload
    return found


async def meta_records(cw: Client) -> list[Any]:
    """All records of the meta log of region 7 of `metrics`."""
    async with cw.log("metrics_meta_7").read() as reader:
        return [decode_meta(value or b"", 7, "here") async for batch in reader for value in batch.values]


async def snapshots(cw: Client) -> list[SnapshotPart]:
    return [record for record in await meta_records(cw) if isinstance(record, SnapshotPart)]
