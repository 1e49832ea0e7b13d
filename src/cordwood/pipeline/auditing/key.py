"""One key: its records folded again, and compared with what the store has of it. No I/O."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import msgspec

from cordwood.journal.action import Append
from cordwood.journal.fold import KeyFold, KeyRecord, Topic
from cordwood.journal.record_rows import event_rows
from cordwood.store import EventRow, HeadRow
from cordwood.store.rows import Place

from .findings import Finding, in_words

_encode = msgspec.msgpack.Encoder().encode


class _Tell(Protocol):
    """Adds a finding about a key."""

    def __call__(self, what: str, numbers: Sequence[int] = (), offset: int | None = None) -> None: ...


class Letter(NamedTuple):
    """A dead letter of a key."""

    id: str
    partition: int
    offset: int
    skipped: bool


class Stored(NamedTuple):
    """An event row of the store, as far as it is compared."""

    seq_nr: int
    partition: int
    offset: int
    life: str | None
    hash: bytes


def stored(row: EventRow) -> Stored:
    """What is compared of a row."""
    return Stored(row.seq_nr, row.partition, row.offset, row.life, content_hash(row))


def content_hash(row: EventRow) -> bytes:
    """A hash of everything that a reader returns of an event; stores keep an empty collection as none."""
    tags, headers = sorted(row.tags or ()), sorted((row.headers or {}).items())
    values = (row.timestamp, row.origin, row.version, row.metadata, row.payload_type, row.payload_txt, row.payload_bin)
    return hashlib.blake2b(_encode((*values, tags, headers)), digest_size=12).digest()


@dataclass
class Expected:
    """What the log says of a key, as of the last record that was added."""

    id: str
    topic: Topic
    state: HeadRow | None = None
    rows: dict[int, Stored] = field(default_factory=dict)
    events: dict[int, EventRow] | None = None
    """The rows themselves, for a key that is rewritten."""
    poison: list[int] = field(default_factory=list)
    """The offsets of the records that close the key, since its last Purge."""
    losers: set[int] = field(default_factory=set)
    """The offsets of Appends that did not count."""

    def add(self, records: Sequence[KeyRecord]) -> None:
        """Fold the next records: any split gives the same rows (R27)."""
        fold = KeyFold(self.id, self.state, self.topic, self._rows_of)
        for record in records:
            if isinstance(record.told, Append):
                self.losers.add(record.offset)
            if fold.add(record) is not None:
                self.poison.append(record.offset)
                self.losers.discard(record.offset)
        changes = fold.changes()
        if changes is None:
            return
        if changes.purge is not None:
            self.rows.clear()
            self.poison = [offset for offset in self.poison if offset > changes.purge]
            if self.events is not None:
                self.events.clear()
        if changes.deletion is not None:
            for number in [number for number in self.rows if number <= changes.deletion.through]:
                del self.rows[number]
        for row in changes.rows:
            self.rows[row.seq_nr] = stored(row)
            if self.events is not None:
                self.events[row.seq_nr] = row
        self.state = changes.head

    def settle(self, skipped: set[int]) -> None:
        """R43: an operator has skipped some of the records that close the key."""
        state = self.state
        if state is None or state.closed is None:
            return
        left = [offset for offset in self.poison if offset not in skipped]
        closed = Place(self.topic.partition, left[0]) if left else None
        self.state = None if closed is None and not state.seq_nr else msgspec.structs.replace(state, closed=closed)

    def _rows_of(
        self, record: KeyRecord, append: Append, life: str | None, first: int
    ) -> tuple[list[EventRow], int | None]:
        self.losers.discard(record.offset)
        return event_rows(
            append,
            record.value or b"",
            record.headers,
            self.topic.partition,
            record.offset,
            record.timestamp,
            life,
            first - 1,
        )


def compare(
    expected: Expected | None,
    id: str,
    partition: int,
    head: HeadRow | None,
    rows: Sequence[Stored],
    letters: Sequence[Letter],
    *,
    has_pointer: bool,
    lives: bool,
) -> list[Finding]:
    """What is wrong with a key. Without `expected`, its history is not whole, and the store is compared with itself.

    `lives`: whether lives have names, which the Scala library's replicator gives by chance.
    """
    whole = expected is not None
    found: list[Finding] = []

    def tell(what: str, numbers: Sequence[int] = (), offset: int | None = None) -> None:
        found.append(Finding(what, partition, offset, id, in_words(numbers) or None, whole))

    if head is not None and head.closed is not None:
        tell("closed key", offset=head.closed.offset)
    if head is not None and not has_pointer:
        tell("row without a pointer", offset=head.offset)
    if head is None:
        if rows:
            tell("orphan event", [row.seq_nr for row in rows], rows[0].offset)
        sound: dict[int, Stored] = {}
    else:
        sound = _compare_with_head(head, rows, tell, lives)
    if expected is None:
        if head is not None:
            _compare_numbers(head, sound, tell)
        return found
    _compare_heads(expected.state, head, tell, lives)
    if expected.state is not None and head is not None:
        _compare_events(expected, sound, rows, tell)
    _compare_letters(expected, letters, tell)
    return found


def _compare_with_head(head: HeadRow, rows: Sequence[Stored], tell: _Tell, lives: bool) -> dict[int, Stored]:
    """R25: the rows that a reader returns; the others are findings."""
    others = [row for row in rows if lives and None not in (row.life, head.life) and row.life != head.life]
    if others:
        tell("event of another life", [row.seq_nr for row in others], others[0].offset)
    sound: dict[int, Stored] = {}
    twice: list[Stored] = []
    for row in rows:
        if row in others:
            continue
        known = sound.get(row.seq_nr)
        if known is not None:
            twice.append(row)
        if known is None or row.offset < known.offset:
            sound[row.seq_nr] = row
    if twice:
        tell("duplicate event", [row.seq_nr for row in twice], twice[0].offset)
    beyond = [number for number in sound if not (head.delete_to or 0) < number <= head.seq_nr]
    if beyond:
        tell("extra event", beyond, sound[beyond[0]].offset)
    return {number: row for number, row in sound.items() if number not in beyond}


def _compare_numbers(head: HeadRow, sound: Mapping[int, Stored], tell: _Tell) -> None:
    due = range((head.delete_to or 0) + 1, head.seq_nr + 1)
    if due and not sound:
        tell("head row without events", due, head.offset)
    elif missing := [number for number in due if number not in sound]:
        tell("gap", missing, head.offset)


def _compare_heads(expected: HeadRow | None, head: HeadRow | None, tell: _Tell, lives: bool) -> None:
    if expected is None and head is not None:
        tell("extra journal", offset=head.offset)
    elif expected is not None and head is None:
        tell("missing journal", offset=expected.offset)
    elif expected is not None and head is not None:
        same = head == expected if lives else (head.seq_nr, head.delete_to) == (expected.seq_nr, expected.delete_to)
        if not same:
            tell("different head row", offset=head.offset)


def _compare_events(expected: Expected, sound: Mapping[int, Stored], rows: Sequence[Stored], tell: _Tell) -> None:
    missing = [number for number in expected.rows if number not in sound]
    if missing and not rows:
        tell("head row without events", missing, expected.rows[missing[0]].offset)
    elif missing:
        tell("missing event", missing, expected.rows[missing[0]].offset)
    losers = [number for number, row in sound.items() if row.offset in expected.losers]
    if losers:
        tell("stored loser", losers, sound[losers[0]].offset)
    extra = [number for number in sound if number not in expected.rows and number not in losers]
    if extra:
        tell("extra event", extra, sound[extra[0]].offset)
    different = [
        number
        for number, row in sound.items()
        if number in expected.rows and number not in losers and _differ(row, expected.rows[number])
    ]
    if different:
        tell("different event", different, sound[different[0]].offset)


def _differ(row: Stored, expected: Stored) -> bool:
    return (row.partition, row.offset, row.hash) != (expected.partition, expected.offset, expected.hash)


def _compare_letters(expected: Expected, letters: Sequence[Letter], tell: _Tell) -> None:
    known = {letter.offset for letter in letters}
    missing = [offset for offset in expected.poison if offset not in known]
    if missing:
        tell("missing dead letter", offset=missing[0])
    extra = sorted(known - set(expected.poison))
    if extra:
        tell("extra dead letter", offset=extra[0])
