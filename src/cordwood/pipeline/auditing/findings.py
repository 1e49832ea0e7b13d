"""What an audit can find: each kind with its severity, and whether a rewrite of the key from its history ends it."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from pyspark.sql.types import (
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

ERROR, WARNING, INFO, UNKNOWN = "error", "warning", "info", "unknown"

KINDS: dict[str, tuple[str, bool]] = {
    "missing event": (ERROR, True),
    "extra event": (ERROR, True),
    "different event": (ERROR, True),
    "gap": (WARNING, False),
    "duplicate event": (WARNING, True),
    "orphan event": (WARNING, True),
    "event of another life": (WARNING, True),
    "head row without events": (ERROR, True),
    "missing journal": (ERROR, True),
    "extra journal": (ERROR, True),
    "different head row": (ERROR, True),
    "stored loser": (ERROR, True),
    "row without a pointer": (ERROR, False),
    "missing dead letter": (ERROR, False),
    "extra dead letter": (WARNING, False),
    "closed key": (ERROR, False),
    "skipped record": (INFO, False),
    "lost range": (WARNING, False),
    "lost records": (ERROR, False),
    "pointer beyond the end": (ERROR, False),
    "unknown history": (UNKNOWN, False),
    "changed meanwhile": (UNKNOWN, False),
    # Of regions.
    "record that cannot be decoded": (ERROR, False),
    "missing entry": (ERROR, False),
    "repeated entry": (ERROR, False),
    "wrong mapping": (ERROR, False),
    "refused record": (INFO, False),
    "holds the region back": (INFO, False),
}
"""By what was found: the severity, and whether `fix=True` can end it where the whole history is there."""

SCHEMA = StructType(
    [
        StructField("severity", StringType()),
        StructField("what", StringType()),
        StructField(
            "place",
            StructType(
                [
                    StructField("topic", StringType()),
                    StructField("partition", IntegerType()),
                    StructField("offset", LongType()),
                ]
            ),
        ),
        StructField("key", StringType()),
        StructField("numbers", StringType()),
        StructField("fixable", BooleanType()),
    ]
)


class Finding(NamedTuple):
    """One finding, without what follows from its kind."""

    what: str
    partition: int
    offset: int | None = None
    key: str | None = None
    numbers: str | None = None
    whole: bool = False
    """Whether the whole history of the key is there."""

    @property
    def last(self) -> int:
        """The highest number of it.

        >>> Finding("missing event", 0, numbers="1-3, 5").last
        5
        """
        return int(re.split(r"\D+", self.numbers)[-1]) if self.numbers else 0

    def row(self, topic: str) -> tuple[object, ...]:
        """In the columns of SCHEMA."""
        severity, fixable = KINDS[self.what]
        place = (topic, self.partition, self.offset)
        return severity, self.what, place, self.key, self.numbers, fixable and self.whole


def in_words(numbers: Iterable[int]) -> str:
    """Numbers as ranges.

    >>> in_words([5, 1, 2, 3])
    '1-3, 5'
    """
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in found)
