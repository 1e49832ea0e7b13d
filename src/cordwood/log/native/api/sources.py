"""The logs that a reader reads: found by name, checked by the id of their topic, and where they ended at the call."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from cordwood.errors import CordwoodError
from cordwood.log.arguments import created_again
from cordwood.log.native.folder.process import FolderOpenForWriting, OpenFolder
from cordwood.log.native.stream.reading.cursor import Source

Ends = Mapping[int, int | None]
"""Where partitions ended at a call; None for a log that this process has not opened yet: its opening decides it."""


def source_of(folder: OpenFolder, topic: str, partition: int, topic_id: str | None) -> Source:
    """The log, if its topic has this id, else `Conflict`."""
    source = folder.source(topic, partition)
    if topic_id is not None and str(source.topic_id) != topic_id:
        raise created_again(source.name, topic_id, str(source.topic_id))
    return source


def ends_at_call(folder: OpenFolder, topic: str, partitions: Iterable[int] | None = None) -> Callable[[], Ends]:
    """A function for where these logs, by default all of the topic, end at this moment. Its errors come at its call."""
    look = partial(_ends_now, folder, topic, partitions)
    if isinstance(folder, FolderOpenForWriting):
        try:
            ends = look()
        except CordwoodError:
            return look
        return lambda: ends
    try:
        # This needs the disk, so it runs on another thread: records appended from now on are not part of the read.
        return folder.executor.submit(look).result
    except RuntimeError:
        return look  # the program is ending


def raise_failure(folder: OpenFolder, topic: str, partition: int) -> None:
    """Raise the error of a failed background task: no caller was there to get it."""
    if isinstance(folder, FolderOpenForWriting):
        folder.raise_failure(topic, partition)


def _ends_now(folder: OpenFolder, topic: str, partitions: Iterable[int] | None) -> Ends:
    if partitions is None:
        partitions = range(folder.topic(topic).partitions)
    if isinstance(folder, FolderOpenForWriting):
        return {partition: folder.source(topic, partition).end_now() for partition in partitions}
    return {partition: folder.source(topic, partition).extent().durable.next_offset for partition in partitions}
