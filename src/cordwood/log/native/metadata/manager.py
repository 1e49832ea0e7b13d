"""Which plogs make up which log: the metadata manager.

One a folder. Every log is one of its services, by name. What it knows is the content of a stream of its own, whose
plogs each begin with everything that holds at that moment: so only the latest plog is ever needed, and the coordinator
stores only its id.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from cordwood.errors import CordwoodError, Corrupt, NotFound
from cordwood.log.native.chain.chain import Chain
from cordwood.log.native.chain.durable import Durable
from cordwood.log.native.chain.records import Dropped, Full, MetadataRecord, apply, decode, encode, whole_chain
from cordwood.log.native.coordinator import Coordinator
from cordwood.log.native.env.clock import Clock
from cordwood.log.native.env.workers import Done, Workers, nothing
from cordwood.log.native.plog import Plog, PlogId, PlogStore, find_tail, make_durable, sealed_end
from cordwood.log.native.stream.append import Append
from cordwood.log.native.stream.reading.blocks import stored_batches
from cordwood.log.native.stream.rollover import NoRoom
from cordwood.log.native.stream.spare import NewId
from cordwood.log.native.stream.stream import Stream
from cordwood.records import FRAME_BYTES_MAX, FRAME_SLACK_BYTES, Batch, StoredBatch, frame_of

METADATA_PLOG_BYTES_MIN = 256 * 1024
_LIST_FRAME_BYTES_MAX = FRAME_BYTES_MAX // 2
_NEVER = float("inf")
_LOGGER = logging.getLogger("cordwood.folder")


class MetadataManager:
    """Keeps the chains of all services, durably. `record` may be called from every thread."""

    def __init__(
        self,
        plogs: PlogStore,
        workers: Workers,
        clock: Clock,
        coordinator: Coordinator,
        *,
        epoch: int,
        new_id: NewId,
        published: Durable | None,
        plog_bytes_min: int = METADATA_PLOG_BYTES_MIN,
        on_durable: Callable[[Durable], None],
        on_rollover: Callable[[Durable], bool],
    ) -> None:
        self._plogs = plogs
        self._superfluous: set[PlogId] = set()
        latest = coordinator.metadata_plog()
        self.chains: dict[str, Chain] = {}
        self.found = Durable(None, 0, 0)
        if latest is not None:
            self.chains, self.found = read_all(plogs, PlogId.parse(latest), published)
        self._stream = Stream(
            plogs,
            workers,
            clock,
            MetadataRolloverPolicy(plogs, clock, coordinator, epoch, self.chains, plog_bytes_min, on_rollover),
            name="metadata",
            epoch=epoch,
            new_id=new_id,
            chain=Chain(),
            next_offset=self.found.next_offset,
            seal_due=False,
            on_durable=on_durable,
        )

    def record(self, service: str, records: Sequence[MetadataRecord], done: Done) -> None:
        """Make a change of a service's chain durable; changes are durable in the order of the calls.

        The coordinator already says of the plogs that it drops that nobody wants them any more (R7).
        """
        self._superfluous.update(self._dropped_by(service, records))
        *before, last = _in_frames(records)
        for part in before:
            self._submit(service, part, nothing)
        self._submit(service, last, done)

    def _submit(self, service: str, records: Sequence[MetadataRecord], done: Done) -> None:
        batch = Batch.of([encode(record) for record in records], keys=[service.encode()] * len(records))
        append = Append(batch, len(records), _Recording(service, records, done), self._on_recorded, _NEVER)
        queued = self._stream.submit(append)
        # The queue takes 64 MiB, a record has a hundred bytes, and a log has few of them under way.
        assert queued

    def mark_unwanted(self, service: str) -> None:
        """The coordinator says that the service is gone: its plogs may go too, if it takes long to record that."""
        self._superfluous.update(self._dropped_by(service, [Full(())]))

    def stuck(self) -> str | None:
        return self._stream.room_wanted_for if self._stream.stalled() else None

    def retry(self) -> None:
        """Try again what waits for room; to be called now and then."""
        if self._stream.stalled():
            # On a full disk the record of a trim may wait for the very space that the trim gives back.
            for id in list(self._superfluous):
                self._plogs.delete(id)
        self._stream.retry()

    def finish(self, error: CordwoodError, done: Done) -> None:
        self._stream.finish(error, done)

    def _on_recorded(self, appends: list[Append]) -> None:
        for append in appends:
            recording = append.waiter
            assert isinstance(recording, _Recording)
            # Acks and later records depend on it: a record that failed must not pass for one that is durable.
            assert append.error is None, "a patient stream refuses nothing"
            try:
                self._superfluous.difference_update(self._dropped_by(recording.service, recording.records))
                _apply_all(self.chains, recording.service, recording.records)
                recording.done()
            except Exception:
                # A defect; but not one of the others, whose acks wait for what is recorded behind this.
                _LOGGER.exception("metadata: a record of service %s failed", recording.service)

    def _dropped_by(self, service: str, records: Sequence[MetadataRecord]) -> list[PlogId]:
        ids = [id for record in records if isinstance(record, Dropped) for id in record.ids]
        if Full(()) in records:
            ids += [link.id for link in self.chains.get(service, Chain())]
        return ids


def _in_frames(records: Sequence[MetadataRecord]) -> Iterator[list[MetadataRecord]]:
    """The records by appends: those of a long list of plogs do not fit into one frame."""
    part: list[MetadataRecord] = []
    size = 0
    for record in records:
        length = len(encode(record))
        if part and size + length > _LIST_FRAME_BYTES_MAX:
            yield part
            part, size = [], 0
        part.append(record)
        size += length
    yield part


class _Recording:
    """Who waits for a metadata record: nobody who could give up."""

    def __init__(self, service: str, records: Sequence[MetadataRecord], done: Done) -> None:
        self.service = service
        self.records = records
        self.done = done

    def cancelled(self) -> bool:
        return False


class _Ready(NamedTuple):
    """A plog with the whole list, from `first_offset` to below `next_offset`; the coordinator is to be told of it."""

    plog: Plog
    first_offset: int
    next_offset: int


class MetadataRolloverPolicy:
    """The metadata stream's own plogs: a new one begins with the whole list, and the coordinator learns its id."""

    # A record that is refused would leave a log with acks that never come, and the next one without its predecessor.
    patient = True
    # The new one begins with everything.
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
        # The coordinator may have been told of them, by calls that failed; the last of them is ready to be used.
        self._in_doubt: set[PlogId] = set()
        self._ready: _Ready | None = None
        # Those of before, which go once readers were told of the latest.
        self._older: set[PlogId] = set()

    def plog_bytes(self, plogs_before: int, needed: int) -> int:
        whole = self._list_bytes()
        # Several times the list, so that the list is a small part of what is written. `needed` comes behind it, and it
        # may be more by the time that it can be written.
        return max(self._plog_bytes_min, 4 * whole, whole + 2 * needed)

    def plog_bytes_least(self, needed: int) -> int:
        return self._list_bytes() + needed

    def _list_bytes(self) -> int:
        whole = sum(len(encode(record)) + 64 for chain in list(self._chains.values()) for record in whole_chain(chain))
        return whole + FRAME_SLACK_BYTES * (1 + whole // _LIST_FRAME_BYTES_MAX)

    def ready(self, size: int, next_offset: int) -> Plog | None:
        # At the same offset nothing was recorded since: what it lists is still all that holds.
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
        """Tell the coordinator. A call that failed may have done so after all: then this plog must stay."""
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
        # Only now: a commit whose sync failed may be found by the next open, whatever this one reads, until another
        # has succeeded.
        self._delete_all(self._in_doubt)

    def _delete_all(self, plogs: set[PlogId]) -> None:
        while plogs:
            self._plogs.delete(plogs.pop())

    def record(self, records: Sequence[MetadataRecord], done: Done) -> None:
        # The coordinator knows since `prepare`; where older plogs ended is of no interest any more.
        done()

    def _whole_list(self) -> list[Batch]:
        rows = [(name.encode(), encode(x)) for name, chain in self._chains.items() for x in whole_chain(chain)]
        batches: list[Batch] = []
        keys: list[bytes | None] = []
        values: list[bytes | None] = []
        size = 0
        for key, value in rows:
            size += len(key) + len(value) + 16
            if values and size > _LIST_FRAME_BYTES_MAX:
                batches.append(Batch.of(values, keys=keys))
                keys, values, size = [], [], len(key) + len(value) + 16
            keys.append(key)
            values.append(value)
        if values:
            batches.append(Batch.of(values, keys=keys))
        return batches


def read_all(plogs: PlogStore, latest: PlogId, published: Durable | None) -> tuple[dict[str, Chain], Durable]:
    """The chains of all services, from the latest metadata plog alone, and its end.

    A record that is cut here takes a whole plog with it: so every witness of the synced end is heard (R1).
    """
    try:
        file = plogs.open_file(latest, write=True)
    except NotFound as error:
        raise Corrupt(
            f"plog {latest} is gone, and it has the list of all others: restore the folder from a copy"
        ) from error
    try:
        known = published.end if published is not None and published.plog == latest else 0
        tail = find_tail(file, latest, synced_end=max(known, sealed_end(file, latest)))
        # R8, as for any log: what is taken for recorded must not be only in the page cache.
        make_durable(file, tail)
    finally:
        file.close()
    chains: dict[str, Chain] = {}
    read_records(plogs, latest, 0, tail.end, chains)
    return chains, Durable(latest, tail.end, tail.next_offset)


def read_records(plogs: PlogStore, plog: PlogId, start: int, end: int, chains: dict[str, Chain]) -> None:
    """Apply what stands between two positions of a metadata plog."""
    for batch in stored_batches(plogs, plog, start, end):
        apply_batch(chains, batch)


def apply_batch(chains: dict[str, Chain], batch: StoredBatch) -> None:
    for key, value in zip(batch.keys, batch.values, strict=True):
        _apply_all(chains, (key or b"").decode(), [decode(value or b"")])


def _apply_all(chains: dict[str, Chain], service: str, records: Sequence[MetadataRecord]) -> None:
    chain = chains.get(service, Chain())
    for record in records:
        chain = apply(chain, record)
    if isinstance(records[-1], Full) and not chain.links:
        chains.pop(service, None)
    else:
        chains[service] = chain
