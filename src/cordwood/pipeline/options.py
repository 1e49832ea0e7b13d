"""The common part of the options of reads and writes: their names, and the url."""

from collections.abc import Iterable, Mapping

from cordwood.errors import InvalidInput
from cordwood.log.engines import engine_of
from cordwood.url import Url, parse_url

KAFKA_PREFIX = "kafka."
"""Options with this prefix are settings of the client, and belong to the url."""


def by_name(options: Mapping[str, str], allowed: Iterable[str], what: str) -> tuple[dict[str, str], dict[str, str]]:
    """Our options, by their spelling in `allowed`, and Kafka's. Spark takes names in any case.

    >>> by_name({"URL": "kafka://b1", "kafka.client.id": "me"}, ["url", "topic"], "reading a log")
    ({'url': 'kafka://b1'}, {'client.id': 'me'})
    """
    names = {name.lower(): name for name in allowed}
    ours, kafka = {}, {}
    for given, value in options.items():
        name = given.lower()
        if name.startswith(KAFKA_PREFIX):
            kafka[name.removeprefix(KAFKA_PREFIX)] = value
        elif name in names:
            ours[names[name]] = value
        else:
            raise InvalidInput(f"unknown option {given!r}; {what} takes {', '.join(names.values())}")
    return ours, kafka


def checked_url(given: Mapping[str, str], kafka: Mapping[str, str], otherwise: str = "") -> Url:
    """The option `url`: a folder, by its absolute path, or Kafka, with its settings.

    `otherwise` is another remedy for a relative path, for the error text.
    """
    if "url" not in given:
        raise InvalidInput("the option 'url' is missing: it says where the logs are, such as file:/srv/data")
    url = given["url"]
    if url.lower().startswith("kafka:"):
        return parse_url(url, kafka)
    parsed = parse_url(url)
    engine_of(parsed)
    if kafka:
        raise InvalidInput(f"option {KAFKA_PREFIX + min(kafka)!r} is for kafka:// urls, and the url is {parsed}")
    if not url.partition(":")[2].startswith("/"):
        raise InvalidInput(
            f"option 'url': {url!r} is relative, and Spark's processes run in other folders: write file:/FOLDER"
            f"{otherwise}"
        )
    return parsed
