"""One connection to an object that the process shares: an open folder, or the clients of a cluster."""

import weakref
from typing import Generic, Protocol, TypeVar

from cordwood.errors import Unavailable
from cordwood.log.interface import Reader


class Shared(Protocol):
    """The object that connections of a process share; its `str` is the url."""

    def check(self) -> None:
        """Raise `Unavailable` in a forked child, and once it is closed."""


S = TypeVar("S", bound=Shared)


class Connection(Generic[S]):
    """Closed and read-only for itself alone: `shared` may stay open, and writable, for other connections."""

    def __init__(self, shared: S, read_only: bool) -> None:
        self.shared = shared
        self.read_only = read_only
        self.closed = False
        self.readers: weakref.WeakSet[Reader] = weakref.WeakSet()

    def check(self) -> None:
        """Raise `Unavailable` once it is closed, and in a forked child."""
        self.shared.check()
        if self.closed:
            raise Unavailable(
                f"the connection to {self.shared} is closed: connect again", outcome="not_written", reason="closed"
            )

    def check_writable(self) -> None:
        self.check()
        if self.read_only:
            raise Unavailable(
                f"{self.shared} is connected with read_only=True: connect without it to write",
                outcome="not_written",
                reason="read-only",
            )
