"""The effect of a power cut: choosers decide which of the unsynced changes survive it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, Protocol

SECTOR = 512


class PowerCut(BaseException):
    """The machine is off. Not an Exception, so that no error handler continues without power."""


class Chooser(Protocol):
    """Decides about every unsynced change, each for itself: this is the adversary of R2."""

    def keeps_name(self, change: str) -> bool:
        """Whether a change of names is on the disk; it reads like "create plogs/1" or "replace new old"."""
        ...

    def kept_parts(self, name: str, number: int, position: int, length: int) -> Iterable[range]:
        """The parts of a write that are on the disk, as ranges that count from its start.

        `number` counts the file's unsynced changes from 0, in the order in which they were made.
        """
        ...

    def size(self, name: str, sizes: Sequence[int]) -> int:
        """Which of the sizes the file has after the cut, as an index; the first is the synced one."""
        ...

    def torn_size(self, name: str, smallest: int, largest: int) -> int:
        """How far a write that extended the file has done so."""
        ...


@dataclass(frozen=True)
class Fixed:
    """Keeps all or nothing of each kind; the corners that chance seldom finds."""

    names: bool
    sizes: bool
    contents: bool

    def keeps_name(self, change: str) -> bool:
        return self.names

    def kept_parts(self, name: str, number: int, position: int, length: int) -> Iterable[range]:
        return (range(length),) if self.contents else ()

    def size(self, name: str, sizes: Sequence[int]) -> int:
        return len(sizes) - 1 if self.sizes else 0

    def torn_size(self, name: str, smallest: int, largest: int) -> int:
        return largest


NOTHING = Fixed(names=False, sizes=False, contents=False)
EVERYTHING = Fixed(names=True, sizes=True, contents=True)


class Chance:
    """Decides by chance; the same for the same seed and the same history of the disk."""

    def __init__(self, random: Random, *, torn_sectors: bool = True) -> None:
        self._random = random
        self._torn_sectors = torn_sectors
        # Each cut leans to one side, by its own degree. With even odds, a cut among many changes would never come near
        # to losing or keeping most of them.
        self._names_kept = random.choice((0.1, 0.5, 0.9))
        self._writes_kept = random.choice((0.05, 0.35, 0.65, 0.95))
        self._writes_torn = random.choice((0.1, 0.5))

    def keeps_name(self, change: str) -> bool:
        return self._random.random() < self._names_kept

    def kept_parts(self, name: str, number: int, position: int, length: int) -> Iterable[range]:
        if self._random.random() >= self._writes_torn:
            return (range(length),) if self._random.random() < self._writes_kept else ()
        parts = [part for part in _sectors(position, length) if self._random.random() < self._writes_kept]
        if parts and self._torn_sectors and self._random.random() < 0.3:
            torn = self._random.randrange(len(parts))
            parts[torn] = self._tear(parts[torn])
        return parts

    def size(self, name: str, sizes: Sequence[int]) -> int:
        return self._random.choice((0, len(sizes) - 1, self._random.randrange(len(sizes))))

    def torn_size(self, name: str, smallest: int, largest: int) -> int:
        if self._random.random() >= self._writes_torn:
            return largest
        size = self._random.randint(smallest, largest)
        if self._torn_sectors:
            return size
        return max(smallest, size - size % SECTOR)

    def _tear(self, part: range) -> range:
        cut = self._random.randint(part.start, part.stop)
        return range(part.start, cut) if self._random.random() < 0.5 else range(cut, part.stop)


def _sectors(position: int, length: int) -> list[range]:
    """A write cut at the sectors of the file, which seldom are the sectors of the write."""
    starts = [0, *range(SECTOR - position % SECTOR, length, SECTOR)]
    return [range(start, stop) for start, stop in zip(starts, [*starts[1:], length], strict=True)]


def chooser(choose: Random | Chooser | Literal["none", "all"]) -> Chooser:
    if choose == "none":
        return NOTHING
    if choose == "all":
        return EVERYTHING
    if isinstance(choose, Random):
        return Chance(choose)
    if isinstance(choose, str):
        raise ValueError(f'a power cut keeps "none" or "all", or asks a chooser: {choose!r}')
    return choose
