"""The program that the chapter on journals kills: many orders get events, and it prints each ack on stdout.

python -m cordwood.cli.tour.journal_writer URL
"""

import asyncio
import os
import sys

from cordwood.client import connect
from cordwood.journal import Event, Journal

TOPIC = "orders"
ORDERS = 100
EVENTS = 3
"""Events of an append."""


def id_of(order: int) -> str:
    return f"order-{order}"


def payload(order: int, seq_nr: int) -> dict[str, int]:
    """The payload of an event: an ack alone tells the reader which payloads must be there."""
    return {"order": order, "line": seq_nr}


async def _write(journal: Journal, order: int) -> None:
    following = 1
    while True:
        events = [Event.json(payload(order, seq_nr)) for seq_nr in range(following, following + EVENTS)]
        done = await journal.append(id_of(order), events, expected=following - 1)
        following = done.seq_nrs.stop
        # One write of less than a pipe's buffer: a line arrives whole, or not at all. A closed pipe ends the program.
        os.write(sys.stdout.fileno(), b"%d %d\n" % (order, done.seq_nrs[-1]))


async def _main(url: str) -> None:
    async with connect(url) as cw, cw.journal(TOPIC) as journal:
        await asyncio.gather(*(_write(journal, order) for order in range(1, ORDERS + 1)))


if __name__ == "__main__":
    try:
        asyncio.run(_main(sys.argv[1]))
    except (BrokenPipeError, KeyboardInterrupt):
        pass  # the tour is over
