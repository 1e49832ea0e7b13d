"""The interface of every event store."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import date
from types import TracebackType
from typing import NamedTuple, Self

from .rows import Binding, DeadLetter, EventRow, HeadRow, Lease, PartitionChanges, SnapshotRow


def live_range(head: HeadRow | None, start: int, stop: int) -> tuple[int, int]:
    """The part of [start, stop) in which a journal may have live rows; empty where the first is not below the second.

    >>> live_range(HeadRow(0, 7, 10_000, seq_nr=5, created=1, updated=1, delete_to=2), 1, 100)
    (3, 6)
    """
    if head is None:
        return 0, 0
    return max(start, (head.delete_to or 0) + 1), min(stop, head.seq_nr + 1)


class TopicPointers(NamedTuple):
    """A topic that the store has, and how far it is replicated."""

    topic: str
    partitions: int | None
    """As the topic is bound (R23); None if nothing has bound it."""
    pointers: Mapping[int, int]
    updated: int | None
    """When a pointer last moved, in ms by the replicator's clock; None if none has."""


class EventPage(NamedTuple):
    """Some rows of a journal, in the order of their numbers, and the number at which the next page begins."""

    rows: Sequence[EventRow]
    next: int | None
    """None: this is the last page."""


class ScanPart(NamedTuple):
    """A part of a topic's journals, for a scan by one of several tasks: ids in [first, stop), in the store's order."""

    first: str | int | None
    stop: str | int | None


class SnapshotGuard(NamedTuple):
    """What must still hold when a snapshot is saved or deleted (R44): the read fence that its caller took."""

    partition: int
    fence: int
    """One past the last offset that the read fence covered."""
    began: float | None = None
    """The second of the boot clock before the read fence was taken; None: now."""


