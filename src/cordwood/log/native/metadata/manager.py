"""The metadata manager: which plogs make up which log.

There is one per folder. Every log is one of its services, by name. Its state is the content of a stream of its own.
Each plog of that stream begins with the whole state at that moment. So only the latest plog is ever needed, and the
coordinator stores only its id.
"""

import logging
from collections.abc import Callable, Iterator, Sequence

from cordwood.errors import CordwoodError
from cordwood.log.native.chain.chain import Chain
from cordwood.log.native.chain.durable import Durable
from cordwood.log.native.chain.records import Dropped, Full, MetadataRecord, encode
from cordwood.log.native.coordinator import Coordinator
from cordwood.log.native.env.clock import Clock
from cordwood.log.native.env.workers import Done, Workers, nothing
from cordwood.log.native.plog import PlogId, PlogStore
from cordwood.log.native.stream.append import Append
from cordwood.log.native.stream.spare import NewId
from cordwood.log.native.stream.stream import Stream
from cordwood.records import Batch

from .reading import apply_all, read_all
from .rollover import LIST_FRAME_BYTES_MAX, MetadataRolloverPolicy

METADATA_PLOG_BYTES_MIN = 256 * 1024
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

        The coordinator already has the trim or the deletion that makes the dropped plogs superfluous (R7).
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
        """The coordinator has deleted the service: its plogs may be deleted early, if the record of that must wait."""
        self._superfluous.update(self._dropped_by(service, [Full(())]))

    def stuck(self) -> str | None:
        return self._stream.room_wanted_for if self._stream.stalled() else None

    def retry(self) -> None:
        """Retry records that wait for room; the timer calls it regularly."""
        if self._stream.stalled():
            # On a full disk the record of a trim may wait for the very space that the trim frees.
            for id in list(self._superfluous):
                self._plogs.delete(id)
        self._stream.retry()

    def finish(self, error: CordwoodError, done: Done) -> None:
        self._stream.finish(error, done)

    def _on_recorded(self, appends: list[Append]) -> None:
        for append in appends:
            recording = append.waiter
            assert isinstance(recording, _Recording)
            # Acks and later records depend on it: a failed record must not be treated as durable.
            assert append.error is None, "a patient stream refuses nothing"
            try:
                self._superfluous.difference_update(self._dropped_by(recording.service, recording.records))
                apply_all(self.chains, recording.service, recording.records)
                recording.done()
            except Exception:
                # A defect. It must not stop the others, whose acks wait for later records.
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
        if part and size + length > LIST_FRAME_BYTES_MAX:
            yield part
            part, size = [], 0
        part.append(record)
        size += length
    yield part


class _Recording:
    """The waiter of a metadata record. It never gives up."""

    def __init__(self, service: str, records: Sequence[MetadataRecord], done: Done) -> None:
        self.service = service
        self.records = records
        self.done = done

    def cancelled(self) -> bool:
        return False
