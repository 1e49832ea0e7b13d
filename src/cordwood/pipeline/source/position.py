"""The position of a stream, as Spark keeps it in the checkpoint and shows it in a query's progress.

The JSON of Spark's own Kafka source, `{"events": {"0": 23}}`, and, under names that no topic can have, two things more:

    {"events": {"0": 23, "1": 5}, "topic ids": {"events": "7"}, "began at": {"events": {"0": 20, …}, "topic ids": …}}

The topics' ids are there because a topic that was deleted and created again begins at 0, and must not pass for the old
one. The first position after the start also has the start itself: Spark does not store that, but asks for it again
after a crash, when the latest offset has moved.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cordwood.errors import InvalidInput

from .logs import LogName
from .options import BEGAN_AT, TOPIC_IDS


@dataclass(frozen=True)
class Position:
    """The next offset of each log, and the id of each topic."""

    offsets: Mapping[LogName, int]
    ids: Mapping[str, str]

    @staticmethod
    def of(json: Mapping[str, Any]) -> "Position":
        """Decode the result of `json()`.

        >>> Position.of({"events": {"0": 23}, "topic ids": {"events": "7"}}).offsets
        {LogName(topic='events', partition=0): 23}
        """
        try:
            ids = dict(json[TOPIC_IDS])
            offsets = {
                LogName(topic, int(partition)): int(offset)
                for topic in ids
                for partition, offset in json[topic].items()
            }
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidInput(
                f"the checkpoint holds {json!r}, which is no position in logs of cordwood's: a query that reads"
                " something else needs a checkpoint of its own"
            ) from error
        return Position(offsets, ids)

    @staticmethod
    def before(start: Mapping[str, Any], end: Mapping[str, Any]) -> "Position":
        """The start of a micro-batch that ends at `end`: the recorded one, else the one that Spark passes."""
        return Position.of(start if start == end else end.get(BEGAN_AT, start))

    def json(self) -> dict[str, Any]:
        """Equal positions have equal JSON, to the letter: Spark compares the text to detect new records."""
        by_topic: dict[str, Any] = {topic: {} for topic in sorted(self.ids)}
        for log, offset in sorted(self.offsets.items()):
            by_topic[log.topic][str(log.partition)] = offset
        return {**by_topic, TOPIC_IDS: dict(sorted(self.ids.items()))}
