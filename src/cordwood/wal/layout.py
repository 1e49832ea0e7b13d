"""The topics and partitions of a region's two logs. No other module knows the names of its topics."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from cordwood.errors import InvalidInput
from cordwood.wal.names import ID_MAX

_CANONICAL = re.compile(r"0|[1-9][0-9]{0,18}")


class LogPlace(NamedTuple):
    topic: str
    partition: int


class RegionPlace(NamedTuple):
    """The logs of one region. The topic of its data log is made last, and marks that the region exists."""

    data: LogPlace
    meta: LogPlace
    partitions: int
    """How many partitions each of its topics has."""

    @property
    def shared(self) -> bool:
        """Whether one topic has both logs."""
        return self.data.topic == self.meta.topic


class Layout(NamedTuple):
    """How the regions of a write-ahead log are laid out.

    >>> LAYOUTS["two-topics"].place("metrics", 7)[:2]
    (LogPlace(topic='metrics_data_7', partition=0), LogPlace(topic='metrics_meta_7', partition=0))
    >>> LAYOUTS["one-topic"].place("metrics", 7)[:2]
    (LogPlace(topic='metrics_region_7', partition=0), LogPlace(topic='metrics_region_7', partition=1))
    """

    data: str
    """The part between the name and the region's id."""
    meta: str
    meta_partition: int

    def place(self, name: str, region: int) -> RegionPlace:
        return RegionPlace(
            LogPlace(f"{name}{self.data}{region}", 0),
            LogPlace(f"{name}{self.meta}{region}", self.meta_partition),
            self.meta_partition + 1,
        )

    def prefix(self, name: str) -> str:
        """With what the topics begin that `regions_of` looks at."""
        return name + self.data

    def regions_of(self, name: str, topics: list[str]) -> list[int]:
        """The regions whose data are in one of these.

        >>> names = ["metrics_data_7", "metrics_data_07", "metrics_data_1_data_2", "metrics_meta_9", "metrics_region_8"]
        >>> LAYOUTS["two-topics"].regions_of("metrics", names), LAYOUTS["one-topic"].regions_of("metrics", names)
        ([7], [8])
        """
        prefix = self.prefix(name)
        rest = [topic.removeprefix(prefix) for topic in topics if topic.startswith(prefix)]
        return sorted(int(digits) for digits in rest if _CANONICAL.fullmatch(digits) and int(digits) <= ID_MAX)


LAYOUTS: Final = {"two-topics": Layout("_data_", "_meta_", 0), "one-topic": Layout("_region_", "_region_", 1)}


def checked_layout(name: str) -> Layout:
    layout = LAYOUTS.get(name)
    if layout is None:
        raise InvalidInput(f"layout is {name!r}: it is one of {', '.join(map(repr, LAYOUTS))}")
    return layout


def region_of_topic(topic: str) -> RegionPlace | None:
    """The logs of the region that a topic of this name would belong to; None if no region has such a topic.

    >>> region_of_topic("metrics_meta_7").data.topic, region_of_topic("orders")
    ('metrics_data_7', None)
    """
    for layout in LAYOUTS.values():
        for part in {layout.data, layout.meta}:
            name, found, digits = topic.rpartition(part)
            if name and found and _CANONICAL.fullmatch(digits) and int(digits) <= ID_MAX:
                return layout.place(name, int(digits))
    return None
