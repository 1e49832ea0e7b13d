"""Chapter: kill -9 of a writing process, and the records that survive."""

import time
from typing import NamedTuple

from cordwood.client import connect
from cordwood.errors import CordwoodError

from .crash_writer import BATCH_RECORDS, TOPIC, WRITERS, values
from .stage import Facts, Stage, url_of

TITLE = "kill -9, and the records that survive it"


class _Ack(NamedTuple):
    offset: int
    writer: int
    number: int


async def run(stage: Stage) -> Facts:
    url = url_of(stage.folder / "crash")
    stage.say(
        f"Another process writes to a folder of its own with {WRITERS} writers, and tells of each ack through a pipe."
        " At a random moment it is killed, without a chance to tidy up."
    )
    lines, pid = await stage.run_until_killed("-m", f"{__package__}.crash_writer", url)
    acks = [_Ack(*map(int, line.split())) for line in lines]
    if not acks:
        raise CordwoodError(f"process {pid} ended before its first ack")
    acked = len(acks) * BATCH_RECORDS
    stage.say(f"kill -9 {pid}: until then it had told of {len(acks):,} acks, {acked:,} records.")
    began = time.perf_counter()
    async with connect(url) as cw:
        _, found = await cw.log(TOPIC).bounds()
        reopen_ms = (time.perf_counter() - began) * 1000
        async with cw.log(TOPIC).read() as reader:
            records = [record.value async for batch in reader for record in batch]
    lost = _count_lost(acks, records)
    twice = len(records) - len(set(records))
    if lost or twice or found != len(records):
        raise CordwoodError(f"after kill -9, {lost} of {acked} acked records are missing, and {twice} are there twice")
    stage.say(
        f"Opened again in {reopen_ms:.0f} ms. Of {acked:,} acked records {acked - lost:,} are there, each at its offset"
        f" and none twice. In all {found:,} were found: {found - acked:,} had reached the disk before their ack was"
        " heard of."
    )
    return {
        "acked_before": acked,
        "found_after": found,
        "acked_lost": lost,
        "duplicates": twice,
        "reopen_ms": round(reopen_ms, 2),
    }


def _count_lost(acks: list[_Ack], records: list[bytes | None]) -> int:
    lost = 0
    for ack in acks:
        expected = values(ack.writer, ack.number)
        found = records[ack.offset : ack.offset + BATCH_RECORDS]
        lost += len(expected) if len(found) < len(expected) else sum(map(bytes.__ne__, expected, found))
    return lost
