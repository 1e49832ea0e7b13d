"""Reading to Arrow, opening, and memory."""

import asyncio
import os
import shutil
import subprocess
import sys
from functools import partial
from mmap import mmap
from pathlib import Path

import cordwood
from bench.measure import Row, median, ratio, rss_bytes, timed, timed_async
from cordwood import Batch

_ROUNDS = 9


def to_arrow(folder: Path) -> list[Row]:
    """CRC-checked reads to Arrow, against `readinto` of the same files."""
    asyncio.run(_fill(folder / "bulk", 512))
    asyncio.run(_fill_concurrently(folder / "small", 100_000))
    rows = []
    for name, what, asked in (
        ("bulk", "read to Arrow (CRC checked) vs. readinto of the files", 0.5),
        ("small", "the same of a log written by 256 concurrent 1-record appends of 1 KiB", 0.3),
    ):
        files = sorted((folder / name / "plogs").glob("*.plog"))
        size = sum(file.stat().st_size for file in files)
        peers: list[float] = []
        ours: list[float] = []
        for _ in range(_ROUNDS):
            peers.append(timed(partial(_readinto, files)))
            ours.append(asyncio.run(_read(folder / name)))
        gib = size / 2**30
        rate, peer = f"{gib / median(ours):.2f} GiB/s", f"{gib / median(peers):.2f} GiB/s"
        rows.append(Row(what, rate, peer, ratio(peers, ours), asked))
    return rows


def opening(folder: Path) -> Row:
    """Open, ask for the bounds, append one record: with a log, and with one of 100 times the size."""
    asyncio.run(_fill(folder / "x1", 20))
    asyncio.run(_fill(folder / "x100", 2000))
    small = median([asyncio.run(_open(folder / "x1")) for _ in range(_ROUNDS)])
    large = median([asyncio.run(_open(folder / "x100")) for _ in range(_ROUNDS)])
    what = "opening with 100 times the data (2 GiB vs. 20 MiB)"
    return Row(what, f"{large * 1000:.1f} ms", f"{small * 1000:.1f} ms", large / small, 1.5, at_most=True)


def memory(folder: Path) -> Row:
    """Resident memory while 4 GiB are read, over the start, in a process of its own."""
    asyncio.run(_fill(folder / "big", 4200))
    code = f"from bench.read import print_growth; print_growth({str(folder / 'big')!r})"
    growth = int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
    mib = growth / 2**20
    return Row("memory of a 4 GiB read, over start", f"{mib:.0f} MiB", "200 MiB", mib, 200, at_most=True)


def print_growth(folder: str) -> None:
    """Read everything to Arrow, and print by how many bytes the process grew at most."""

    async def read() -> int:
        async with cordwood.connect(Path(folder), read_only=True) as cw:
            highest = start = rss_bytes()
            async for batch in cw.log("bench").read():
                batch.to_arrow()
                highest = max(highest, rss_bytes())
            return highest - start

    import pyarrow  # noqa: F401  its own size is not the read's

    print(asyncio.run(read()))


async def _fill(folder: Path, batches: int) -> None:
    records = [os.urandom(1024) for _ in range(1000)]
    async with cordwood.connect(folder) as cw:
        await cw.create_topic("bench")
        log = cw.log("bench")

        async def writer(count: int) -> None:
            for _ in range(count):
                await log.append(Batch.of(records))

        await asyncio.gather(*(writer(batches // 4) for _ in range(4)))


async def _fill_concurrently(folder: Path, appends: int) -> None:
    record = os.urandom(1024)
    async with cordwood.connect(folder) as cw:
        await cw.create_topic("bench")
        log = cw.log("bench")

        async def writer() -> None:
            for _ in range(appends // 256):
                await log.append(Batch.of([record]))

        await asyncio.gather(*(writer() for _ in range(256)))


async def _read(folder: Path) -> float:
    async with cordwood.connect(folder, read_only=True) as cw:

        async def everything() -> None:
            async for batch in cw.log("bench").read():
                batch.to_arrow()

        return await timed_async(everything)


def _readinto(files: list[Path]) -> None:
    # Aligned to a page: where in one a block of malloc's begins decides whether this takes once or twice the time.
    buffer = mmap(-1, 4 << 20)
    for path in files:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


async def _open(folder: Path) -> float:
    async def work() -> None:
        async with cordwood.connect(folder) as cw:
            log = cw.log("bench")
            await log.bounds()
            await log.append(Batch.of([b"x"]))

    return await timed_async(work)


def discard(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
