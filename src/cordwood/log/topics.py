"""The names and settings of topics: the same rules on every engine."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from enum import Enum
from typing import Any, Final

from cordwood.errors import InvalidInput

from .arguments import whole_number

PARTITIONS_MAX = 10_000

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_MILLISECOND = timedelta(milliseconds=1)


def checked_topic_name(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a topic's name is a str, not {type(name).__name__}")
    if not _NAME.fullmatch(name) or name in {".", ".."}:
        shown = name if len(name) <= 60 else f"{name[:60]}… ({len(name)} characters)"
        raise InvalidInput(f"{shown!r} cannot name a topic: 1 to 249 of A-Z a-z 0-9 . _ -, and neither '.' nor '..'")
    return name


def checked_partitions(partitions: int | None) -> int | None:
    if partitions is None:
        return None
    partitions = whole_number("partitions", partitions)
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise InvalidInput(f"{partitions} partitions: a topic has 1 to {PARTITIONS_MAX}")
    return partitions


def checked_replication(replication: int | None) -> int | None:
    if replication is None:
        return None
    replication = whole_number("replication", replication)
    if replication < 1:
        raise InvalidInput(f"replication is {replication}: it must be at least 1, or None for what the engine chooses")
    return replication


def checked_folder_replication(replication: int | None) -> int:
    if replication not in (None, 1):
        raise InvalidInput(f"replication is {replication}: a folder keeps 1 copy; leave it out, or use kafka://")
    return 1


def checked_partition(topic: str, partition: int) -> int:
    partition = whole_number("partition", partition)
    if partition < 0:
        raise InvalidInput(f"partition {partition} of {topic!r}: partitions are numbered from 0")
    return partition


def checked_retention(retention: timedelta | None) -> timedelta | None:
    if retention is not None and not isinstance(retention, timedelta):
        raise TypeError(f"retention is a timedelta or None, not {type(retention).__name__}")
    if retention is not None and retention <= timedelta(0):
        raise InvalidInput(f"retention is {retention}: it must be more than 0, or None to keep until trimmed")
    # Engines store whole milliseconds; with a finer value a topic would differ from its own settings.
    return None if retention is None else max(_MILLISECOND, retention // _MILLISECOND * _MILLISECOND)


def checked_retention_bytes(retention_bytes: int | None) -> int | None:
    if retention_bytes is None:
        return None
    retention_bytes = whole_number("retention_bytes", retention_bytes)
    # The upper limit is that of a column of the coordinator.
    if not 0 < retention_bytes < 1 << 63:
        raise InvalidInput(
            f"retention_bytes is {retention_bytes}: it must be from 1 to {(1 << 63) - 1}, or None for no limit"
        )
    return retention_bytes


def milliseconds_of(retention: timedelta | None) -> int | None:
    """A retention as engines store it.

    >>> milliseconds_of(timedelta(seconds=2))
    2000
    """
    return None if retention is None else retention // _MILLISECOND


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The settings that a caller names for a topic; the engine chooses those that are None.

    >>> TopicConfig(partitions=4, retention=timedelta(days=7)).partitions
    4
    """

    partitions: int | None = None
    """None means 1."""
    replication: int | None = None
    retention: timedelta | None = None
    """None keeps records until they are trimmed."""
    retention_bytes: int | None = None

    def __post_init__(self) -> None:
        _store_checked(self)


class LeftOut(Enum):
    """The default of an argument for which None has a meaning of its own."""

    LEFT_OUT = "left out"

    def __repr__(self) -> str:
        return "<left out>"


LEFT_OUT: Final = LeftOut.LEFT_OUT


@dataclass(frozen=True, slots=True)
class TopicChange:
    """The settings of a topic to change; omitted ones stay as they are, and None removes a limit.

    >>> TopicChange(retention_bytes=None).named()
    {'retention_bytes': None}
    """

    retention: timedelta | LeftOut | None = LEFT_OUT
    retention_bytes: int | LeftOut | None = LEFT_OUT

    def __post_init__(self) -> None:
        if not self.named():
            names = " or ".join(field.name for field in fields(self))
            raise InvalidInput(f"nothing to change was named: pass {names}; None removes the limit")
        _store_checked(self)

    def named(self) -> dict[str, Any]:
        """The settings that the caller names."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not LEFT_OUT}


_CHECKS: Final[Mapping[str, Callable[[Any], object]]] = {
    "partitions": checked_partitions,
    "replication": checked_replication,
    "retention": checked_retention,
    "retention_bytes": checked_retention_bytes,
}


def _store_checked(settings: TopicConfig | TopicChange) -> None:
    for field in fields(settings):
        value = getattr(settings, field.name)
        if value is not LEFT_OUT:
            object.__setattr__(settings, field.name, _CHECKS[field.name](value))
