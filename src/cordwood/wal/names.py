"""What a write-ahead log may be called, and the ids of its regions and tables."""

from typing import Final

from cordwood.errors import InvalidInput
from cordwood.log.topics import checked_topic_name

ID_MAX: Final = 2**63 - 1
NAME_LENGTH_MAX: Final = 222
"""What a topic's name leaves: 249 less `_region_` and the 19 digits of the largest id."""


def checked_wal_name(name: str) -> str:
    checked_topic_name(name)
    if len(name) > NAME_LENGTH_MAX:
        raise InvalidInput(f"the name of a write-ahead log has {len(name)} characters; at most {NAME_LENGTH_MAX}")
    return name


def checked_id(kind: str, number: int, largest: int = ID_MAX) -> int:
    """`kind` is `region` or `table`."""
    if type(number) is not int:
        raise TypeError(f"the id of a {kind} is an int, not {type(number).__name__}")
    if not 0 <= number <= largest:
        raise InvalidInput(f"{kind} {number}: ids are from 0 to {largest}", outcome="not_written")
    return number
