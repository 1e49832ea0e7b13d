"""Which engine reads the logs at a url."""

from collections.abc import Iterator
from contextlib import contextmanager

from cordwood.errors import InvalidInput
from cordwood.url import FileUrl, Url

from .folder import FolderLogs
from .logs import Logs


def logs_at(url: Url) -> Logs:
    """The logs at a url, to be closed."""
    if not isinstance(url, FileUrl):
        raise InvalidInput(f"{url} cannot be read by Spark yet; use file:/FOLDER")
    return FolderLogs(url.path)


@contextmanager
def opened(url: Url) -> Iterator[Logs]:
    """The logs at a url, closed at the end."""
    logs = logs_at(url)
    try:
        yield logs
    finally:
        logs.close()
