"""What a store writes (R24). Each function is a part of one call.

A batch has no transaction, but an order, so that a crash between any two statements harms nothing: dead letters; the
mark that hides what a Purge or Delete takes; tombstones; event rows; head rows; the tombstones of Deletes without a
later Append; the old copies of head rows that have moved; the pointer. All values are encoded before the first
statement leaves, so that a wrong one writes nothing; what has no room in memory is encoded again when it leaves.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from cordwood.errors import InvalidInput, NotFound
from cordwood.store.interface import SnapshotGuard
from cordwood.store.rows import Binding, DeadLetter, EventRow, HeadRow, KeyChanges, PartitionChanges, Place, SnapshotRow
from cordwood.store.segments import head_segments, segment_of

from . import reading
from .driver import UNSET, Bound, Statement, batch
from .reading import BINDING_PREFIX, HeadExtra, StoredHead, encode_extra
from .session import Call
from .write_time import TooOld, is_whole, segments_through, write_time

BATCH_BYTES: Final = 256 * 1024
BATCH_ROWS: Final = 1000

KEPT_BYTES: Final = 16 << 20
"""Encoded statements of one batch that are kept until they leave."""

_BOUND_BYTES: Final = 1024  # of the objects around an encoded statement
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_encode_binding = msgspec.json.Encoder().encode


class Writing(NamedTuple):
    """What all statements of a batch share."""

    base_us: int
    segment_size: int
    """Of new journals: of a key without a head row."""
    fresh: Callable[[], None]
    """Raises TooOld."""
    older: Callable[[str], int | None]
    """The old segment in which a key's head row was found, of late."""


async def write(call: Call, changes: PartitionChanges, how: Writing) -> bool:
    """Write a batch, and move its pointer last; False if it is too old, and nothing more was written."""
    try:
        how.fresh()
        plan = await _Planner(call, changes, how).plan()
        for step in plan:
            await call.send_all(step, how.fresh)
    except TooOld:
        return False
    return True


class _Statements(NamedTuple):
    """The prepared statements of a batch."""

    put_event: Statement
    put_head: Statement
    delete_head: Statement
    hide_events: Statement
    delete_segment: Statement
    delete_through: Statement
    delete_snapshots: Statement
    delete_letters: Statement
    put_letter: Statement


