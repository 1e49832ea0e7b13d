"""A program that writes batches until it is killed, and prints those that were acked.

python -m tests.support.store.store_writer URL
"""

import asyncio
import sys

from cordwood.store import KeyChanges, open_store
from cordwood.testing.store.under_test import batch, events, head

KEYS = 5
EVENTS = 20
"""Of each key, in each batch."""


def changes(turn: int) -> list[KeyChanges]:
    """The changes of one batch: its keys have the same numbers."""
    last = turn * EVENTS
    rows = events(last - EVENTS + 1, last, payload_txt="x" * 500)
    return [KeyChanges(f"order-{number}", head(last), rows) for number in range(KEYS)]


async def main(url: str) -> None:
    async with await open_store(url) as store:
        turn = (await store.pointers("orders")).get(0)
        print("open", turn, flush=True)
        while True:
            following = 1 if turn is None else turn + 1
            assert await store.write(batch("orders", turn, following, *changes(following)))
            print("acked", following, flush=True)
            turn = following


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
