"""Which actions count, and what they change: pure functions, used by readers, writers and every replicator (R27).

`step` applies one action to the state of one journal, which is its head row. `KeyFold` applies a batch, one action
after the other, and nets only the writes. So every way to split a log into batches gives the same rows.
"""

import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import NamedTuple, TypeAlias

import msgspec

from cordwood.store.rows import Deletion, EventRow, HeadRow, KeyChanges, Place

from .action import Action, Append, Delete, Mark, Purge
from .bad_record import BadRecord

_LIVES = uuid.UUID("8a5f4a52-6c0f-5d0e-9b1a-3f6f0c7d2e41")
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY_MS = 86_400_000


class Poison(msgspec.Struct, frozen=True):
    """A record with a `journal.action` header that cannot be decoded (R43); `append` if only its value is bad."""

    reason: str
    append: Append | None = None


class Topic(NamedTuple):
    """The facts about a partition of a topic that decide what an action makes of a state."""

    id: str
    partition: int
    segment_size: int


Told: TypeAlias = Action | Poison


class Verdict(NamedTuple):
    """The state after an action, and whether it counted."""

    state: HeadRow | None
    counted: bool
    first: int = 0
    """For an Append that counted: the number of its first event that counts."""


def life_of(topic_id: str, partition: int, offset: int) -> str:
    """The name of the life that an Append at this place begins (R40): the same for everybody.

    >>> life_of("17", 0, 4)
    '5a74ac36-ef35-5c9c-8fa0-72bc20c3567e'
    """
    return str(uuid.uuid5(_LIVES, f"{topic_id}/{partition}/{offset}"))


def seq_nr_of(state: HeadRow | None) -> int:
    """The number of the last event; 0 if the journal has none.

    A foreign replicator may leave `delete_to` above `seq_nr`: numbers that are deleted never come back.
    """
    return 0 if state is None else max(state.seq_nr, state.delete_to or 0)


def exists(state: HeadRow | None) -> bool:
    """Whether there is a journal: a row without a number only closes its key."""
    return state is not None and seq_nr_of(state) > 0


def step(state: HeadRow | None, told: Told, offset: int, timestamp: int, topic: Topic) -> Verdict:
    """Apply one action, at its place in the log (R20, R40).

    The expiry of an Append is in its value: a caller that folds headers alone must not use the expiry of the states.
    The replicator adds it by `with_expiry`.
    """
    kind = type(told)
    if kind is Append:
        return _append(state, told, offset, timestamp, topic)  # type: ignore[arg-type]
    if kind is Mark:
        return Verdict(state, False)
    if kind is Delete:
        return _delete(state, told, offset, timestamp, topic)  # type: ignore[arg-type]
    if kind is Purge:
        return _purge(state, told)  # type: ignore[arg-type]
    return _poison(state, told, offset, timestamp, topic)  # type: ignore[arg-type]


def _append(state: HeadRow | None, append: Append, offset: int, timestamp: int, topic: Topic) -> Verdict:
    seq_nr = seq_nr_of(state)
    if append.expected is None:
        # From Scala, or a topic with a single writer: the events above seq_nr count, and gaps are allowed.
        if append.last <= seq_nr:
            return Verdict(state, False)
        first = max(append.first, seq_nr + 1)
    else:
        first = append.first
        if first != seq_nr + 1 or append.expected != seq_nr or not _same_journal(state, append):
            return Verdict(state, False)
    if state is None or not seq_nr:
        head = HeadRow(
            partition=topic.partition,
            offset=offset,
            segment_size=topic.segment_size,
            seq_nr=append.last,
            created=timestamp,
            updated=timestamp,
            # A Scala reader needs it: it looks for events from 1 on otherwise.
            delete_to=first - 1 if first > 1 else None,
            life=append.named or life_of(topic.id, topic.partition, offset),
            origin=append.origin,
            closed=None if state is None else state.closed,
            append_id=append.id,
        )
        return Verdict(head, True, first)
    keep = append.keep_expiry
    head = HeadRow(
        partition=topic.partition,
        offset=offset,
        segment_size=state.segment_size,
        seq_nr=append.last,
        created=state.created,
        updated=timestamp,
        delete_to=state.delete_to,
        life=state.life or append.named or life_of(topic.id, topic.partition, offset),
        expire_after_ns=state.expire_after_ns if keep else None,
        expire_on=state.expire_on if keep else None,
        origin=state.origin,
        closed=state.closed,
        append_id=append.id,
    )
    return Verdict(head, True, first)


def _same_journal(state: HeadRow | None, append: Append) -> bool:
    if append.life is not None and (state is None or state.life != append.life):
        return False
    return append.after is None or (state is not None and state.append_id == append.after)


def _delete(state: HeadRow | None, delete: Delete, offset: int, timestamp: int, topic: Topic) -> Verdict:
    if delete.life is not None and (state is None or state.life != delete.life):
        return Verdict(state, False)
    if state is None or not seq_nr_of(state):
        # A Scala program's: it creates the journal without events, so that numbers continue after it.
        closed = None if state is None else state.closed
        head = HeadRow(
            partition=topic.partition,
            offset=offset,
            segment_size=topic.segment_size,
            seq_nr=delete.to,
            created=timestamp,
            updated=timestamp,
            delete_to=delete.to,
            origin=delete.origin,
            closed=closed,
        )
        return Verdict(head, True)
    seq_nr = seq_nr_of(state)
    head = msgspec.structs.replace(
        state,
        partition=topic.partition,
        offset=offset,
        updated=timestamp,
        seq_nr=seq_nr,
        delete_to=max(state.delete_to or 0, min(delete.to, seq_nr)),
    )
    return Verdict(head, True)


