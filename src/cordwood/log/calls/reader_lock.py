"""Tasks that share a reader take turns: only one waits for a step at a time, and the reader wakes that one."""

import asyncio

from cordwood.errors import Unavailable


class Turns:
    """An asyncio.Lock for a reader that may continue in another event loop than the one it began in."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def here(self) -> asyncio.Lock:
        """The lock of the running loop: a lock that a task has waited for belongs to that task's loop for good."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if self._loop is not None and self._lock.locked() and not self._loop.is_closed():
                raise Unavailable(
                    "this reader waits in another event loop: give each loop a reader of its own", reason="other-loop"
                )
            self._loop, self._lock = loop, asyncio.Lock()
        return self._lock
