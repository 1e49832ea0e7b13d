"""A look at one key: its head row, its actions in the head, and the state that follows from both (R41).

The order is always pointer, head row, event rows. The head is pinned at a pointer that was read before the head row, so
every action that the row does not have is in the head.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from cordwood.errors import CordwoodError, Corrupt, Outcome, Timeout, Trimmed
from cordwood.log.calls.deadline import deadline
from cordwood.records import StoredRecord
from cordwood.store import EventPage, HeadRow

from .action import ACTION_HEADER, Append
from .bad_record import BadRecord
from .coalesce import NextRun
from .fence import Fences
from .fold import Poison, Told, Verdict, step
from .head import PartitionHead
from .header import decode_header
from .json_fields import SEQ_NR_MAX
from .scan import OFFSETS_MAX, Scans
from .tail import Tail
from .topic import JournalTopic

_PATIENCE_SECONDS = 0.1
"""After so long without the read fence a look asks whether the store has passed it."""


class Key(NamedTuple):
    """The id of a journal, as the record's key, and its partition."""

    id: str
    bytes: bytes
    partition: int


class HeadAction(NamedTuple):
    """An action of the head, at its place, with its verdict."""

    offset: int
    timestamp: int
    told: Told
    verdict: Verdict


class Look(NamedTuple):
    """The state of a journal as of a read fence."""

    row: HeadRow | None
    """The head row of the store."""
    state: HeadRow | None
    actions: Sequence[HeadAction]
    """The actions after the row, in order, counted or not."""
    fence: int
    page: EventPage | None
    """The first event rows, if they were asked for and the row has some."""

    def check_open(self, topic: str, id: str, outcome: Outcome | None = None) -> None:
        """Raise `Corrupt` if the key is closed (R43)."""
        check_open(self.state, topic, id, outcome)


def check_open(state: HeadRow | None, topic: str, id: str, outcome: Outcome | None = None) -> None:
    """Raise `Corrupt` if the key is closed (R43)."""
    if state is not None and state.closed is not None:
        partition, offset = state.closed
        raise Corrupt(
            f"journal {id!r} of {topic!r} is closed: the record at {topic}/{partition}, offset {offset}, cannot be"
            f" decoded: dead_letters() shows it; skip(partition={partition}, offset={offset}) it, or purge the journal",
            outcome=outcome,
        )


def told_of(record: StoredRecord) -> Told | None:
    """The action of a record; None if the record is none of a journal's. A header that cannot be decoded is poison.

    As in the Scala library, a record without a time is none, and neither is an Append without a value.
    """
    for name, value in record.headers:
        if name == ACTION_HEADER:
            if record.timestamp < 0:
                return None
            try:
                told = decode_header(value or b"")
            except BadRecord as error:
                return Poison(str(error))
            return None if record.value is None and type(told) is Append else told
    return None


