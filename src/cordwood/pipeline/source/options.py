"""The options of a read: those of Spark's own Kafka source, checked. Spark takes their names in any case.

Spark asks for the columns before it decides on a batch or a stream: `ReadOptions.of` checks the rules of both,
`for_batch` and `for_stream` the rest.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cordwood.errors import InvalidInput
from cordwood.log.topics import checked_topic_name
from cordwood.pipeline.options import by_name, checked_url
from cordwood.url import Url

EARLIEST = -2
LATEST = -1

ALLOWED = (
    "url",
    "topic",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "maxOffsetsPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    "includeHeaders",
)
TOPIC_IDS = "topic ids"
BEGAN_AT = "began at"
"""Keys of a stream's position that are no topics: a user may pass a position from a query's progress as it is."""

_TOPICS = ("topic", "subscribe", "subscribePattern")
_MADE_ABSOLUTE = ", or use pipeline.read(spark, url, topic), which makes it absolute"


@dataclass(frozen=True)
class Offsets:
    """One end of the range to read: the same for every log, or one for each; -2 is earliest, -1 latest."""

    everywhere: int | None = None
    by_log: Mapping[str, Mapping[int, int]] | None = None

    def numbers(self) -> set[int]:
        """All offsets in it."""
        if self.by_log is None:
            return {self.everywhere} if self.everywhere is not None else set()
        return {number for partitions in self.by_log.values() for number in partitions.values()}


@dataclass(frozen=True)
class ReadOptions:
    """The logs to read, their ranges, and the form of the rows."""

    url: Url
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    start: Offsets | None = None
    stop: Offsets | None = None
    start_ms: int | None = None
    """If given, it replaces `start`."""
    max_offsets: int | None = None
    min_partitions: int = 0
    fail_on_data_loss: bool = True
    include_headers: bool = False

    @staticmethod
    def of(options: Mapping[str, str]) -> "ReadOptions":
        """Check the options that Spark passes; `InvalidInput` names the wrong one and the allowed values.

        >>> ReadOptions.of({"url": "file:/srv/data", "TOPIC": "events", "minpartitions": "4"}).min_partitions
        4
        """
        given, kafka = by_name(options, ALLOWED, "reading a log")
        topics, pattern = _topics(given)
        return ReadOptions(
            url=checked_url(given, kafka, _MADE_ABSOLUTE),
            topics=topics,
            pattern=pattern,
            start=_offsets(given, "startingOffsets", {"earliest": EARLIEST, "latest": LATEST}),
            stop=_offsets(given, "endingOffsets", {"latest": LATEST}),
            start_ms=_number(given, "startingTimestamp", "milliseconds since 1970", 0),
            max_offsets=_number(given, "maxOffsetsPerTrigger", "a number of records", 1),
            min_partitions=_number(given, "minPartitions", "a number of tasks", 1) or 0,
            fail_on_data_loss=_flag(given, "failOnDataLoss", True),
            include_headers=_flag(given, "includeHeaders", False),
        )

    def for_batch(self) -> "ReadOptions":
        """By default from the earliest to the latest offset; never from the latest, as with Kafka's source."""
        if self.start is not None and LATEST in self.start.numbers():
            raise InvalidInput(
                "option 'startingOffsets': a batch cannot begin at the latest offset; it takes 'earliest' or JSON"
                f" such as {_example(EARLIEST)}"
            )
        if self.max_offsets is not None:
            raise InvalidInput(
                "option 'maxOffsetsPerTrigger' is for streams (spark.readStream); a batch is bounded by endingOffsets"
            )
        for log, start, stop in self._ends_before_it_begins():
            raise InvalidInput(
                f"option 'endingOffsets': {log} ends at {stop}, which is before {start}, where startingOffsets begins"
            )
        return replace(self, start=self.start or Offsets(EARLIEST), stop=self.stop or Offsets(LATEST))

    def _ends_before_it_begins(self) -> Iterator[tuple[str, int, int]]:
        """Name, start and stop of each log whose range is the wrong way round."""
        if self.start is None or self.stop is None or self.start_ms is not None:
            return
        for topic, partitions in (self.start.by_log or {}).items():
            for partition, start in partitions.items():
                stop = (self.stop.by_log or {}).get(topic, {}).get(partition, LATEST)
                if 0 <= stop < start:
                    yield f"{topic}/{partition}", start, stop

    def for_stream(self) -> "ReadOptions":
        """By default from the latest offset on; without an end, as with Kafka's source."""
        if self.stop is not None:
            raise InvalidInput(
                "option 'endingOffsets' is for batches (spark.read); a stream that ends where the log ends now is"
                " started with trigger(availableNow=True)"
            )
        return replace(self, start=self.start or Offsets(LATEST))


def _topics(given: Mapping[str, str]) -> tuple[tuple[str, ...], str | None]:
    named = [name for name in _TOPICS if name in given]
    if len(named) != 1:
        found = " and ".join(map(repr, named)) or "none"
        raise InvalidInput(f"exactly one of the options 'topic', 'subscribe' and 'subscribePattern' is needed: {found}")
    value = given[named[0]]
    if named[0] == "subscribePattern":
        try:
            re.compile(value)
        except re.error as error:
            raise InvalidInput(f"option 'subscribePattern': {value!r} is no regular expression: {error}") from error
        return (), value
    names = [value] if named[0] == "topic" else [name.strip() for name in value.split(",")]
    try:
        return tuple(dict.fromkeys(map(checked_topic_name, names))), None
    except InvalidInput as error:
        raise InvalidInput(f"option {named[0]!r}: {error}") from error


def _offsets(given: Mapping[str, str], name: str, words: Mapping[str, int]) -> Offsets | None:
    if name not in given:
        return None
    text = given[name].strip()
    if text.lower() in words:
        return Offsets(words[text.lower()])
    wrong = f"option {name!r}: {text!r} is neither {' nor '.join(map(repr, words))} nor JSON such as"
    wrong = f"{wrong} {_example(*words.values())}"
    try:
        topics = _object(json.loads(text))
        by_log = {
            topic: _partitions(partitions) for topic, partitions in topics.items() if topic not in (TOPIC_IDS, BEGAN_AT)
        }
    except ValueError as error:
        raise InvalidInput(wrong) from error
    offsets = Offsets(by_log=by_log)
    if any(number < 0 and number not in words.values() for number in offsets.numbers()):
        meanings = " and ".join(f"{number} ({word})" for word, number in words.items())
        raise InvalidInput(f"{wrong}; of the numbers below 0 only {meanings} mean something there")
    return offsets


def _example(*numbers: int) -> str:
    return json.dumps({"events": {str(partition): number for partition, number in enumerate((23, *numbers))}})


def _partitions(partitions: Any) -> dict[int, int]:
    offsets = _object(partitions)
    if not all(type(offset) is int for offset in offsets.values()):
        raise ValueError("an offset is an integer")
    return {int(partition): offset for partition, offset in offsets.items()}


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("a JSON object is needed")
    return value


def _number(given: Mapping[str, str], name: str, what: str, lowest: int) -> int | None:
    if name not in given:
        return None
    text = given[name].strip()
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < lowest:
        raise InvalidInput(f"option {name!r}: {text!r} is not {what}, {lowest} or more")
    return int(text)


def _flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = given.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise InvalidInput(f"option {name!r}: {given[name]!r} is neither true nor false")
    return text == "true"
