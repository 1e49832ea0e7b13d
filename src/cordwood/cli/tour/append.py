"""Chapter: one record, and many in a batch."""

import time
from statistics import median

from cordwood.cli.output import size_of
from cordwood.records import Batch

from .stage import TOPIC, Facts, Stage

TITLE = "Appending: back when it is on the disk"

_SINGLE = 50
_BATCHES = 24
_BATCH_RECORDS = 1000
_RECORD_BYTES = 1024


async def run(stage: Stage) -> Facts:
    log = stage.cw.log(TOPIC)
    stage.show('offsets = await log.append(Batch.of([b"hello"], keys=[b"greeting"]))')
    began = time.perf_counter()
    offsets = await log.append(Batch.of([b"hello"], keys=[b"greeting"]))
    first_ms = (time.perf_counter() - began) * 1000
    stage.say(f"Its offsets are {offsets!r}; it took {first_ms:.1f} ms, since the log's first file had to be made.")

    times = []
    for number in range(_SINGLE):
        began = time.perf_counter()
        await log.append(Batch.of([b"record %d" % number]))
        times.append(time.perf_counter() - began)
    single_ms = median(times) * 1000
    stage.say(
        f"Another {_SINGLE}, one after the other, took {single_ms:.2f} ms each (median): that is a sync of the disk."
    )

    batch = Batch.of([bytes([65 + number % 26]) * _RECORD_BYTES for number in range(_BATCH_RECORDS)])
    began = time.perf_counter()
    for _ in range(_BATCHES):
        await log.append(batch)
    seconds = time.perf_counter() - began
    size = _BATCHES * _BATCH_RECORDS * _RECORD_BYTES
    stage.say(
        f"A batch is all or nothing, and costs one sync: {_BATCHES} batches of {_BATCH_RECORDS:,} records of"
        f" {size_of(_RECORD_BYTES)} took {seconds * 1000:.0f} ms. That is {_BATCHES * _BATCH_RECORDS / seconds:,.0f}"
        f" durable records a second, {size_of(size / seconds)}/s."
    )
    return {
        "first_append_ms": round(first_ms, 3),
        "single_append_ms": round(single_ms, 3),
        "batch_records": _BATCH_RECORDS,
        "batch_bytes_per_second": round(size / seconds),
    }
