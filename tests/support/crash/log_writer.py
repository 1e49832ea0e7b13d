"""A program that appends to several logs until it is killed, and prints what was confirmed.

ack <topic> <partition> <first offset> <digest of each value>…
trim <topic> <partition> <before>
"""

import asyncio
import random
import sys

import cordwood
from cordwood import Batch, Log
from tests.support.crash.traced_values import TOPICS, digest, made_value, say


async def append_for_ever(
    log: Log, who: str, chance: random.Random, records_max: int, bytes_max: int, pause: float = 0
) -> None:
    number = 0
    while True:
        count = chance.randint(1, records_max)
        size = chance.randint(1, bytes_max)
        values = [made_value(f"{who}.{number}", place, count, size) for place in range(count)]
        offsets = await log.append(Batch.of(values))
        assert len(offsets) == count
        say("ack", log.topic, log.partition, offsets[0], *map(digest, values))
        number += 1
        await asyncio.sleep(pause)


async def trim_for_ever(logs: list[Log], chance: random.Random) -> None:
    while True:
        await asyncio.sleep(chance.uniform(0, 0.1))
        log = chance.choice(logs)
        start, end = await log.bounds()
        before = end if chance.random() < 0.1 else chance.randint(start, max(start, end - 50))
        await log.trim(before)
        say("trim", log.topic, log.partition, before)


async def main(url: str, life: str) -> None:
    chance = random.Random(life)
    async with cordwood.connect(url) as cw:
        for topic, partitions in TOPICS.items():
            await cw.create_topic(topic, partitions=partitions, exist_ok=True)
        say("ready")
        logs = [cw.log(topic, partition) for topic, partitions in TOPICS.items() for partition in range(partitions)]
        async with asyncio.TaskGroup() as tasks:
            for number, log in enumerate(logs):
                if log.topic == "large":
                    # Alone on its log: most of its batches are written in pieces.
                    tasks.create_task(append_for_ever(log, f"{life}.{number}.large", chance, 1000, 2000, 0.02))
                    continue
                for task in range(3):
                    tasks.create_task(append_for_ever(log, f"{life}.{number}.{task}", chance, 1, 300))
                tasks.create_task(append_for_ever(log, f"{life}.{number}.batch", chance, 40, 4000))
            tasks.create_task(trim_for_ever(logs, chance))


asyncio.run(main(*sys.argv[1:]))