class _Planner:
    """The statements of a batch, in steps: those of one step in any order."""

    def __init__(self, call: Call, changes: PartitionChanges, how: Writing) -> None:
        self._call = call
        self._changes = changes
        self._topic = changes.topic
        self._how = how
        self._room = KEPT_BYTES

    async def plan(self) -> list[Iterable[Bound]]:
        cql = self._call.cql
        self._to = to = _Statements(*[await self._call.statement(getattr(cql, name)) for name in _Statements._fields])
        changes = self._changes
        stored = await self._stored(changes.keys)
        left = await self._left_over([key.id for key in changes.keys if key.purge is not None and key.id not in stored])
        letters = [self._letter(to.put_letter, letter) for letter in changes.dead_letters]
        hidden: list[Bound] = []
        removed: list[Iterable[Bound]] = []
        rows: list[Iterable[Bound]] = []
        heads: list[Bound] = []
        removed_last: list[Iterable[Bound]] = []
        moved: list[Bound] = []
        for key in changes.keys:
            before = stored.get(key.id)
            if before is not None:
                hidden.extend(self._hide(key, before))
            if key.purge is not None:
                removed.append(self._checked(self._purge, key, key.purge, before, left.get(key.id, ())))
            if key.deletion is not None:
                (removed_last if _ends_with_delete(key) else removed).append(self._checked(self._delete, key))
            rows.append(self._checked(self._rows, key))
            heads.extend(self._heads(key))
            moved.extend(self._moved(key))
        steps = [letters, hidden, _each(removed), _each(rows), heads, _each(removed_last), moved]
        return [*steps, [await self._pointer()]]

    def _checked(self, bind: Callable[..., Iterator[Bound]], *of: Any) -> Iterable[Bound]:
        """Bind statements, so that a wrong value shows before anything is written; bind them again if they are many."""
        kept: list[Bound] = []
        size = 0
        for bound in bind(*of):
            size += bound.size + _BOUND_BYTES
            if size <= self._room:
                kept.append(bound)
            else:
                kept.clear()
        if size > self._room:
            return bind(*of)
        self._room -= size
        return kept

    async def _stored(self, keys: Sequence[KeyChanges]) -> dict[str, StoredHead]:
        """The head rows as they are, of the keys for which the statements depend on them."""
        wanted = [key.id for key in keys if key.purge is not None or _is_amid(key)]
        return await reading.stored_heads(self._call, self._topic, wanted) if wanted else {}

    async def _left_over(self, ids: Sequence[str]) -> dict[str, Sequence[int]]:
        """The first segments that have rows without a head row, which a Purge takes, too."""
        first = range(reading.SEGMENTS_AT_ONCE)
        cql = self._call.cql.parts_with_events
        answers = await self._call.ask_all(cql, [(id, self._topic, first) for id in ids]) if ids else []
        return {id: [row[0] for row in answer.rows] for id, answer in zip(ids, answers, strict=True)}

    def _at(self, offset: int) -> int:
        return write_time(self._how.base_us, offset)

    def _hide(self, key: KeyChanges, before: StoredHead) -> Iterator[Bound]:
        """A reader that finds rows missing looks at the head row again (R25): it must show why, before they go.

        The head row that the batch ends with comes later. This changes nothing that decides a verdict: `delete_to` does
        not pass the number of the last event.
        """
        head = before.head
        if key.purge is not None:
            offset, through = key.purge, head.seq_nr
        elif key.deletion is not None and _is_amid(key):
            offset, through = key.deletion.offset, min(key.deletion.through, head.seq_nr)
        else:
            return
        if through > (head.delete_to or 0):
            yield self._to.hide_events.bind((self._at(offset), through, self._topic, before.segment, key.id))

    def _purge(self, key: KeyChanges, offset: int, before: StoredHead | None, left: Sequence[int]) -> Iterator[Bound]:
        at = self._at(offset)
        reached, size = key.reached, self._how.segment_size
        if before is not None:
            reached = max(reached, before.head.seq_nr, before.head.delete_to or 0)
            size = before.head.segment_size
        # By the topic's size, too: so long are the segments of a life that begins in this batch, or after a Purge.
        of_topic = segments_through(key.reached, self._how.segment_size)
        for segment in dict.fromkeys((*segments_through(reached, size), *of_topic, *left)):
            yield self._to.delete_segment.bind((at, key.id, self._topic, segment))
        yield self._to.delete_snapshots.bind((at, self._topic, key.id))
        yield self._to.delete_letters.bind((at, self._topic, self._changes.partition, key.id))

    def _delete(self, key: KeyChanges) -> Iterator[Bound]:
        deletion, head = key.deletion, key.head
        assert deletion is not None
        at, size = self._at(deletion.offset), self._how.segment_size if head is None else head.segment_size
        for segment in segments_through(deletion.through, size):
            if is_whole(segment, size, deletion.through):
                yield self._to.delete_segment.bind((at, key.id, self._topic, segment))
            else:
                yield self._to.delete_through.bind((at, key.id, self._topic, segment, deletion.through))

    def _rows(self, key: KeyChanges) -> Iterator[Bound]:
        if not key.rows:
            return
        assert key.head is not None
        size = key.head.segment_size
        put, topic, at = self._to.put_event, self._topic, self._at
        together: list[Bound] = []
        weight = 0
        of: int | None = None
        for row in key.rows:
            segment = segment_of(row.seq_nr, size)
            bound = put.bind((key.id, topic, segment, *_event_values(row), at(row.offset)))
            if together and (segment != of or weight + bound.size > BATCH_BYTES or len(together) >= BATCH_ROWS):
                yield batch(together)
                together, weight = [], 0
            together.append(bound)
            weight += bound.size
            of = segment
        yield batch(together)

    def _heads(self, key: KeyChanges) -> Iterator[Bound]:
        """A Purge takes the head row after all tombstones: until then it says how many there are."""
        if key.head is None or key.purge is not None:
            offset = self._changes.pointer if key.purge is None else key.purge
            yield batch(list(self._no_head(key.id, self._at(offset))), parts=True)
        if key.head is not None:
            yield self._head(key, key.head)

    def _head(self, key: KeyChanges, head: HeadRow) -> Bound:
        at = self._at(head.offset)
        now = head_segments(key.id).now
        return self._to.put_head.bind((self._topic, now, key.id, *_head_values(head), at))

    def _moved(self, key: KeyChanges) -> Iterator[Bound]:
        """A head row leaves its old segment once it is in that of now: a reader finds at least one of both.

        A reader of the Scala library, too, prefers that of now.
        """
        old = self._how.older(key.id)
        if key.head is not None and key.purge is None and old is not None:
            yield self._to.delete_head.bind((self._at(key.head.offset), self._topic, old, key.id))

    def _no_head(self, id: str, at: int) -> Iterator[Bound]:
        for segment in dict.fromkeys(head_segments(id)):
            yield self._to.delete_head.bind((at, self._topic, segment, id))

    def _letter(self, put: Statement, letter: DeadLetter) -> Bound:
        values = (
            letter.topic,
            letter.partition,
            letter.id or "",
            letter.offset,
            UNSET if letter.through is None else letter.through,
            letter.reason,
            letter.timestamp,
            *(UNSET if value is None else value for value in (letter.key, letter.header, letter.value)),
        )
        # `skipped` is not among the columns: a batch from before a skip leaves it as it is (R43).
        return put.bind((*values, self._at(letter.offset)))

    async def _pointer(self) -> Bound:
        changes, cql = self._changes, self._call.cql
        now, at = _now(), self._at(changes.pointer)
        place = changes.topic, changes.partition
        if changes.after is None:
            put = await self._call.statement(cql.put_first_pointer)
            return put.bind((*place, changes.pointer, now, now, at))
        put = await self._call.statement(cql.put_pointer)
        return put.bind((at, changes.pointer, now, *place))


