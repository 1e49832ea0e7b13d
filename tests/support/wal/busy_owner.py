"""A program that writes to many tables of a region until it is killed, and prints what was acked.

ack <table> <first sequence> <digest of each payload>…
"""

import asyncio
import random
import sys

import cordwood
from cordwood import Region
from tests.support.crash.traced_values import digest, made_value, say


async def write_for_ever(region: Region, table: int, life: str, chance: random.Random) -> None:
    number = 0
    while True:
        count = chance.randint(1, 10)
        size = chance.choice((30, 300, 2000))
        payloads = [made_value(f"{life}.{table}.{number}", place, count, size) for place in range(count)]
        numbers = await region.write(table, payloads)
        say("ack", table, numbers.start, *map(digest, payloads))
        number += 1


async def main(url: str, life: str, codec: str) -> None:
    chance = random.Random(life)
    async with cordwood.connect(url) as cw, cw.wal("metrics", codec=codec).region(7) as region:
        say("ready")
        async with asyncio.TaskGroup() as tasks:
            for table in range(12):
                tasks.create_task(write_for_ever(region, table, life, chance))


asyncio.run(main(*sys.argv[1:]))
