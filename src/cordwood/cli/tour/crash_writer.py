"""The program that the crash chapter kills: it writes for ever, and prints each ack on stdout.

python -m cordwood.cli.tour.crash_writer URL
"""

import asyncio
import os
import sys
from collections.abc import Sequence

from cordwood.client import connect
from cordwood.log import Log
from cordwood.records import Batch

TOPIC = "crash"
WRITERS = 16
BATCH_RECORDS = 20


def values(writer: int, number: int) -> list[bytes]:
    """The values of batch `number` of a writer: an ack alone tells the reader which values must be there."""
    return [b"%d/%d/%d" % (writer, number, place) for place in range(BATCH_RECORDS)]


async def _write(log: Log, writer: int) -> None:
    number = 0
    while True:
        offsets: Sequence[int] = await log.append(Batch.of(values(writer, number)))
        # One write of less than a pipe's buffer: a line arrives whole, or not at all. A closed pipe ends the program.
        os.write(sys.stdout.fileno(), b"%d %d %d\n" % (offsets[0], writer, number))
        number += 1


async def _main(url: str) -> None:
    async with connect(url) as cw:
        await cw.create_topic(TOPIC)
        await asyncio.gather(*(_write(cw.log(TOPIC), writer) for writer in range(WRITERS)))


if __name__ == "__main__":
    try:
        asyncio.run(_main(sys.argv[1]))
    except (BrokenPipeError, KeyboardInterrupt):
        pass  # the tour is over