def _each(of_keys: Iterable[Iterable[Bound]]) -> Iterator[Bound]:
    """The statements of all keys, one after the other."""
    for statements in of_keys:
        yield from statements


def _is_amid(key: KeyChanges) -> bool:
    """Whether an Append follows the Delete in its batch: its tombstones come before the head row then."""
    return key.deletion is not None and not _ends_with_delete(key)


def _ends_with_delete(key: KeyChanges) -> bool:
    return key.deletion is not None and key.head is not None and key.head.offset <= key.deletion.offset


def _event_values(row: EventRow) -> Sequence[Any]:
    return (
        row.seq_nr,
        _not_null("timestamp", row.timestamp),
        row.partition,
        row.offset,
        *(
            UNSET if value is None else value
            for value in (
                row.origin,
                row.version,
                row.life,
                row.metadata,
                row.payload_type,
                row.payload_txt,
                row.payload_bin,
                row.tags or None,
                row.headers or None,
            )
        ),
    )


def _head_values(head: HeadRow) -> Sequence[Any]:
    """Every column, null where there is no value: so all cells have the write time of the last action."""
    extra = None
    if head.closed is not None or head.append_id is not None:
        extra = encode_extra(HeadExtra(head.closed, head.append_id)).decode()
    return (
        head.partition,
        head.offset,
        head.segment_size,
        head.seq_nr,
        head.delete_to,
        head.created,
        _day_of(head.created),
        head.updated,
        head.expire_after_ns,
        head.expire_on,
        head.life,
        head.origin,
        extra,
    )


