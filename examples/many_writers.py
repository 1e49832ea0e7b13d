"""Many tasks and many threads append to one topic, each waiting for its own acks; the syncs are shared.

python examples/many_writers.py [FOLDER]
"""

import asyncio
import sys
import threading
import time

import cordwood
from cordwood import Batch

TASKS = 100
THREADS = 4
APPENDS = 50
PARTITIONS = 4


async def write(cw: cordwood.Client, task: int) -> None:
    for number in range(APPENDS):
        # The key decides the partition, so the records of one task are in one log, in order.
        await cw.append("work", Batch.of([b"%d" % number], keys=[b"task %d" % task]))


def write_blocking(folder: str, thread: int) -> None:
    with cordwood.sync.connect(f"file:{folder}") as cw:
        for number in range(APPENDS):
            cw.append("work", Batch.of([b"%d" % number], keys=[b"thread %d" % thread]))


async def main(folder: str) -> None:
    async with cordwood.connect(f"file:{folder}") as cw:
        await cw.create_topic("work", partitions=PARTITIONS, exist_ok=True)
        logs = [cw.log("work", partition) for partition in range(PARTITIONS)]
        ends = [(await log.bounds())[1] for log in logs]  # a second run reads its own records alone
        began = time.perf_counter()
        # The connections of the threads share the engine of this one.
        threads = [threading.Thread(target=write_blocking, args=(folder, n)) for n in range(THREADS)]
        for thread in threads:
            thread.start()
        await asyncio.gather(*(write(cw, task) for task in range(TASKS)))
        for thread in threads:
            await asyncio.to_thread(thread.join)
        seconds = time.perf_counter() - began

        numbers: dict[bytes | None, list[int]] = {}
        for log, end in zip(logs, ends, strict=True):
            async for batch in log.read(end):
                for record in batch:
                    numbers.setdefault(record.key, []).append(int(record.value or b"-1"))
        in_order = sum(found == list(range(APPENDS)) for found in numbers.values())
        print(f"{len(numbers)} writers, {in_order} of them complete and in order")
        print(f"{sum(map(len, numbers.values())) / seconds:,.0f} durable appends a second", file=sys.stderr)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "./example-data"))
