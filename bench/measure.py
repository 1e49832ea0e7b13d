"""How things are timed, and what a row of the table is."""

import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One line of the table: the measured program, its baseline, and the wanted ratio."""

    what: str
    ours: str
    peer: str
    ratio: float
    asked: float
    at_most: bool = False

    @property
    def reached(self) -> bool:
        return self.ratio <= self.asked if self.at_most else self.ratio >= self.asked


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


async def timed_async(work: Callable[[], Awaitable[object]]) -> float:
    start = time.perf_counter()
    await work()
    return time.perf_counter() - start


def ratio(peers: list[float], ours: list[float]) -> float:
    """The median of what each round gave: a peer is measured right beside, so a machine that slows down slows both."""
    return median([peer / own for peer, own in zip(peers, ours, strict=True)])


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


@contextmanager
def preallocated(path: Path, size: int) -> Iterator[int]:
    """A file of zeros with its space reserved: what a bare writer would use."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.posix_fallocate(descriptor, 0, size)
        os.fsync(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)
        path.unlink()


def rss_bytes() -> int:
    """Resident memory of this process, now."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
