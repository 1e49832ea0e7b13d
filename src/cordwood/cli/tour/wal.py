"""Chapter: many tables share one write-ahead log, whose owner is killed, and the next owner recovers it."""

import asyncio
import time

from cordwood.client import connect
from cordwood.errors import CordwoodError
from cordwood.wal import TableEntries

from .stage import Facts, Stage, url_of
from .wal_writer import NAME, REGION, TABLES, payload

TITLE = "A write-ahead log: a write, a kill and a recovery"


async def run(stage: Stage) -> Facts:
    url = url_of(stage.folder / "wal")
    stage.say(
        f"A region is one log that many tables share. Another process opens region {REGION}, and {TABLES} tables write"
        " to it, each after its last ack; at a random moment it is killed."
    )
    stage.show(f'async with cw.wal("{NAME}").region({REGION}) as region:')
    stage.show("    await region.write(table, payloads)")
    lines, pid = await stage.run_until_killed("-m", f"{__package__}.wal_writer", url)
    acked = {int(table): int(last) for table, last in map(bytes.split, lines)}
    if not acked:
        raise CordwoodError(f"process {pid} ended before its first ack")
    told = sum(acked.values())
    stage.say(f"kill -9 {pid}: until then it had told of {told:,} durable entries of {len(acked)} tables.")
    found: dict[int, int] = dict.fromkeys(range(TABLES), 0)

    async def apply(table: int, entries: TableEntries) -> None:
        wanted = [payload(table, sequence) for sequence in entries.sequences]
        if entries.sequences[0] != found[table] + 1 or list(entries.payloads) != wanted:
            raise CordwoodError(f"table {table} differs from the writes, from its entry {entries.sequences[0]} on")
        found[table] = entries.sequences[-1]

    stage.show("report = await region.recover(apply)")
    async with connect(url) as cw:
        began = time.perf_counter()
        async with cw.wal(NAME).region(REGION) as region:
            open_ms = (time.perf_counter() - began) * 1000
            began = time.perf_counter()
            report = await region.recover(apply)
            recover_ms = (time.perf_counter() - began) * 1000
            for error in report.failed.values():
                raise error
            lost = sum(max(0, last - found[table]) for table, last in acked.items())
            if lost:
                raise CordwoodError(f"after kill -9, {lost} of {told} acked entries are missing")
            stage.say(
                f"Opened in {open_ms:.0f} ms; one scan gave every table its entries, in their order, in"
                f" {recover_ms:.0f} ms: {report.applied:,} entries, and not one of the acked ones is missing."
            )
            before = region.stats().bytes
            stage.show("await region.mark_deleted(table, through=last); await region.clean()")
            marks = (region.mark_deleted(table, through=last) for table, last in found.items() if last)
            await asyncio.gather(*marks)
            await region.clean()
            after = region.stats().bytes
            following = await region.write(0, [b"and so on"])
    stage.say(
        f"A table marks entries that it has stored elsewhere; the cleaner trims entries that no table needs:"
        f" of {before / 2**20:.1f} MiB that had to be kept, {after:,} bytes have to be now. Numbers only grow: table 0"
        f" continues with {following[0]}."
    )
    return {
        "tables": len(acked),
        "acked_before": told,
        "recovered": report.applied,
        "acked_lost": lost,
        "open_ms": round(open_ms, 2),
        "recover_ms": round(recover_ms, 2),
        "bytes_before": before,
        "bytes_after": after,
    }