class EventStore(ABC):
    """Event rows, head rows, pointers, snapshots and dead letters of many topics.

    All calls are safe from several tasks at once. A call that waits may be cancelled; a write that was cancelled may
    still take effect. Every error is one of `cordwood.errors`.

    ```python
    store = await open_store("sqlite:./store.db")
    heads = await store.heads("orders", ["order-1"])
    page = await store.events("orders", "order-1", heads["order-1"], 1, 100)
    ```
    """

    url: str
    read_only: bool

    # --- topics

    @abstractmethod
    async def topics(self) -> list[TopicPointers]:
        """Every topic that the store has, by name."""

    @abstractmethod
    async def binding(self, topic: str) -> Binding | None:
        """What the topic is bound to (R23); None if nothing has bound it."""

    @abstractmethod
    async def bind(self, topic: str, binding: Binding) -> Binding:
        """Bind a topic, unless it is bound already; the binding that holds now."""

    @abstractmethod
    async def rebind(self, topic: str, held: Binding, binding: Binding) -> Binding:
        """Replace a binding, if it is still `held`; the binding that holds now (R23).

        Every replicator of the topic must be stopped: a store with write times ignores what an older base writes.
        """

    @abstractmethod
    async def pointers(self, topic: str) -> dict[int, int]:
        """The highest replicated offset of each partition; a partition without one is left out."""

    # --- journals

    @abstractmethod
    async def heads(self, topic: str, ids: Sequence[str]) -> dict[str, HeadRow]:
        """The head rows of these journals, in one sweep; a journal without one is left out."""

    @abstractmethod
    async def events(
        self, topic: str, id: str, head: HeadRow, start: int, stop: int, bytes_max: int = 1 << 20
    ) -> EventPage:
        """The rows with numbers in [start, stop), as many as fit into `bytes_max`, at least one.

        The rows are as stored: those of other lives, and several with one number, are among them (R25). Rows with one
        number are on one page.
        """

    async def first_events(
        self, topic: str, id: str, start: int, stop: int, bytes_max: int = 1 << 20
    ) -> tuple[HeadRow | None, EventPage | None]:
        """The head row of a journal, and then the first page of its live rows in [start, stop), None if it has none.

        A store that can do both in one call overrides it; the row is always read before the events (R41).
        """
        head = (await self.heads(topic, [id])).get(id)
        first, last = live_range(head, start, stop)
        if head is None or first >= last:
            return head, None
        return head, await self.events(topic, id, head, first, last, bytes_max)

    @abstractmethod
    def ids(self, topic: str) -> AsyncIterator[list[str]]:
        """The ids of all journals of a topic that have events or had some, in pages, each id once, in no order."""

    @abstractmethod
    def expired(self, topic: str, after: date | None, through: date) -> AsyncIterator[list[tuple[str, HeadRow]]]:
        """The journals with `after` < expire_on <= `through`, in pages; `after=None` means from the beginning."""

    @abstractmethod
    async def expired_through(self, topic: str) -> date | None:
        """The last day for which a run of `purge_expired` is complete, with all days before it."""

    @abstractmethod
    async def set_expired_through(self, topic: str, day: date) -> None:
        """Keep the last complete day; an earlier one than it has is ignored."""

    # --- scans

    @abstractmethod
    async def parts(self, topic: str, count: int) -> list[ScanPart]:
        """Split the journals of a topic into at most `count` parts of about equal size."""

    @abstractmethod
    def scan_heads(self, topic: str, part: ScanPart) -> AsyncIterator[list[tuple[str, HeadRow]]]:
        """The head rows of a part, in pages."""

    @abstractmethod
    def scan_events(
        self, topic: str, part: ScanPart, bytes_max: int = 1 << 20
    ) -> AsyncIterator[list[tuple[str, EventRow]]]:
        """The event rows of a part as stored, in pages; the rows of one journal follow each other."""

    # --- writing

    @abstractmethod
    async def write(self, changes: PartitionChanges) -> bool:
        """Write a batch of a partition, and move its pointer last (R24).

        False: the pointer is not where the batch began, and nothing was written. A batch that is written twice, or half
        and then again, changes nothing. A store with write times does not compare the pointer: the batch of another
        replicator changes nothing there. It returns False for a batch that is an hour old.
        """

    # --- snapshots

    @abstractmethod
    async def snapshots(self, topic: str, id: str) -> list[SnapshotRow]:
        """The snapshots of a journal, of all lives, the highest number first."""

    @abstractmethod
    async def save_snapshot(
        self, topic: str, id: str, snapshot: SnapshotRow, newest: int, guard: SnapshotGuard
    ) -> bool:
        """Save a snapshot, and keep the `newest` ones of its life; older ones, and those of other lives, go.

        False: the journal has another life by now, or had none and may have one, and nothing was saved (R44).
        """

    @abstractmethod
    async def delete_snapshots(self, topic: str, id: str, life: str, through: int, guard: SnapshotGuard) -> None:
        """Delete the snapshots of this life with numbers up to `through`, inclusive."""

    # --- dead letters

    @abstractmethod
    async def dead_letters(self, topic: str) -> list[DeadLetter]:
        """The dead letters of a topic by partition and offset, those that were skipped among them."""

    @abstractmethod
    async def skip(self, topic: str, partition: int, offset: int, now: int) -> DeadLetter:
        """Skip a dead letter (R43): its key is closed by the next one that nobody has skipped, or open again.

        `NotFound` if there is no such dead letter; a second skip has no effect.
        """

    # --- leases

    @abstractmethod
    async def leases(self, topic: str) -> dict[int, Lease]:
        """The leases of the topic's partitions; one that has ended is left out."""

    @abstractmethod
    async def take_leases(self, topic: str, partitions: Sequence[int], owner: str, seconds: float) -> set[int]:
        """Take or renew the leases of these partitions for so many seconds; those that the owner has then.

        A lease of another owner stays until it ends. Nothing depends on a lease (R24): two replicators only waste work.
        """

    @abstractmethod
    async def release_leases(self, topic: str, owner: str) -> None:
        """End all leases of this owner; without an effect if it has none."""

    @abstractmethod
    async def close(self) -> None:
        """Finish the calls under way, and close; a second call has no effect."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
