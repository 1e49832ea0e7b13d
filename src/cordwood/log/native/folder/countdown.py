"""Waits for several operations without a waiting thread.

Lock: `_lock` guards the count.
"""

from cordwood.locks import new_lock
from cordwood.log.native.env.workers import Done


class Countdown:
    """Calls `done` when `count` operations are done; at once if there are none."""

    def __init__(self, count: int, done: Done) -> None:
        self._left = count
        self._done = done
        self._lock = new_lock("countdown")
        if not count:
            done()

    def one_done(self) -> None:
        with self._lock:
            self._left -= 1
            last = self._left == 0
        if last:
            self._done()
