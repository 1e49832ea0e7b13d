"""The one-time work before the first server starts: jars, and the archive of their classes."""

from cordwood.testing.servers.java import archive_classes
from cordwood.testing.servers.maven import Say, to_stderr

from .broker import JAVA_OPTIONS, Broker
from .java import USER, fetch_jars


def prepare(say: Say = to_stderr) -> None:
    """Fetch Kafka's jars and archive its classes, unless that was done; raises `Unavailable` if a tool is missing.

    ```python
    prepare()  # some 15 s, the first time
    ```
    """

    def start_and_stop(options: list[str]) -> None:
        with Broker(java_options=(*JAVA_OPTIONS, *options)) as broker:
            broker.stop()

    archive_classes(fetch_jars(say), USER, start_and_stop, say)
