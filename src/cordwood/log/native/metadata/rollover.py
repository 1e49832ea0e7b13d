"""The rollover of the metadata stream: a new plog begins with the whole list, and the coordinator stores its id."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cordwood.errors import CordwoodError, NotFound
from cordwood.log.native.chain.chain import Chain
from cordwood.log.native.chain.durable import Durable
from cordwood.log.native.chain.records import MetadataRecord, encode, whole_chain
from cordwood.log.native.coordinator import Coordinator
from cordwood.log.native.env.clock import Clock
from cordwood.log.native.env.workers import Done
from cordwood.log.native.plog import Plog, PlogId, PlogStore
from cordwood.log.native.stream.rollover import NoRoom
from cordwood.records import FRAME_BYTES_MAX, FRAME_SLACK_BYTES, Batch, frame_of

LIST_FRAME_BYTES_MAX = FRAME_BYTES_MAX // 2


class _Ready(NamedTuple):
    """A plog with the whole list, from `first_offset` to below `next_offset`, whose id is yet to be stored."""

    plog: Plog
    first_offset: int
    next_offset: int


class MetadataRolloverPolicy:
    """The metadata stream's own plogs: a new one begins with the whole list, and the coordinator stores its id."""

    # A refused record would leave a log with acks that never come, and the next record without its predecessor.
    patient = True
    # The new plog begins with the whole list.
    keeps_plogs = False

    def __init__(
        self,
        plogs: PlogStore,
        clock: Clock,
        coordinator: Coordinator,
        epoch: int,
        chains: dict[str, Chain],
        plog_bytes_min: int,
        on_rollover: Callable[[Durable], bool],
    ) -> None:
        self._plogs = plogs
        self._clock = clock
        self._coordinator = coordinator
        self._epoch = epoch
        self._chains = chains
        self._plog_bytes_min = plog_bytes_min
        self._on_switch = on_rollover
        # The coordinator may have stored their ids, in calls that failed; the last of them is ready to be used.
        self._in_doubt: set[PlogId] = set()
        self._ready: _Ready | None = None
        # Earlier plogs, deleted once the latest one is published.
        self._older: set[PlogId] = set()

    def plog_bytes(self, plogs_before: int, needed: int) -> int:
        whole = self._list_bytes()
        # Several times the list, so that the list is a small part of the writes. `needed` bytes follow it, and they may
        # have grown by the time that there is room for them.
        return max(self._plog_bytes_min, 4 * whole, whole + 2 * needed)

    def plog_bytes_least(self, needed: int) -> int:
        return self._list_bytes() + needed

    def _list_bytes(self) -> int:
        whole = sum(len(encode(record)) + 64 for chain in list(self._chains.values()) for record in whole_chain(chain))
        return whole + FRAME_SLACK_BYTES * (1 + whole // LIST_FRAME_BYTES_MAX)

    def ready(self, size: int, next_offset: int) -> Plog | None:
        # At the same offset nothing was recorded since: its list is still complete.
        ready, self._ready = self._ready, None
        if ready is None or ready.first_offset != next_offset or ready.plog.end + size > ready.plog.size:
            return None
        try:
            self._plogs.reopen(ready.plog)
        except (NotFound, OSError):
            return None
        self._ready = ready
        return ready.plog

    def prepare(self, plog: Plog, next_offset: int) -> int:
        if self._ready is None:
            self._ready = _Ready(plog, next_offset, self._put_list(plog, next_offset))
        next_offset = self._ready.next_offset
        self._make_latest(plog)
        self._ready = None
        if self._on_switch(Durable(plog.id, plog.synced_end, next_offset)):
            self._delete_all(self._older)
        return next_offset

    def _put_list(self, plog: Plog, next_offset: int) -> int:
        for batch in self._whole_list():
            encoded = frame_of(
                [batch],
                plog=plog.id.random,
                position=plog.end,
                first_offset=next_offset,
                epoch=self._epoch,
                synced_end=plog.synced_end,
                now_ms=self._clock.time_ms(),
            )
            plog.append(encoded.pieces(), encoded.length, plog.end)
            next_offset += len(batch)
        plog.sync()
        return next_offset

    def _make_latest(self, plog: Plog) -> None:
        """Store the id in the coordinator. A failed call may have stored it after all: then this plog must stay."""
        self._in_doubt.add(plog.id)
        try:
            previous = self._coordinator.metadata_plog()
            if previous is not None:
                self._older.add(PlogId.parse(previous))
            self._coordinator.set_metadata_plog(self._epoch, previous, str(plog.id))
        except CordwoodError as error:
            raise NoRoom(str(error), keep_plog=True) from error
        self._in_doubt.discard(plog.id)
        self._older.discard(plog.id)
        # Only now: after a commit whose sync failed, the next open may find either id, whatever this one reads, until a
        # later commit has succeeded.
        self._delete_all(self._in_doubt)

    def _delete_all(self, plogs: set[PlogId]) -> None:
        while plogs:
            self._plogs.delete(plogs.pop())

    def record(self, records: Sequence[MetadataRecord], done: Done) -> None:
        # `prepare` has already stored the id, and the ends of older plogs are no longer needed.
        done()

    def _whole_list(self) -> list[Batch]:
        rows = [(name.encode(), encode(x)) for name, chain in self._chains.items() for x in whole_chain(chain)]
        batches: list[Batch] = []
        keys: list[bytes | None] = []
        values: list[bytes | None] = []
        size = 0
        for key, value in rows:
            size += len(key) + len(value) + 16
            if values and size > LIST_FRAME_BYTES_MAX:
                batches.append(Batch.of(values, keys=keys))
                keys, values, size = [], [], len(key) + len(value) + 16
            keys.append(key)
            values.append(value)
        if values:
            batches.append(Batch.of(values, keys=keys))
        return batches