def _not_null(name: str, value: int) -> int:
    if value is None:
        raise InvalidInput(f"an event row has no {name}: the row lacks a value", outcome="not_written")
    return value


def _day_of(ms: int) -> date | None:
    """The UTC day; None for a time that no calendar has."""
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).date()
    except OverflowError:
        return None


def _now() -> int:
    """Only pointers and settings hold the time of the clock (R27)."""
    return time.time_ns() // 1_000_000


# --- settings


async def bind(call: Call, topic: str, wanted: Binding) -> Binding:
    """Bind a topic unless it is bound (R23): of several programs at once one wins, by a conditional insert."""
    bound = await reading.binding(call, topic)
    while bound is None:
        value = _encode_binding(wanted).decode()
        await call.ask(call.cql.put_setting_once, (BINDING_PREFIX + topic, value, _now()))
        bound = await reading.binding(call, topic)
    return bound


async def rebind(call: Call, topic: str, held: Binding, wanted: Binding) -> Binding:
    """Replace a binding, if it is still the one that its caller knows (R23)."""
    key = BINDING_PREFIX + topic
    values = _encode_binding(wanted).decode(), _now(), key, _encode_binding(held).decode()
    await call.ask(call.cql.replace_setting, values)
    bound = await reading.binding(call, topic)
    return held if bound is None else bound


def expired_key(topic: str) -> str:
    """The setting that keeps the last day for which `purge_expired` is complete. A topic's name has no '/'."""
    return f"{BINDING_PREFIX}{topic}/expired-through"


async def set_expired_through(call: Call, topic: str, day: date) -> None:
    """Move the day forward: the day is the write time, so that an older run that ends later moves nothing back."""
    values = (expired_key(topic), day.isoformat(), _now(), day.toordinal())
    await call.ask(call.cql.put_setting_at, values)


# --- snapshots


async def save_snapshot(
    call: Call, topic: str, id: str, snapshot: SnapshotRow, newest: int, guard: SnapshotGuard, how: Writing
) -> bool:
    """Save a snapshot, and keep the newest ones of its life; False, and nothing saved, if the life is another."""
    at = write_time(how.base_us, guard.fence - 1)
    # Above those of the same number: a clock may step back.
    before, _ = await call.ask(call.cql.saves_of_number, (topic, id, snapshot.life, snapshot.seq_nr))
    saved = max([time.time_ns(), *(row[0] + 1 for row in before)])
    put = await call.statement(call.cql.put_snapshot)
    values = (snapshot.timestamp, snapshot.payload, UNSET if snapshot.metadata is None else snapshot.metadata)
    place = (topic, id, snapshot.life, snapshot.seq_nr, saved)
    bound = put.bind((*place, guard.partition, guard.fence - 1, *values, at))
    if not await _may_save(call, topic, id, snapshot.life, guard):
        return False
    try:
        how.fresh()
        await call.send(bound)
        await _keep_newest(call, topic, id, snapshot, newest, how, guard)
    except TooOld:
        return False
    return True


async def _may_save(call: Call, topic: str, id: str, life: str, guard: SnapshotGuard) -> bool:
    # R44: a purge that comes after this look has a later write time. The look is for those that came before.
    replicated = await reading.pointer(call, topic, guard.partition)
    if replicated is None or replicated < guard.fence - 1:
        return True
    row = (await reading.stored_heads(call, topic, [id])).get(id)
    return row is not None and row.head.life == life


