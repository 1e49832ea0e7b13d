"""The one-time work before the first server starts: jars, and the archive of their classes."""

import os

from cordwood.testing.servers.maven import Say, hold_lock, to_stderr

from .broker import JAVA_OPTIONS, Broker
from .java import class_archive, fetch_jars


def prepare(say: Say = to_stderr) -> None:
    """Fetch Kafka's jars and archive its classes, unless that was done; raises `Unavailable` if a tool is missing.

    ```python
    prepare()  # some 15 s, the first time
    ```
    """
    fetch_jars(say)
    archive = class_archive()
    if archive.exists():
        return
    with hold_lock(archive.with_suffix(".lock"), "kafka: another process archives the classes, waiting for it", say):
        if archive.exists():
            return
        say("kafka: archiving the classes, so that servers start in half the time, once")
        part = archive.with_suffix(".part")
        # At its end Java writes the classes that it has loaded.
        with Broker(java_options=(*JAVA_OPTIONS, f"-XX:ArchiveClassesAtExit={part}", "-Xlog:cds=off")) as broker:
            broker.stop()
        if part.exists():  # else this Java does not support it, and servers start without
            os.replace(part, archive)
