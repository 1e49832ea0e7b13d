"""What a write-ahead log may be called, the ids of its regions and tables, and the topics that they lie in."""

import re
from typing import Final

from cordwood.errors import InvalidInput
from cordwood.log.topics import checked_topic_name

ID_MAX: Final = 2**63 - 1
NAME_LENGTH_MAX: Final = 224
"""What a topic's name leaves: 249 less `_data_` and the 19 digits of the largest id."""

_DATA: Final = "_data_"
_META: Final = "_meta_"
_CANONICAL = re.compile(r"0|[1-9][0-9]{0,18}")


def checked_wal_name(name: str) -> str:
    checked_topic_name(name)
    if len(name) > NAME_LENGTH_MAX:
        raise InvalidInput(f"the name of a write-ahead log has {len(name)} characters; at most {NAME_LENGTH_MAX}")
    return name


def checked_id(kind: str, number: int) -> int:
    """`kind` is `region` or `table`."""
    if type(number) is not int:
        raise TypeError(f"the id of a {kind} is an int, not {type(number).__name__}")
    if not 0 <= number <= ID_MAX:
        raise InvalidInput(f"{kind} {number}: ids are from 0 to {ID_MAX}", outcome="not_written")
    return number


def data_topic(name: str, region: int) -> str:
    """
    >>> data_topic("metrics", 7)
    'metrics_data_7'
    """
    return f"{name}{_DATA}{region}"


def meta_topic(name: str, region: int) -> str:
    """
    >>> meta_topic("metrics", 7)
    'metrics_meta_7'
    """
    return f"{name}{_META}{region}"


def regions_of(name: str, topics: list[str]) -> list[int]:
    """The regions whose data topic is among these.

    >>> regions_of("metrics", ["metrics_data_7", "metrics_data_07", "metrics_data_1_data_2", "metrics_meta_9"])
    [7]
    """
    prefix = name + _DATA
    rest = [topic.removeprefix(prefix) for topic in topics if topic.startswith(prefix)]
    return sorted(int(digits) for digits in rest if _CANONICAL.fullmatch(digits) and int(digits) <= ID_MAX)
