"""The options of a read: those of Spark's own Kafka source, checked. Spark takes their names in any case."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cordwood.errors import InvalidInput
from cordwood.log.topics import checked_topic_name
from cordwood.url import FileUrl, parse_url

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
    "minPartitions",
    "failOnDataLoss",
    "includeHeaders",
)

_TOPICS = ("topic", "subscribe", "subscribePattern")
_BY_LOWER_NAME = {name.lower(): name for name in ALLOWED}


@dataclass(frozen=True)
class Offsets:
    """One end of the range to read: the same for every log, or one for each; -2 is earliest, -1 latest."""

    everywhere: int | None = None
    by_log: Mapping[str, Mapping[int, int]] | None = None


@dataclass(frozen=True)
class ReadOptions:
    """What is to be read, and how."""

    folder: Path
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    start: Offsets = Offsets(EARLIEST)
    stop: Offsets = Offsets(LATEST)
    start_ms: int | None = None
    """If given, it counts instead of `start`."""
    min_partitions: int = 0
    fail_on_data_loss: bool = True
    include_headers: bool = False

    @staticmethod
    def of(options: Mapping[str, str]) -> "ReadOptions":
        """The options as Spark passes them; `InvalidInput` names the one that is wrong, and what is allowed.

        >>> ReadOptions.of({"url": "file:/srv/data", "TOPIC": "events", "minpartitions": "4"}).min_partitions
        4
        """
        given = _by_name(options)
        topics, pattern = _topics(given)
        return ReadOptions(
            folder=_folder(given),
            topics=topics,
            pattern=pattern,
            start=_offsets(given, "startingOffsets", "earliest", EARLIEST),
            stop=_offsets(given, "endingOffsets", "latest", LATEST),
            start_ms=_number(given, "startingTimestamp", "milliseconds since 1970", 0),
            min_partitions=_number(given, "minPartitions", "a number of tasks", 1) or 0,
            fail_on_data_loss=_switch(given, "failOnDataLoss", True),
            include_headers=_switch(given, "includeHeaders", False),
        )


def _by_name(options: Mapping[str, str]) -> dict[str, str]:
    unknown = sorted(name for name in options if name.lower() not in _BY_LOWER_NAME)
    if unknown:
        raise InvalidInput(f"unknown option {unknown[0]!r}; a batch read of a log takes {', '.join(ALLOWED)}")
    return {_BY_LOWER_NAME[name.lower()]: value for name, value in options.items()}


def _folder(given: Mapping[str, str]) -> Path:
    if "url" not in given:
        raise InvalidInput("the option 'url' is missing: it names the folder, such as file:/srv/data")
    url = given["url"]
    parsed = parse_url(url)
    if not isinstance(parsed, FileUrl):
        raise InvalidInput(f"option 'url': {parsed} cannot be read by Spark yet; use file:/FOLDER")
    if not url.partition(":")[2].startswith("/"):
        raise InvalidInput(
            f"option 'url': {url!r} is relative, and Spark's processes run in other folders: write file:/FOLDER,"
            " or use pipeline.read(spark, url, topic), which makes it absolute"
        )
    return parsed.path


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


def _offsets(given: Mapping[str, str], name: str, word: str, number: int) -> Offsets:
    """As Kafka's source: a batch cannot begin at the latest offset, nor end at the earliest."""
    text = given.get(name, word).strip()
    if text.lower() == word:
        return Offsets(number)
    example = json.dumps({"events": {"0": 23, "1": number}})
    wrong = f"option {name!r}: {text!r} is neither {word!r} nor JSON such as {example}"
    try:
        by_log = {topic: _partitions(partitions) for topic, partitions in _object(json.loads(text)).items()}
    except ValueError as error:
        raise InvalidInput(wrong) from error
    lowest = min((offset for partitions in by_log.values() for offset in partitions.values()), default=0)
    forbidden = LATEST if number == EARLIEST else EARLIEST
    if lowest < EARLIEST or any(forbidden in partitions.values() for partitions in by_log.values()):
        raise InvalidInput(f"{wrong}; of the numbers below 0 only {number} ({word}) has a meaning there")
    return Offsets(by_log=by_log)


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


def _switch(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = given.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise InvalidInput(f"option {name!r}: {given[name]!r} is neither true nor false")
    return text == "true"
