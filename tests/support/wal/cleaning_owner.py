"""A program that writes, marks, drops and cleans a region until it is killed or fenced; at one point it may pause.

write <table> <payload>… | ack <table> <first sequence> <payload>…
delete <table> <through> | marked <table> <through> | dropped <table> <through> | ended <error>
"""

import asyncio
import os
import random
import signal
import sys
from typing import Any

import cordwood
from cordwood import Batch, Client, CordwoodError, Fenced, Log, Region
from cordwood.wal.formats.cordwood import snapshot, snapshot_policy
from cordwood.wal.formats.cordwood.meta_record import Marks, MetaOwner, SnapshotPart, decode_meta
from cordwood.wal.formats.entrywise.rfc import meta_writer as rfc_meta_writer
from tests.support.crash.traced_values import say

POINTS: dict[str, tuple[type, str]] = {
    "while it opens, before its record in the meta log": (MetaOwner, "before"),
    "while it opens, after its record in the meta log": (MetaOwner, "after"),
    "before a mark is sent": (Marks, "before"),
    "before a mark is acked": (Marks, "after"),
    "between two parts of a snapshot": (SnapshotPart, "after"),
    "between a snapshot and its trim": (Log, "trim"),
}
"""At the first record of this kind, or trim of the data log, and when."""


def pausing(cw: Client, kind: type, when: str) -> None:
    """Have the process stop itself there, once."""
    new_log = cw._engine.log
    left = [1]

    def stop() -> None:
        if left:
            left.clear()
            os.kill(os.getpid(), signal.SIGSTOP)

    def log(topic: str, partition: int, *, timeout: float) -> Log:
        made = new_log(topic, partition, timeout=timeout)
        append, trim = made.append, made.trim

        async def appending(batch: Batch, **named: Any) -> Any:
            here = isinstance(decode_meta(batch.values[0] or b"", 7, "here"), kind)
            if here and when == "before":
                stop()
            offsets = await append(batch, **named)
            if here and when == "after":
                stop()
            return offsets

        async def trimming(before: int, **named: Any) -> None:
            stop()
            await trim(before, **named)

        if topic == "metrics_meta_7" and when != "trim":
            made.append = appending  # type: ignore[method-assign]
        if topic == "metrics_data_7" and when == "trim":
            made.trim = trimming  # type: ignore[method-assign]
        return made

    cw._engine.log = log  # type: ignore[method-assign]


async def use(region: Region, table: int, chance: random.Random, *, drops: bool) -> None:
    last = 0
    for step in range(sys.maxsize):
        payloads = [f"{os.getpid()}.{table}.{step}.{n}" for n in range(chance.randint(1, 4))]
        say("write", table, *payloads)
        numbers = await region.write(table, [payload.encode() for payload in payloads])
        say("ack", table, numbers.start, *payloads)
        last = numbers[-1]
        if step % 3 == 2:
            through = last - chance.randint(0, 3)
            say("delete", table, through)
            if drops and table == 5 and step % 9 == 8:
                await region.drop_table(table)
                say("dropped", table, last)
            elif through > 0:
                await region.mark_deleted(table, through=through)
                say("marked", table, through)
        if step % 10 == table:
            await region.clean()


async def main(url: str, point: str, codec: str) -> None:
    rfc_meta_writer.NEEDLESS_MAX = 10  # type: ignore[misc]
    snapshot_policy.SNAPSHOT_WRITES = 40  # type: ignore[misc]
    snapshot.PART_BYTES_MAX = 200  # type: ignore[misc]
    snapshot.TABLES_PER_TURN = 1  # type: ignore[misc]
    async with cordwood.connect(url) as cw:
        if point in POINTS:
            pausing(cw, *POINTS[point])
        try:
            region = await cw.wal("metrics", codec=codec, clean_every=0.02).region(7)
            say("opened")
            chance = random.Random(point)
            # In the proposal's records a dropped table is one without logs: it does not go away.
            drops = codec == "cordwood"
            await asyncio.gather(*(use(region, table, chance, drops=drops) for table in range(6)))
        except CordwoodError as error:
            say("ended", type(error).__name__, *([] if isinstance(error, Fenced) else [error]))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