class Looks:
    """Looks at keys of one topic."""

    def __init__(self, topic: JournalTopic, tail: Tail, fences: Fences, scans: Scans) -> None:
        self._topic = topic
        self._tail = tail
        self._fences = fences
        self._scans = scans
        self._wanted: set[str] = set()
        self._rows = NextRun(self._read_rows)

    async def at_fence(self, key: Key, *, events_from: int | None = None, events_stop: int | None = None) -> Look:
        """Take a read fence, and look at the key as of it. With `events_from`, also read the first event rows."""
        while True:
            try:
                look = await self._at_fence(key, events_from, events_stop)
            except Trimmed:
                if not await self._has_passed(key.partition):
                    raise
            else:
                if not await self._is_closed_no_more(look):
                    return look

    async def in_time(self, key: Key, *, events_from: int | None = None, events_stop: int | None = None) -> Look:
        """`at_fence` for a reader, whose calls take no time limit of their own: the journal's applies."""
        late = f"{self._topic.name}/{key.partition} did not answer a read of {key.id!r} in {self._topic.timeout:g} s"
        async with deadline(self._topic.timeout, lambda: Timeout(f"{late}: try again")):
            return await self.at_fence(key, events_from=events_from, events_stop=events_stop)

    async def before_write(self, key: Key) -> Look:
        """Look at the key as of a read fence, for a caller that writes then: an error says that it has not."""
        try:
            return await self.at_fence(key)
        except CordwoodError as error:
            error.outcome = "not_written"
            raise

    async def now(self, key: Key) -> Look:
        """Look at the key as of the records that the tail reader knows now."""
        while True:
            head = await self._tail.know(key.partition)
            pinned = head.pin()
            try:
                start = self._start(head)
                row = await self.row(key.id)
                look = await self._fold(key, head, row, start, head.upper, None)
            except Trimmed:
                if await self._has_passed(key.partition):
                    continue
                raise
            finally:
                head.unpin(pinned)
            if not await self._is_closed_no_more(look):
                return look

    async def _has_passed(self, partition: int) -> bool:
        """After `Trimmed`: whether the store has all records that the log has dropped, and a new look finds them."""
        await self._tail.refresh_pointers()
        start, _ = await self._topic.log(partition).bounds()
        if start > self._tail.pointer(partition) + 1:
            return False
        # The pin of the look kept the head below the trimmed records: without it the head passes them.
        self._tail.drop_replicated(partition)
        return True

    def _start(self, head: PartitionHead) -> int:
        """The first offset that a row which is read from now on may lack. A pin may keep older records in the head."""
        return max(head.lower, self._tail.pointer(head.partition) + 1)

    async def _is_closed_no_more(self, look: Look) -> bool:
        """Whether the store has passed the record that closes the key here: an operator may have skipped it (R43)."""
        closed = None if look.state is None else look.state.closed
        if closed is None or (look.row is not None and look.row.closed == closed):
            return False
        await self._tail.refresh_pointers()
        return self._tail.pointer(closed.partition) >= closed.offset

    async def row(self, id: str) -> HeadRow | None:
        """The head row of a key, read after this call; calls that wait share one sweep."""
        self._wanted.add(id)
        return (await self._rows()).get(id)

    async def _at_fence(self, key: Key, events_from: int | None, events_stop: int | None) -> Look:
        head = await self._tail.head(key.partition)
        pinned = head.pin()
        try:
            start = self._start(head)
            stored = asyncio.ensure_future(self._stored(key, events_from, events_stop))
            try:
                fence = await self._fences.take(key.partition)
                replicated = head.upper < fence and not await self._reach(key.partition, fence)
                row, page = await stored
            finally:
                if not stored.done():
                    stored.cancel()
            if replicated:
                # Read again after that pointer: the row then has every action before the fence.
                row, page = await self._stored(key, events_from, events_stop)
                return Look(row, row, (), fence, page)
            return await self._fold(key, head, row, start, fence, page)
        finally:
            head.unpin(pinned)

    async def _reach(self, partition: int, fence: int) -> bool:
        """Wait until the head has reached the fence; False if the store has passed it first."""
        reached = asyncio.ensure_future(self._tail.reach(partition, fence))
        try:
            while True:
                done, _ = await asyncio.wait([reached], timeout=_PATIENCE_SECONDS)
                if done:
                    reached.result()
                    return True
                await self._tail.refresh_pointers()
                if self._tail.pointer(partition) >= fence - 1:
                    return False
        finally:
            if not reached.done():
                reached.cancel()

    async def _stored(self, key: Key, start: int | None, stop: int | None) -> tuple[HeadRow | None, EventPage | None]:
        if start is None:
            return await self.row(key.id), None
        return await self._topic.store.first_events(
            self._topic.name, key.id, start, SEQ_NR_MAX + 1 if stop is None else stop
        )

    async def _fold(
        self, key: Key, head: PartitionHead, row: HeadRow | None, start: int, stop: int, page: EventPage | None
    ) -> Look:
        offsets = head.offsets_of(key.bytes, start)
        if row is not None and row.partition == key.partition:
            start = max(start, row.offset + 1)
        offsets = [offset for offset in offsets if start <= offset < stop]
        state = row
        actions: list[HeadAction] = []
        facts = self._topic.facts(key.partition)
        at = 0
        while at < len(offsets):
            # The records are held for one round alone: only their headers are of interest here.
            records, count = await self._scans.records(head, offsets[at : at + OFFSETS_MAX])
            for offset in offsets[at : at + count]:
                record = records.get(offset)
                told = None if record is None else told_of(record)
                if record is None or told is None:
                    continue
                verdict = step(state, told, offset, record.timestamp, facts)
                state = verdict.state
                actions.append(HeadAction(offset, record.timestamp, told, verdict))
            at += count
        return Look(row, state, actions, stop, page)

    async def _read_rows(self) -> dict[str, HeadRow]:
        wanted, self._wanted = self._wanted, set()
        return await self._topic.store.heads(self._topic.name, list(wanted))
