"""What a topic may be called, and may be made of: the same rules on every engine."""

import re
from datetime import timedelta

from cordwood.errors import InvalidInput

from .arguments import whole_number

PARTITIONS_MAX = 10_000

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


def checked_topic_name(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a topic's name is a str, not {type(name).__name__}")
    if not _NAME.fullmatch(name) or name in {".", ".."}:
        shown = name if len(name) <= 60 else f"{name[:60]}… ({len(name)} characters)"
        raise InvalidInput(f"{shown!r} cannot name a topic: 1 to 249 of A-Z a-z 0-9 . _ -, and neither '.' nor '..'")
    return name


def checked_partitions(partitions: int) -> int:
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
    return retention


def checked_retention_bytes(retention_bytes: int | None) -> int | None:
    if retention_bytes is None:
        return None
    retention_bytes = whole_number("retention_bytes", retention_bytes)
    # The upper limit is what a column of the coordinator holds.
    if not 0 < retention_bytes < 1 << 63:
        raise InvalidInput(
            f"retention_bytes is {retention_bytes}: it must be from 1 to {(1 << 63) - 1}, or None for no limit"
        )
    return retention_bytes
