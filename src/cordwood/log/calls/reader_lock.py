"""Tasks that share a reader take turns: each waits for its step alone, and is the one that is woken."""

import asyncio

from cordwood.errors import Unavailable


class Turns:
    """An asyncio.Lock for a reader that may go on in another event loop than the one it began in."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def here(self) -> asyncio.Lock:
        """The lock of the running loop. One that others have waited for belongs to their loop for good."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if self._loop is not None and self._lock.locked() and not self._loop.is_closed():
                raise Unavailable(
                    "this reader waits in another event loop: give each loop a reader of its own", reason="other-loop"
                )
            self._loop, self._lock = loop, asyncio.Lock()
        return self._lock
