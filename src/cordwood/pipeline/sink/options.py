"""The options of a write, checked."""

from collections.abc import Mapping
from dataclasses import dataclass

from cordwood.errors import InvalidInput
from cordwood.log.topics import checked_topic_name
from cordwood.pipeline.options import by_name, checked_url
from cordwood.url import Url

ALLOWED = ("url", "topic")

# Spark's own options, which it passes along with ours.
_OF_SPARK = ("checkpointlocation",)


@dataclass(frozen=True)
class WriteOptions:
    """The destination of the rows: the logs at a url, and the topic of all rows; None if each row names its own."""

    url: Url
    topic: str | None = None

    @staticmethod
    def of(options: Mapping[str, str]) -> "WriteOptions":
        """Check the options that Spark passes; `InvalidInput` names the wrong one and the allowed values.

        >>> WriteOptions.of({"url": "file:/srv/data", "Topic": "events"}).topic
        'events'
        """
        ours = {name: value for name, value in options.items() if name.lower() not in _OF_SPARK}
        given, kafka = by_name(ours, ALLOWED, "writing to a log")
        return WriteOptions(checked_url(given, kafka), _topic(given))


def _topic(given: Mapping[str, str]) -> str | None:
    if "topic" not in given:
        return None
    try:
        return checked_topic_name(given["topic"])
    except InvalidInput as error:
        raise InvalidInput(f"option 'topic': {error}") from error
