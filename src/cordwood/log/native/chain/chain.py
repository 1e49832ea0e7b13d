"""The plogs that make up a log, in order."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from cordwood.log.native.plog import PlogId


@dataclass(frozen=True, slots=True)
class Link:
    """One plog of a chain. If it is sealed, all fields are known; if open (`end` is None), only its beginning."""

    id: PlogId
    first_offset: int
    end: int | None = None
    next_offset: int = 0
    max_timestamp: int = -1

    def sealed(self, end: int, next_offset: int, max_timestamp: int) -> "Link":
        return replace(self, end=end, next_offset=next_offset, max_timestamp=max_timestamp)


class Chain:
    """Links in offset order, never changed: a new chain replaces it, so that readers keep theirs."""

    __slots__ = ("_firsts", "links")

    def __init__(self, links: Iterable[Link] = ()) -> None:
        self.links = tuple(links)
        self._firsts = [link.first_offset for link in self.links]

    def __len__(self) -> int:
        return len(self.links)

    def __iter__(self) -> Iterator[Link]:
        return iter(self.links)

    @property
    def last(self) -> Link | None:
        return self.links[-1] if self.links else None

    def index_of(self, offset: int) -> int:
        """The place of the plog that holds `offset`, or would."""
        return max(0, bisect_right(self._firsts, offset) - 1)

    def place_of(self, id: PlogId) -> int:
        """The place of this plog, or -1."""
        return next((place for place, link in enumerate(self.links) if link.id == id), -1)

    def with_link(self, link: Link) -> "Chain":
        return Chain((*self.links, link))

    def with_last(self, link: Link) -> "Chain":
        return Chain((*self.links[:-1], link))

    def without(self, ids: Iterable[PlogId]) -> "Chain":
        gone = set(ids)
        return Chain(link for link in self.links if link.id not in gone)

    def droppable(self, before: int) -> list[Link]:
        """The sealed plogs of which every record is below `before`.

        An empty plog that begins at `before` stays. If it were deleted before the metadata record that, it would look
        like a plog whose records are lost (R7).
        """
        dropped = []
        for link in self.links:
            if link.end is None or link.next_offset > before or link.first_offset >= before:
                break
            dropped.append(link)
        return dropped