def _purge(state: HeadRow | None, purge: Purge) -> Verdict:
    if purge.life is not None and (state is None or state.life != purge.life):
        return Verdict(state, False)
    if purge.seq_nr is not None and seq_nr_of(state) != purge.seq_nr:
        return Verdict(state, False)
    return Verdict(None, True)


def _poison(state: HeadRow | None, poison: Poison, offset: int, timestamp: int, topic: Topic) -> Verdict:
    """Close the key. An Append with a sound header takes its numbers: who folds headers alone must agree (R43)."""
    if poison.append is not None:
        verdict = _append(state, poison.append, offset, timestamp, topic)
        if not verdict.counted:
            # Nobody reads the value of an append that lost.
            return verdict
        state = verdict.state
    place = Place(topic.partition, offset)
    if state is None:
        head = HeadRow(
            partition=topic.partition,
            offset=offset,
            segment_size=topic.segment_size,
            seq_nr=0,
            created=timestamp,
            updated=timestamp,
            closed=place,
        )
    else:
        head = msgspec.structs.replace(
            state, partition=topic.partition, offset=offset, updated=timestamp, closed=state.closed or place
        )
    return Verdict(head, True, poison.append.first if poison.append is not None else 0)


def with_expiry(state: HeadRow, timestamp: int, expire_after_ns: int) -> HeadRow:
    """The state after an Append with an expiry: the UTC day of its timestamp and the span after it (R22)."""
    day = _EPOCH_DAY + (timestamp + expire_after_ns // 1_000_000) // _DAY_MS
    expire_on = date.fromordinal(min(day, date.max.toordinal()))
    return msgspec.structs.replace(state, expire_after_ns=expire_after_ns, expire_on=expire_on)


class KeyRecord(NamedTuple):
    """One record of a key, with the action that its header says."""

    offset: int
    timestamp: int
    told: Told
    value: bytes | None
    headers: dict[str, str] | None


RowsOf: TypeAlias = Callable[[KeyRecord, Append, str | None, int], tuple[Sequence[EventRow], int | None]]
"""The rows of an Append from this number on, in this life, and its expiry in ns; `BadRecord` if it is poison."""


class KeyFold:
    """Folds the records of one key into the changes that a store writes."""

    def __init__(self, id: str, head: HeadRow | None, topic: Topic, rows_of: RowsOf) -> None:
        self._id = id
        self._before = head
        self._state = head
        self._topic = topic
        self._rows_of = rows_of
        self._rows: list[EventRow] = []
        self._deletion: Deletion | None = None
        self._purge: int | None = None
        self._reached = seq_nr_of(head)
        self.events = 0
        """How many events counted, also of those that a later action of the batch deleted."""
        self.removals = 0
        """How many Deletes and Purges counted: each makes a store write tombstones."""

    def add(self, record: KeyRecord) -> str | None:
        """Apply the next record; the reason if it is poison, and closes the key (R43)."""
        if self._is_applied(record):
            return None
        told = record.told
        if isinstance(told, Append):
            return self._add_append(record, told)
        verdict = step(self._state, told, record.offset, record.timestamp, self._topic)
        if isinstance(told, Poison):
            self._state = verdict.state
            return told.reason
        if verdict.counted:
            self._state = verdict.state
            self.removals += isinstance(told, Purge | Delete)
            if isinstance(told, Purge):
                self._purge, self._deletion = record.offset, None
                self._rows.clear()
            elif verdict.state is not None:
                self._delete(record.offset, verdict.state.delete_to or 0)
        return None

    def changes(self) -> KeyChanges | None:
        """All changes of the records, netted; None if none of them counted."""
        if self._state is self._before and self._purge is None and self._deletion is None:
            return None
        return KeyChanges(
            id=self._id,
            head=self._state,
            rows=self._rows,
            deletion=self._deletion,
            purge=self._purge,
            reached=self._reached,
        )

    def _is_applied(self, record: KeyRecord) -> bool:
        """Whether the head row has this record already."""
        before = self._before
        if before is None or before.partition != self._topic.partition or record.offset > before.offset:
            return False
        if record.offset == before.offset and isinstance(record.told, Delete):
            # R24: a crash may have come between the head row and the tombstones.
            self._deletion = Deletion(record.offset, before.delete_to or 0)
        return True

    def _add_append(self, record: KeyRecord, append: Append) -> str | None:
        self._reached = max(self._reached, append.last)
        verdict = step(self._state, append, record.offset, record.timestamp, self._topic)
        if not verdict.counted:
            return None
        state = verdict.state
        assert state is not None
        reason: str | None = None
        try:
            rows, expire_after_ns = self._rows_of(record, append, state.life, verdict.first)
        except BadRecord as error:
            reason = str(error)
            poison = Poison(reason, append)
            self._state = step(self._state, poison, record.offset, record.timestamp, self._topic).state
            return reason
        self._rows.extend(rows)
        self.events += len(rows)
        self._state = state if expire_after_ns is None else with_expiry(state, record.timestamp, expire_after_ns)
        return None

    def _delete(self, offset: int, through: int) -> None:
        self._deletion = Deletion(offset, through)
        self._rows = [row for row in self._rows if row.seq_nr > through]


def fold_states(
    state: HeadRow | None, records: Iterable[tuple[int, int, Told]], topic: Topic
) -> Iterable[tuple[int, Told, Verdict]]:
    """Apply (offset, timestamp, action) after each other; the verdict of each."""
    for offset, timestamp, told in records:
        verdict = step(state, told, offset, timestamp, topic)
        state = verdict.state
        yield offset, told, verdict
