"""The rows of a store, and the changes that a replicator writes: plain values, the same for every store.

Times are milliseconds UTC of record timestamps, unless a name says otherwise: nothing in an event row or a head row
comes from a clock (R27). `msgspec.Struct` makes a row in a tenth of the time of a dataclass. Event rows come by the
thousand and hold no cycles, so that the garbage collector need not look at them.
"""

from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

import msgspec


class Place(NamedTuple):
    """A record's place: offsets are compared together with their partition (R23)."""

    partition: int
    offset: int


class HeadRow(msgspec.Struct, frozen=True):
    """One journal: its numbers, its life, its expiry, and the last action that counted.

    >>> HeadRow(partition=0, offset=7, segment_size=10_000, seq_nr=3, created=5, updated=9).delete_to is None
    True
    """

    partition: int
    offset: int
    """The place of the key's last action that counted."""
    segment_size: int
    seq_nr: int
    """The number of the last event. 0: the journal does not exist, and only its key is closed."""
    created: int
    updated: int
    delete_to: int | None = None
    life: str | None = None
    """The record_id (R40), as text; None if a foreign Delete created the row, and no Append followed."""
    expire_after_ns: int | None = None
    expire_on: date | None = None
    origin: str | None = None
    closed: Place | None = None
    """The first poison record of the key that nobody has skipped (R43)."""
    append_id: str | None = None
    """The id of the last Append that counted; None if it had none."""


class EventRow(msgspec.Struct, frozen=True, gc=False):
    """One event, in the columns of the table `journal`. The store adds id, topic and segment."""

    seq_nr: int
    timestamp: int
    partition: int
    offset: int
    origin: str | None
    version: str | None
    life: str | None
    """The life that the event belongs to; None in rows of older Scala libraries."""
    metadata: str | None
    """JSON text: `{"header": {…}, "payload": {…}, "id": "…"}`, where `id` is the append's own (R21)."""
    payload_type: str | None
    """`json`, `text`, `binary`, or None if the event has no payload."""
    payload_txt: str | None = None
    payload_bin: bytes | None = None
    tags: tuple[str, ...] | None = None
    headers: dict[str, str] | None = None


class Deletion(msgspec.Struct, frozen=True):
    """The Deletes of a batch that counted, netted: rows with seq_nr <= through go."""

    offset: int
    """The offset of the last one: a store with write times uses it."""
    through: int


class KeyChanges(msgspec.Struct, frozen=True):
    """All changes of one key in a batch, netted: first the purge, then the deletion, then the rows, then the head.

    `head` is the row after the batch; None if the journal does not exist then.
    """

    id: str
    head: HeadRow | None
    rows: Sequence[EventRow] = ()
    """The rows to insert, in the order of their numbers. None of them is at or below `deletion.through`."""
    deletion: Deletion | None = None
    purge: int | None = None
    """The offset of the last Purge: all older rows of the key go, with its snapshots and dead letters."""
    reached: int = 0
    """The highest seq_nr that an Append at or before this batch can have reached: tombstones cover it (R24)."""


class DeadLetter(msgspec.Struct, frozen=True):
    """A poison record (R43), or a range of records that was lost and accepted (R42).

    >>> DeadLetter("orders", 0, 17, through=None, id="order-1", reason="the header is not JSON").place
    Place(partition=0, offset=17)
    """

    topic: str
    partition: int
    offset: int
    through: int | None = None
    """The last offset of a lost range; None for a single record."""
    id: str | None = None
    """The journal that the record closes; None if it has no key, or the key is not UTF-8."""
    reason: str = ""
    timestamp: int = 0
    key: bytes | None = None
    header: bytes | None = None
    value: bytes | None = None
    skipped: int | None = None
    """When an operator skipped it, by the clock; None if nobody has."""

    @property
    def place(self) -> tuple[int, int]:
        """The partition and the offset of the record.

        >>> DeadLetter("orders", 2, 5).place[0]
        2
        """
        return Place(self.partition, self.offset)


class PartitionChanges(msgspec.Struct, frozen=True):
    """A batch of one partition, folded: a store writes it as a whole, and moves the pointer last (R24)."""

    topic: str
    partition: int
    after: int | None
    """The pointer that the batch was folded after; None if there was none."""
    pointer: int
    """The highest offset of the batch: the pointer once it is written."""
    keys: Sequence[KeyChanges] = ()
    dead_letters: Sequence[DeadLetter] = ()
    began: float | None = None
    """The second of the boot clock (`boot_seconds`) before the pointer and the head rows were read; None: now.

    A store with write times writes nothing of a batch that is an hour old.
    """


class SnapshotRow(msgspec.Struct, frozen=True):
    """A snapshot of a journal at one of its numbers; it belongs to a life (R44)."""

    life: str
    seq_nr: int
    timestamp: int
    payload: bytes
    metadata: str | None = None


class Lease(msgspec.Struct, frozen=True):
    """A process's turn to replicate a partition. It saves work, and nothing depends on it (R24).

    >>> Lease("host/17", 1_700_000_010_000).owner
    'host/17'
    """

    owner: str
    until: int
    """When it ends unless its owner renews it, by the store's clock."""


class Binding(msgspec.Struct, frozen=True):
    """What a topic is bound to at its first use (R23): the row `cordwood/<topic>` of the table `setting`."""

    topic_id: str
    partitions: int
    single_writer: bool
    segment_size: int
    replicator: str
    """`cordwood`, or `scala` where the Scala library's replicator serves the topic."""
    base_us: int
    """The write-time base (R24), in microseconds."""
