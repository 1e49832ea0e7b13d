"""The options of a write, checked. Spark takes their names in any case."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cordwood.errors import InvalidInput
from cordwood.log.topics import checked_topic_name
from cordwood.url import FileUrl, parse_url

ALLOWED = ("url", "topic")

# Spark's own: it passes them on with ours.
_OF_SPARK = ("checkpointlocation",)


@dataclass(frozen=True)
class WriteOptions:
    """Where rows go: a folder, and the topic of all rows; None: each row names its own."""

    folder: Path
    topic: str | None = None

    @staticmethod
    def of(options: Mapping[str, str]) -> "WriteOptions":
        """The options as Spark passes them; `InvalidInput` names the one that is wrong, and what is allowed.

        >>> WriteOptions.of({"url": "file:/srv/data", "Topic": "events"}).topic
        'events'
        """
        given = {name.lower(): value for name, value in options.items()}
        for name in options:
            if name.lower() not in (*ALLOWED, *_OF_SPARK):
                raise InvalidInput(f"unknown option {name!r}; writing to a log takes {', '.join(ALLOWED)}")
        return WriteOptions(_folder(given), _topic(given))


def _folder(given: Mapping[str, str]) -> Path:
    if "url" not in given:
        raise InvalidInput("the option 'url' is missing: it names the folder, such as file:/srv/data")
    url = given["url"]
    parsed = parse_url(url)
    if not isinstance(parsed, FileUrl):
        raise InvalidInput(f"option 'url': {parsed} cannot be written by Spark yet; use file:/FOLDER")
    if not url.partition(":")[2].startswith("/"):
        raise InvalidInput(
            f"option 'url': {url!r} is relative, and Spark's processes run in other folders: write file:/FOLDER"
        )
    return parsed.path


def _topic(given: Mapping[str, str]) -> str | None:
    if "topic" not in given:
        return None
    try:
        return checked_topic_name(given["topic"])
    except InvalidInput as error:
        raise InvalidInput(f"option 'topic': {error}") from error
