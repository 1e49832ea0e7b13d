"""One connection to a folder that it may share with others."""

import weakref

from cordwood.errors import Unavailable
from cordwood.log.native.folder.process import OpenFolder

from .reader import FolderReader


class Connection:
    """Closed for itself, while the folder may stay open for others; read-only for itself, too."""

    def __init__(self, folder: OpenFolder, read_only: bool) -> None:
        self.folder = folder
        self.read_only = read_only
        self.closed = False
        self.readers: weakref.WeakSet[FolderReader] = weakref.WeakSet()

    def check(self) -> None:
        """`Unavailable` once it is closed, and in a forked child."""
        self.folder.check()
        if self.closed:
            raise Unavailable(
                f"the connection to {self.folder.path} is closed: connect again", outcome="not_written", reason="closed"
            )

    def check_writable(self) -> None:
        self.check()
        if self.read_only:
            raise Unavailable(
                f"{self.folder.path} is connected with read_only=True: connect without it to write",
                outcome="not_written",
                reason="read-only",
            )
