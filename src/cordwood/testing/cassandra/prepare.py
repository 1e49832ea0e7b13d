"""The one-time work before the first node starts: jars, and the archive of their classes."""

from cordwood.testing.servers.java import archive_classes
from cordwood.testing.servers.maven import Say, to_stderr

from .java import USER, fetch_jars
from .node import JAVA_OPTIONS, Node


def prepare(say: Say = to_stderr) -> None:
    """Fetch Cassandra's jars and archive its classes, unless that was done; `Unavailable` if a tool is missing.

    ```python
    prepare()  # some minutes on a slow network, the first time
    ```
    """

    def start_and_stop(options: list[str]) -> None:
        with Node(java_options=(*JAVA_OPTIONS, *options)) as node:
            node.stop()

    archive_classes(fetch_jars(say), USER, start_and_stop, say)
