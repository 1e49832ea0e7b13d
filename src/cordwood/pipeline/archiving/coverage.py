"""Which run of an archive has which offsets, each offset once. No I/O."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .manifest import Manifest


@dataclass(frozen=True)
class Piece:
    """The offsets [start, stop) of a partition that are read from one run."""

    run: str
    partition: int
    start: int
    stop: int


def pieces(manifests: Iterable[Manifest]) -> list[Piece]:
    """Every archived offset in one piece: of runs that overlap, the one that was complete first has it.

    Two archives of one topic at the same time overlap; both are right.
    """
    found: list[Piece] = []
    for manifest in sorted(manifests, key=lambda manifest: (manifest.created_ms, manifest.run)):
        for each in manifest.ranges:
            known = [(piece.start, piece.stop) for piece in found if piece.partition == each.partition]
            found += [
                Piece(manifest.run, each.partition, start, stop)
                for start, stop in missing(known, each.start, each.stop)
            ]
    return found


def missing(known: Sequence[tuple[int, int]], start: int, stop: int) -> list[tuple[int, int]]:
    """The parts of [start, stop) that are in no known range.

    >>> missing([(0, 5), (7, 9)], 3, 12)
    [(5, 7), (9, 12)]
    """
    found: list[tuple[int, int]] = []
    for first, last in sorted(known):
        if last <= start:
            continue
        if first >= stop:
            break
        if first > start:
            found.append((start, first))
        start = last
    if start < stop:
        found.append((start, stop))
    return found


def covered_from(known: Sequence[tuple[int, int]], start: int) -> int:
    """How far every offset from `start` on is in a known range.

    >>> covered_from([(5, 7), (0, 5), (9, 12)], 2)
    7
    """
    for first, last in sorted(known):
        if first <= start < last:
            start = last
    return start


def ranges_of(all_pieces: Iterable[Piece], partition: int) -> list[tuple[int, int]]:
    """The ranges of one partition."""
    return [(piece.start, piece.stop) for piece in all_pieces if piece.partition == partition]
