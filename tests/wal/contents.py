"""What a region holds, as plain Python."""

from collections import defaultdict

from cordwood import Region
from cordwood.wal import RegionReader

Logs = dict[int, bytes]


async def taken(reader: RegionReader) -> list[tuple[int, range, list[bytes | None]]]:
    """(table, sequences, payloads) of each write, in log order; offsets only grow."""
    found = []
    last = -1
    async with reader:
        async for logs in reader:
            assert logs.offset > last
            assert len(logs) == len(logs.sequences) == len(logs.payloads) > 0
            last = logs.offset
            found.append((logs.table, logs.sequences, list(logs.payloads)))
    return found


async def by_table(region: Region) -> dict[int, Logs]:
    """{table: {sequence: payload}}; the numbers of a table only grow."""
    tables: dict[int, Logs] = defaultdict(dict)
    for table, sequences, payloads in await taken(region.replay()):
        for sequence, payload in zip(sequences, payloads, strict=True):
            assert sequence > max(tables[table], default=0), f"table {table}: {sequence} comes twice, or goes back"
            assert payload is not None
            tables[table][sequence] = payload
    return dict(tables)
