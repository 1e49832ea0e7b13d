"""A program that follows a log beside the writer, or without one, and says what it sees.

saw <offset> <digest>
trimmed <start>
"""

import asyncio
import os
import sys

import cordwood
from cordwood import Trimmed
from tests.support.crash.traced_values import digest


async def main(url: str, topic: str, partition: str) -> None:
    next_offset = None
    async with cordwood.connect(url, read_only=True) as cw:
        log, id = cw.log(topic, int(partition)), (await cw.topic(topic)).id
        while True:
            try:
                async for batch in log.read(next_offset, follow="wait", topic_id=id):
                    seen = zip(batch.offsets, batch.values, strict=True)
                    os.write(1, "".join(f"saw {at} {digest(value or b'')}\n" for at, value in seen).encode())
                    next_offset = batch.offsets[-1] + 1
            except Trimmed as error:
                os.write(1, f"trimmed {error.start}\n".encode())
                next_offset = error.start


asyncio.run(main(*sys.argv[1:]))
