"""A process that appends, deletes and purges, and replicates meanwhile, until it is killed; it prints each ack.

python -m tests.support.journal.appending_process URL SEED
"""

import asyncio
import random
import sys
from itertools import count

import cordwood
from cordwood import Event, Journal

KEYS = [f"key-{number}" for number in range(6)]


async def main(url: str, seed: str) -> None:
    async with cordwood.connect(url) as cw:
        journal = cw.journal("orders", partitions=2)
        await asyncio.gather(*(work(journal, key, random.Random(f"{seed}-{key}")) for key in KEYS))


async def work(journal: Journal, key: str, chance: random.Random) -> None:
    """The only writer of its key: the lines say what it began and what was acked."""
    seq_nr = await journal.pointer(key) or 0
    for number in count():
        if chance.random() < 0.05 and seq_nr > 3:
            through = seq_nr - chance.randint(0, 3)
            print(f"deleting {key} {through}", flush=True)
            await journal.delete(key, through=through)
            print(f"deleted {key} {through}", flush=True)
        elif chance.random() < 0.02:
            print(f"purging {key} 0", flush=True)
            await journal.purge(key)
            print(f"purged {key} 0", flush=True)
            seq_nr = 0
        else:
            done = await journal.append(key, [Event.text(f"{key} {number}") for _ in range(chance.randint(1, 3))])
            seq_nr = done.seq_nrs[-1]
            print(f"appended {key} {seq_nr} {number}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
