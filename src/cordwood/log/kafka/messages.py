"""From the client's messages to a stored batch: C loops over the messages, no Python code for each."""

from collections.abc import Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message

from cordwood.records import HeaderColumn, StoredBatch

_kind_of, _time_of = itemgetter(0), itemgetter(1)


class Rows:
    """The records of messages that are no errors, in offset order; they become one batch.

    All of their timestamps are of one kind.
    """

    def __init__(self) -> None:
        self._kind: int | None = None
        self._offsets: list[Sequence[int]] = []
        self._values: list[Any] = []
        self._keys: list[Any] = []
        self._headers: list[Any] = []
        self._timestamps: list[int] = []

    def __len__(self) -> int:
        return len(self._values)

    @property
    def broker_time(self) -> bool:
        """Whether the timestamps are the broker's (LogAppendTime), not the writer's."""
        return self._kind == TIMESTAMP_LOG_APPEND_TIME

    def add(self, messages: list[Any]) -> Sequence[int]:
        """Add the records of these messages, at least one, up to the first with a timestamp of another kind.

        Returns the offsets of the added records, as a range if none is missing.
        """
        times = list(map(Message.timestamp, messages))
        taken = self._of_one_kind(list(map(_kind_of, times)))
        if not taken:
            return ()
        if taken < len(messages):
            messages = messages[:taken]
        first, last = messages[0].offset(), messages[-1].offset()
        dense = last - first == len(messages) - 1
        offsets = range(first, last + 1) if dense else list(map(Message.offset, messages))
        self._offsets.append(offsets)  # type: ignore[arg-type]  # all have one
        self._values.extend(map(Message.value, messages))
        self._keys.extend(map(Message.key, messages))
        self._headers.extend(map(Message.headers, messages))
        self._timestamps.extend(map(_time_of, times[:taken]))
        return self._offsets[-1]

    def batch(self) -> StoredBatch:
        """Make the batch, which takes over the rows."""
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

    def _of_one_kind(self, kinds: list[int]) -> int:
        """How many of the first messages are of the rows' kind: all, unless the topic's setting was changed."""
        if self._kind is None:
            self._kind = kinds[0]
        if kinds.count(self._kind) == len(kinds):
            return len(kinds)
        return next(at for at, kind in enumerate(kinds) if kind != self._kind)
