"""The program that the chapter on the write-ahead log kills: many tables write, and it prints each ack on stdout.

python -m cordwood.cli.tour.wal_writer URL
"""

import asyncio
import os
import sys

from cordwood.client import connect
from cordwood.wal import Region

NAME = "metrics"
REGION = 7
TABLES = 200
LOGS = 10
"""Entries of a write."""


def payload(table: int, sequence: int) -> bytes:
    """The payload of an entry: an ack alone tells the reader which payloads must be there."""
    return b"log %d of table %d" % (sequence, table)


async def _write(region: Region, table: int) -> None:
    following = 1
    while True:
        payloads = [payload(table, sequence) for sequence in range(following, following + LOGS)]
        sequences = await region.write(table, payloads)
        following = sequences.stop
        # One write of less than a pipe's buffer: a line arrives whole, or not at all. A closed pipe ends the program.
        os.write(sys.stdout.fileno(), b"%d %d\n" % (table, sequences[-1]))


async def _main(url: str) -> None:
    async with connect(url) as cw, cw.wal(NAME).region(REGION) as region:
        await asyncio.gather(*(_write(region, table) for table in range(TABLES)))


if __name__ == "__main__":
    try:
        asyncio.run(_main(sys.argv[1]))
    except (BrokenPipeError, KeyboardInterrupt):
        pass  # the tour is over
