"""All locks of Cordwood by name, and the order in which a thread may take them.

docs/internals/threads.md has the page with every thread and every lock. With `CORDWOOD_CHECK_LOCKS=1` in the
environment each lock checks the order at each acquire, as the tests do. Without it a lock is a plain `threading.Lock`,
so the order costs nothing.
"""

import os
import threading
from types import TracebackType
from typing import Final

IO: Final = True
NO_IO: Final = False

ORDER: Final = {
    "sync.portal": NO_IO,
    "sync.reader": IO,
    "process.folder": IO,
    "api.reader.disk": IO,
    "writer.retention": IO,
    "writer.topics": IO,
    "written_log.trim": IO,
    "written_log.open": IO,
    "observer.metadata": IO,
    "metadata.gate": IO,
    "writer.logs": NO_IO,
    "stream.gate": IO,
    "written_log.publish": IO,
    "publisher.catalog": IO,
    "publisher.metadata_end": IO,
    "published.starts": IO,
    "published.write": IO,
    "published.ends_file": IO,
    "witness": IO,
    "coordinator": IO,
    "written_log": NO_IO,
    "countdown": NO_IO,
    "staged.flight": NO_IO,
    "stream.queue": NO_IO,
    "stream.spare": NO_IO,
    "plog.store": NO_IO,
    "api.reader": NO_IO,
    "folder.lock_files": IO,
    "process.registry": NO_IO,
    "kafka.registry": NO_IO,
    "kafka.cluster": NO_IO,
    "kafka.admin": NO_IO,
    "kafka.consumers": NO_IO,
    "kafka.producer": NO_IO,
    "kafka.reader": NO_IO,
    "store.cassandra.links": NO_IO,
    "store.cassandra.session": NO_IO,
    "calls.threads": NO_IO,
    "env.timer": NO_IO,
    "env.workers": NO_IO,
    "env.buffers": NO_IO,
}
"""Every lock, outermost first, and whether a thread may use the disk while it holds the lock.

A thread that holds a lock may only take locks that come after it.
"""


class LockOrderBroken(AssertionError):
    """A thread took two locks in the wrong order, or used the disk under a lock that forbids it: a defect."""


class CheckedLock:
    """A lock that checks the order. `broken` keeps what it has found: a background thread may swallow the error."""

    broken: Final[list[str]] = []

    def __init__(self, name: str) -> None:
        self._name = name
        self._place = list(ORDER).index(name)
        self._lock = threading.Lock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        held = _held_here()
        # An attempt that does not wait cannot deadlock.
        if blocking and held and held[-1]._place >= self._place:
            _report(f"{self._name} is taken while {', '.join(lock._name for lock in held)} is held")
        acquired = self._lock.acquire(blocking, timeout)
        if acquired:
            held.append(self)
            held.sort(key=lambda lock: lock._place)
        return acquired

    def release(self) -> None:
        held = _held_here()
        if self in held:  # else a forked child releases what its parent's thread took
            held.remove(self)
        self._lock.release()

    def locked(self) -> bool:
        return self._lock.locked()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def _is_owned(self) -> bool:
        """For `threading.Condition`."""
        return self in _held_here()


_threads = threading.local()
_checking = os.environ.get("CORDWOOD_CHECK_LOCKS") == "1"


def new_lock(name: str) -> threading.Lock:
    """A lock with a name of `ORDER`.

    >>> with new_lock("stream.queue"):
    ...     pass
    """
    return CheckedLock(name) if _checking else threading.Lock()  # type: ignore[return-value]  # it is used as one


def check_disk_use(what: str) -> None:
    """Report a use of the disk under a lock that forbids it. The tests call it for every operation of a real disk."""
    forbidden = [lock._name for lock in _held_here() if ORDER[lock._name] is NO_IO]
    if forbidden:
        _report(f"{what} is called while {', '.join(forbidden)} is held")


def _held_here() -> list[CheckedLock]:
    try:
        held: list[CheckedLock] = _threads.held
    except AttributeError:
        held = _threads.held = []
    return held


def _report(what: str) -> None:
    CheckedLock.broken.append(what)
    raise LockOrderBroken(what)


def _forget_held() -> None:
    """In a forked child: the locks of the parent are made anew, or never taken again."""
    _threads.held = []


if _checking:
    os.register_at_fork(after_in_child=_forget_held)
