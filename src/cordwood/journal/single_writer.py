"""Appends of the Scala library's kind: one writer per key, whose caller guarantees that (R20).

The records have none of our fields, so that Scala programs may share the topic. One append per key is under way.
"""

import asyncio
import weakref
from collections.abc import Mapping, Sequence
from datetime import timedelta

from cordwood.errors import Conflict, CordwoodError, Timeout, Trimmed
from cordwood.log.calls.deadline import deadline

from .action import Append
from .appended import Appended, Position
from .appender import Appender
from .event import Event
from .fold import seq_nr_of
from .look import Key, Look, Looks
from .tail import Tail
from .topic import JournalTopic
from .value import encode_value


class SingleWriter:
    """The appends of a topic with `single_writer=True`."""

    def __init__(
        self, topic: JournalTopic, tail: Tail, looks: Looks, appender: Appender, origin: str | None, version: str
    ) -> None:
        self._topic = topic
        self._tail = tail
        self._looks = looks
        self._appender = appender
        self._origin = origin
        self._version = version
        self._unsure: set[str] = set()
        """The keys whose last append has an unknown outcome."""
        self._turns: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    async def append(
        self,
        key: Key,
        events: Sequence[Event],
        seq_nr: int | None,
        expire_after: timedelta | None,
        metadata: bytes | None,
        headers: Mapping[str, str],
        timeout: float,
    ) -> Appended:
        """Append events from `seq_nr` on, or after the last event, and check that all of them count."""
        sent = False
        late = f"the append to journal {key.id!r} of {self._topic.name!r} took more than {timeout} s"

        def too_late() -> Timeout:
            return Timeout(late, outcome="unknown" if sent else "not_written")

        turn = self._turns.get(key.id)
        if turn is None:
            turn = self._turns[key.id] = asyncio.Lock()
        async with deadline(timeout, too_late), turn:
            look = await self._look(key)
            known = seq_nr_of(look.state)
            first = known + 1 if seq_nr is None else seq_nr
            if first <= known:
                raise Conflict(
                    f"journal {key.id!r} of {self._topic.name!r} is at {known}, and seq_nr is {first}: use {known + 1}",
                    actual=known,
                    outcome="not_written",
                )
            try:
                payload_type, value = encode_value(events, first, expire_after, metadata)
            except CordwoodError as error:
                error.outcome = "not_written"
                raise
            action = Append(first, first + len(events) - 1, payload_type, self._origin, self._version)
            pairs = [(name, text.encode()) for name, text in headers.items()]
            sent = True
            self._unsure.add(key.id)
            try:
                offset, _ = await self._appender.send_control(key.partition, key.bytes, action, value, pairs)
                done = await self._check(key, action, value, look.fence, offset)
            except CordwoodError as error:
                if error.outcome == "not_written":
                    self._unsure.discard(key.id)
                else:
                    error.outcome = "unknown"  # the record may be in the log
                raise
            self._unsure.discard(key.id)
            return done

    async def _look(self, key: Key) -> Look:
        """A look with a read fence, never memory: the entity may have moved to another program and back."""
        if key.id in self._unsure:
            # An earlier append has an unknown outcome. The log keeps the order of this process's appends: once a later
            # record is in it, the earlier one is there, too, or can no longer land.
            offset = await self._appender.send_mark(key.partition)
            await self._tail.reach(key.partition, offset + 1)
            self._unsure.discard(key.id)
        look = await self._looks.before_write(key)
        look.check_open(self._topic.name, key.id, "not_written")
        return look

    async def _check(self, key: Key, action: Append, value: bytes, fence: int, offset: int) -> Appended:
        """Ack only what counts: an action of the key in the gap before the record may have taken its numbers.

        A copy of the record in that gap is an append of our own, whose ack did not come.
        """
        await self._tail.reach(key.partition, offset + 1)
        look = await self._looks.now(key)
        for found in look.actions:
            if found.verdict.counted and found.verdict.first == action.first and found.told == action:
                at = found.offset
                if at == offset or (fence <= at < offset and await self._is_copy(key, at, value)):
                    state = found.verdict.state
                    return self._appended(key, action, at, None if state is None else state.life)
        # The store may have passed the record: the event row says whether it counts.
        row = look.row
        if row is not None and (row.delete_to or 0) < action.first <= row.seq_nr:
            page = await self._topic.store.events(self._topic.name, key.id, row, action.first, action.first + 1)
            for event in page.rows:
                at = event.offset
                if event.partition == key.partition and (
                    at == offset or (fence <= at < offset and await self._is_copy(key, at, value))
                ):
                    return self._appended(key, action, at, row.life)
        raise self._lost(key, action.first, seq_nr_of(look.state))

    async def _is_copy(self, key: Key, offset: int, value: bytes) -> bool:
        try:
            records = await self._topic.log(key.partition).fetch([offset], uncommitted=True)
        except Trimmed:
            return False
        return any(record.key == key.bytes and record.value == value for record in records)

    def _appended(self, key: Key, action: Append, offset: int, life: str | None) -> Appended:
        numbers = range(action.first, action.last + 1)
        return Appended(numbers, key.partition, offset, Position(life, action.last), f"{key.partition}/{offset}")

    def _lost(self, key: Key, first: int, actual: int) -> Conflict:
        return Conflict(
            f"journal {key.id!r} of {self._topic.name!r}: another program has appended {first} before this append: the"
            f" journal is at {actual}; a topic with single_writer=True has one writer per key",
            actual=actual,
            outcome="not_written",
        )
