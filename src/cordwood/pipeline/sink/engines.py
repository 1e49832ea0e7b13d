"""Which engine writes the logs at a url."""

from cordwood.errors import InvalidInput, Unavailable
from cordwood.url import FileUrl, KafkaUrl

from .folder import FolderTarget
from .options import WriteOptions
from .target import Target


def target_of(options: WriteOptions, columns: tuple[str, ...]) -> Target:
    """Where the rows of a write go."""
    url = options.url
    if isinstance(url, FileUrl):
        return FolderTarget(url.path, options.topic, columns)
    if isinstance(url, KafkaUrl):
        try:
            from .kafka import KafkaTarget
        except ImportError as error:
            raise Unavailable(
                f"{url} needs confluent-kafka in every process of Spark: pip install 'cordwood[kafka]'",
                reason="missing-extra",
            ) from error
        return KafkaTarget(url, options.topic, columns)
    raise InvalidInput(f"{url} cannot be written by Spark yet; use file:/FOLDER or kafka://HOST:PORT")
