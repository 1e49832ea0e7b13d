"""Which engine reads the logs at a url."""

from collections.abc import Iterator
from contextlib import contextmanager

from cordwood.errors import InvalidInput, Unavailable
from cordwood.url import FileUrl, KafkaUrl, Url

from .folder import FolderLogs
from .logs import Logs


def logs_at(url: Url) -> Logs:
    """The logs at a url, to be closed."""
    if isinstance(url, FileUrl):
        return FolderLogs(url.path)
    if isinstance(url, KafkaUrl):
        try:
            from .kafka import KafkaLogs
        except ImportError as error:
            raise Unavailable(
                f"{url} needs confluent-kafka in every process of Spark: pip install 'cordwood[kafka]'",
                reason="missing-extra",
            ) from error
        return KafkaLogs(url)
    raise InvalidInput(f"{url} cannot be read by Spark yet; use file:/FOLDER or kafka://HOST:PORT")


@contextmanager
def open_logs(url: Url) -> Iterator[Logs]:
    """The logs at a url, closed at the end."""
    logs = logs_at(url)
    try:
        yield logs
    finally:
        logs.close()
