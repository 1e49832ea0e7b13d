"""The next plog, made while the last one still has room.

Lock: `_lock` guards the spare and is never held during I/O.
"""

from collections.abc import Callable

from cordwood.errors import NotFound
from cordwood.locks import new_lock
from cordwood.log.native.env.workers import Workers
from cordwood.log.native.plog import Plog, PlogId, PlogStore

from .rollover import NoRoom, is_full

NewId = Callable[[], PlogId]


class PlogMaker:
    """Makes a stream's plogs, one ahead of the need."""

    def __init__(self, plogs: PlogStore, workers: Workers, new_id: NewId) -> None:
        self._plogs = plogs
        self._workers = workers
        self._new_id = new_id
        self._lock = new_lock("stream.spare")
        self._spare: Plog | None = None
        self._asked = False

    @property
    def ahead(self) -> bool:
        """Whether the next plog was requested: it exists, or may soon."""
        return self._asked

    def make(self, size: int, least: int) -> Plog:
        """The spare if it is large enough, else a new one.

        On a disk that is nearly full it is smaller, but not below `least`; `NoRoom` if that does not fit either.
        """
        spare = self._take()
        if spare is not None and spare.size < least:
            # Too small to be used, and it occupies room that may be needed.
            self.discard(spare)
            spare = None
        while spare is None or spare.size < size:
            try:
                plog = self._plogs.create(self._new_id(), size)
            except OSError as error:
                if size == least or not is_full(error):
                    self.discard(spare)
                    raise NoRoom(f"no new plog of {size} bytes: {error.strerror or error}") from error
                size = max(least, size // 4)
            else:
                self.discard(spare)
                return plog
        return self._reopen(spare)

    def make_ahead(self, size: int) -> None:
        """Begin to make the next one, unless it was requested already."""
        with self._lock:
            if self._asked:
                return
            self._asked = True
        self._workers.spawn(lambda: self._make_spare(size))

    def give_back(self, plog: Plog) -> None:
        """Keep a plog that was made and not used as the spare; delete one that has failed or holds data."""
        if plog.failed is not None or plog.end:
            self.discard(plog)
            return
        self._rest(plog)
        with self._lock:
            self._asked = True
            unused, self._spare = self._spare, plog
        self.discard(unused)

    def drop_spare(self) -> None:
        self.discard(self._take())

    def close_spare(self) -> None:
        """Close its file until a rollover takes it. No rollover may run at the same time."""
        with self._lock:
            spare = self._spare
        if spare is not None:
            spare.close()

    def discard(self, plog: Plog | None) -> None:
        if plog is not None:
            plog.close()
            self._plogs.delete(plog.id)

    def _take(self) -> Plog | None:
        with self._lock:
            spare, self._spare, self._asked = self._spare, None, False
            return spare

    def _reopen(self, spare: Plog) -> Plog:
        if not spare.open:
            try:
                self._plogs.reopen(spare)
            except (NotFound, OSError) as error:
                self.discard(spare)
                raise NoRoom(f"the next plog cannot be opened: {error}") from error
        return spare

    def _rest(self, spare: Plog) -> None:
        """Close its file if too many are open: before it becomes the spare, so that no rollover takes it at that
        moment.
        """
        if self._plogs.crowded:
            spare.close()

    def _make_spare(self, size: int) -> None:
        try:
            made = self._plogs.create(self._new_id(), size)
        except OSError:
            # The rollover will try again, and report the error to its caller.
            return
        self._rest(made)
        with self._lock:
            if self._asked and self._spare is None:
                self._spare = made
                return
        self.discard(made)
