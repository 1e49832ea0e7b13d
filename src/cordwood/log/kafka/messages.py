"""From the client's messages to a stored batch: C loops over the messages, no Python for each."""

from operator import itemgetter
from typing import Any

from confluent_kafka import Message

from cordwood.records import HeaderColumn, StoredBatch

_time_of = itemgetter(1)


def stored_batch(messages: list[Any]) -> StoredBatch:
    """The records of messages that are no errors, in the order of their offsets."""
    first, last = messages[0].offset(), messages[-1].offset()
    dense = last - first == len(messages) - 1
    keys: list[Any] | None = list(map(Message.key, messages))
    headers = list(map(Message.headers, messages))
    return StoredBatch.from_rows(
        range(first, last + 1) if dense else list(map(Message.offset, messages)),  # type: ignore[arg-type]  # all have one
        list(map(Message.value, messages)),
        keys=keys,
        headers=HeaderColumn.of([pairs or () for pairs in headers]) if any(headers) else None,  # type: ignore[misc]
        timestamps=map(_time_of, map(Message.timestamp, messages)),
    )
