"""Append, read back, trim: the whole of a log in one go.

python examples/quickstart.py [FOLDER]
"""

import asyncio
import sys
from datetime import UTC, datetime, timedelta

import cordwood
from cordwood import Batch


async def main(folder: str) -> None:
    async with cordwood.connect(f"file:{folder}") as cw:
        await cw.create_topic("readings", exist_ok=True)
        log = cw.log("readings")

        # A record's time is a whole millisecond, the one in which it is written: that may have begun before now.
        began = datetime.now(UTC) - timedelta(milliseconds=1)
        offsets = await log.append(Batch.of([b"20.5", b"21.0", None], keys=[b"kitchen", b"hall", b"attic"]))
        print(f"on the disk, as offsets {offsets[0]} to {offsets[-1]}")

        # From a time on: the log finds the place by what its files say of themselves.
        async with log.read(start=await log.offset_at(began)) as reader:
            async for batch in reader:
                for record in batch:
                    value = "no value" if record.value is None else record.value.decode()
                    print(f"{record.offset}  {(record.key or b'').decode()}  {value}")

        await log.trim(before=offsets[-1])
        start, stop = await log.bounds()
        print(f"{stop - start} kept after the trim")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "./example-data"))
