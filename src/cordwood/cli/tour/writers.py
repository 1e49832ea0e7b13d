"""Chapter: many writers share a sync."""

import asyncio
import time

from cordwood.log import Log
from cordwood.records import Batch

from .stage import TOPIC, Facts, Stage

TITLE = "256 writers at once"

_WRITERS = 256
_SECONDS = 1.0
_ALONE_SECONDS = 0.5


async def run(stage: Stage) -> Facts:
    log = stage.cw.log(TOPIC)
    alone = await _rate(log, 1, _ALONE_SECONDS)
    stage.say(f"One writer that waits for each ack gets {alone:,.0f} durable appends a second.")
    together = await _rate(log, _WRITERS, _SECONDS)
    stage.say(
        f"{_WRITERS} of them, each waiting for its own acks, get {together:,.0f} durable appends a second together,"
        f" {together / alone:.0f} times as many: all that waits shares the next write and its sync. No ack came early."
    )
    return {
        "writers": _WRITERS,
        "appends_per_second": round(together),
        "appends_per_second_alone": round(alone),
    }


async def _rate(log: Log, writers: int, seconds: float) -> float:
    """The acked appends per second, each of one record."""
    value = b"x" * 100
    began = time.perf_counter()
    end = began + seconds

    async def write() -> int:
        acked = 0
        while time.perf_counter() < end:
            await log.append(Batch.of([value]))
            acked += 1
        return acked

    acked = sum(await asyncio.gather(*(write() for _ in range(writers))))
    return acked / (time.perf_counter() - began)
