"""A batch that was read from one engine is appended to the other as it is: every column, also of a slice."""

from pathlib import Path

import cordwood
from cordwood import Batch, Client, Log, Record
from cordwood.records import StoredBatch

COUNT = 3000
EVERYTHING = Batch.of(
    [None if number % 7 == 0 else b"value %d" % number * (number % 50) for number in range(COUNT)],
    keys=[None if number % 5 == 0 else b"key %d" % number for number in range(COUNT)],
    headers=[[("name", b"x"), ("null", None)][: number % 3] for number in range(COUNT)],
    timestamps=[1_700_000_000_000 + number for number in range(COUNT)],
)


async def test_a_log_is_copied_from_a_folder_to_kafka_and_back(tmp_path: Path, cw: Client, log: Log) -> None:
    async with cordwood.connect(tmp_path) as folder:
        for name in ("first", "second"):
            await folder.create_topic(name)
        first, second = folder.log("first"), folder.log("second")
        await first.append(EVERYTHING)
        (whole,) = await batches_of(first)
        await log.append(whole)
        await log.append(whole[10:20])
        for batch in await batches_of(log):
            await second.append(batch)
        await second.append(batch[-5:])
        written = [*EVERYTHING, *EVERYTHING[10:20]]
        assert await records_of(log) == written
        assert await records_of(second) == written + written[-5:]


async def batches_of(log: Log) -> list[StoredBatch]:
    async with log.read() as reader:
        return [batch async for batch in reader]


async def records_of(log: Log) -> list[Record]:
    return [Record(*record[:4]) for batch in await batches_of(log) for record in batch]
