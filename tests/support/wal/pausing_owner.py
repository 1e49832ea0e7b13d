"""A program that opens a region and writes to it until another owner fences it; at one point it pauses itself.

opened | ack <table> <first sequence> <payload>… | failed <outcome> <payload>… | ended <error, or ->
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import cordwood
from cordwood import Batch, Client, CordwoodError, Fenced, Log, Region
from tests.support.crash.traced_values import say

POINTS = {
    "while it opens, before its owner record": (1, "before"),
    "while it opens, after its owner record": (1, "after"),
    "before a write is sent": (3, "before"),
    "while a write is on its way": (3, "during"),
    "before a write is acked": (3, "after"),
    "between snapshot and trim": (0, "trim"),
    "never": (0, ""),
}
"""At which append to the data log, and when; the first one is the owner record."""

WRITES_MAX = 20
DELETED = 12
"""Through which number it marks its table before it cleans."""


def pausing(cw: Client, number: int, when: str) -> None:
    """Have the process stop itself at that append of a data log."""
    new_log = cw._engine.log

    def log(topic: str, partition: int, *, timeout: float) -> Log:
        made = new_log(topic, partition, timeout=timeout)
        append, trim = made.append, made.trim
        turns = iter(range(1, 1 << 60))

        async def stopping(batch: Batch, **named: Any) -> Sequence[int]:
            if next(turns) != number:
                return await append(batch, **named)
            if when == "before":
                stop()
            appending = asyncio.ensure_future(append(batch, **named))
            if when == "during":
                await asyncio.sleep(0)
                stop()
            offsets = await appending
            if when == "after":
                stop()
            return offsets

        async def stopping_trim(before: int, **named: Any) -> None:
            stop()
            await trim(before, **named)

        if topic == "metrics_data_7":
            made.append = stopping  # type: ignore[method-assign]
            if when == "trim":
                made.trim = stopping_trim  # type: ignore[method-assign]
        return made

    cw._engine.log = log  # type: ignore[method-assign]


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


async def write(region: Region, writer: int, writes: int) -> None:
    for step in range(writes):
        payload = f"{os.getpid()}.{writer}.{step}"
        try:
            numbers = await region.write(writer, [payload.encode()])
        except CordwoodError as error:
            say("failed", error.outcome, payload)
            if isinstance(error, Fenced):
                raise
        else:
            say("ack", writer, numbers.start, payload)


async def main(url: str, point: str, writers: int) -> None:
    async with cordwood.connect(url) as cw:
        pausing(cw, *POINTS[point])
        ended = "-"
        try:
            region = await cw.wal("metrics").region(7)
            say("opened")
            # Alone it writes a few; together they continue until they are fenced.
            writes = WRITES_MAX if writers == 1 else sys.maxsize
            results = await asyncio.gather(*(write(region, n, writes) for n in range(writers)), return_exceptions=True)
            ended = next((type(error).__name__ for error in results if error is not None), "-")
            if point == "between snapshot and trim":
                await region.mark_deleted(0, through=DELETED)
                await region.clean()
                say("cleaned")
                await write(region, 0, 1)
        except CordwoodError as error:
            ended = type(error).__name__
        say("ended", ended)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
