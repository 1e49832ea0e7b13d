"""Chapter: reading it all back, as columns."""

import time

from cordwood.cli.output import size_of
from cordwood.errors import CordwoodError

from .stage import TOPIC, Facts, Stage

TITLE = "Reading: columns, checked and not copied"


async def run(stage: Stage) -> Facts:
    log = stage.cw.log(TOPIC)
    stage.show("async for batch in log.read():\n    batch.values, batch.keys, batch.timestamps, batch.offsets")
    records = batches = size = 0
    began = time.perf_counter()
    async with log.read() as reader:
        async for batch in reader:
            batches += 1
            records += len(batch)
            size += batch.values.data_bytes
    seconds = time.perf_counter() - began
    start, stop = await log.bounds()
    if (start, stop) != (0, records):
        raise CordwoodError(f"the log spans {start} to {stop}, but {records} records were read")
    stage.say(
        f"{records:,} records in {batches:,} batches, {size_of(size)} of values, in {seconds * 1000:.0f} ms:"
        f" {size_of(size / seconds)}/s and {records / seconds:,.0f} records a second, every checksum checked."
        " A batch's columns are views of the bytes from the disk."
    )
    return {
        "records": records,
        "batches": batches,
        "value_bytes": size,
        "read_bytes_per_second": round(size / seconds),
    }