async def _keep_newest(
    call: Call, topic: str, id: str, snapshot: SnapshotRow, newest: int, how: Writing, guard: SnapshotGuard
) -> None:
    """Delete what is not among the newest by ranges, which merge: thousands of tombstones would end all reads.

    A range has the highest write time of the rows that it deletes, so that it hides none that comes behind a later one.
    """
    cql = call.cql
    rows = [row async for page in call.pages(cql.snapshot_keys, (topic, id), BATCH_ROWS) for row in page]
    # One that was saved behind a later fence belongs to a life that this caller does not know.
    lives = {life for life, _, _, offset in rows if life != snapshot.life and offset is not None}
    of_life = await call.statement(cql.delete_snapshots_of_life)
    fence = write_time(how.base_us, guard.fence - 1)
    gone = [of_life.bind((fence, topic, id, life)) for life in lives]
    saves: dict[int, list[tuple[int, int]]] = {}
    for life, seq_nr, saved, offset in rows:
        if life == snapshot.life and offset is not None:
            saves.setdefault(seq_nr, []).append((offset, saved))
    kept = sorted(saves, reverse=True)[:newest]
    below = max((offset for seq_nr, them in saves.items() if seq_nr not in kept for offset, _ in them), default=None)
    if below is not None:
        delete = await call.statement(cql.delete_snapshots_below)
        gone.append(delete.bind((write_time(how.base_us, below), topic, id, snapshot.life, kept[-1])))
    before = await call.statement(cql.delete_saves_before)
    one = await call.statement(cql.delete_snapshot)
    for seq_nr in kept:
        latest = max(saves[seq_nr])
        place = topic, id, snapshot.life, seq_nr
        earlier = [offset for offset, saved in saves[seq_nr] if saved < latest[1]]
        if earlier:
            gone.append(before.bind((write_time(how.base_us, max(earlier)), *place, latest[1])))
        for offset, saved in saves[seq_nr]:
            if saved > latest[1]:  # by a clock that was ahead
                gone.append(one.bind((write_time(how.base_us, offset), *place, saved)))
    await call.send_all(gone)


async def delete_snapshots(
    call: Call, topic: str, id: str, life: str, through: int, guard: SnapshotGuard, how: Writing
) -> None:
    """Delete the snapshots of a life up to a number; one that was saved behind a later fence stays.

    One by one: a range would also hide a snapshot that is saved later behind the same fence.
    """
    at = write_time(how.base_us, guard.fence - 1)
    delete = await call.statement(call.cql.delete_snapshot)
    delete.bind((at, topic, id, life, through, 0))  # a wrong argument shows also where there is no snapshot
    gone = [
        delete.bind((at, topic, id, life, seq_nr, saved))
        async for page in call.pages(call.cql.snapshot_keys, (topic, id), BATCH_ROWS)
        for found, seq_nr, saved, _ in page
        if found == life and seq_nr <= through
    ]
    try:
        how.fresh()
        await call.send_all(gone, how.fresh)
    except TooOld:
        return


# --- dead letters


async def skip(call: Call, topic: str, place: Place, now: int, base_us: int) -> DeadLetter:
    """Skip a dead letter (R43), at its own write time: a Purge takes the skip with the letter."""
    letter = await reading.dead_letter(call, topic, place)
    if letter is None:
        raise NotFound(
            f"{topic}/{place.partition} has no dead letter at offset {place.offset}: dead_letters({topic!r}) lists them"
        )
    if letter.skipped is not None:
        return letter
    at = write_time(base_us, place.offset)
    await call.ask(call.cql.skip_letter, (at, now, topic, place.partition, letter.id or "", place.offset))
    if letter.id is not None:
        await _drop_empty_head(call, topic, letter.id, base_us)
    return msgspec.structs.replace(letter, skipped=now)


async def _drop_empty_head(call: Call, topic: str, id: str, base_us: int) -> None:
    """Delete a head row that only closed its key: at its own write time, so that a late copy does not come back."""
    row = (await reading.stored_heads(call, topic, [id])).get(id)
    if row is not None and await reading.settled(call, topic, id, row) is None:
        await call.ask(call.cql.delete_head, (write_time(base_us, row.head.offset), topic, row.segment, id))
