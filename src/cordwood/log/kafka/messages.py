"""From the client's messages to a stored batch: C loops over the messages, no Python for each."""

from collections.abc import Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from confluent_kafka import Message

from cordwood.records import HeaderColumn, StoredBatch

_time_of = itemgetter(1)


class Rows:
    """The records of messages that are no errors, in the order of their offsets: what becomes one batch."""

    def __init__(self) -> None:
        self._offsets: list[Sequence[int]] = []
        self._values: list[Any] = []
        self._keys: list[Any] = []
        self._headers: list[Any] = []
        self._timestamps: list[int] = []

    def __len__(self) -> int:
        return len(self._values)

    def add(self, messages: list[Any]) -> Sequence[int]:
        """Take the records out of some messages, at least one; their offsets, as a range where none is missing."""
        first, last = messages[0].offset(), messages[-1].offset()
        dense = last - first == len(messages) - 1
        offsets = range(first, last + 1) if dense else list(map(Message.offset, messages))
        self._offsets.append(offsets)  # type: ignore[arg-type]  # all have one
        self._values.extend(map(Message.value, messages))
        self._keys.extend(map(Message.key, messages))
        self._headers.extend(map(Message.headers, messages))
        self._timestamps.extend(map(_time_of, map(Message.timestamp, messages)))
        return self._offsets[-1]

    def batch(self) -> StoredBatch:
        """Gives the rows away."""
        first, last = self._offsets[0][0], self._offsets[-1][-1]
        dense = last - first == len(self) - 1
        headers = HeaderColumn.of([pairs or () for pairs in self._headers]) if any(self._headers) else None
        return StoredBatch.from_rows(
            range(first, last + 1) if dense else list(chain.from_iterable(self._offsets)),
            self._values,
            keys=self._keys,
            headers=headers,
            timestamps=self._timestamps,
        )
