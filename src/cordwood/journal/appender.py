"""Appending: numbers, sends and decides the appends of a topic (R20, R21).

The path of one append: it gets its number after the state of its key, goes into the outbox, and leaves with all records
of that turn of the loop. Its ack brings its offset, the tail reader every record before it. Then `KeyAppends` decides:
it has won, or it lost and gets the next number, or its caller raises `Conflict`.

A key with an append under way keeps its state, and the head of its partition is held: so the verdict can be known.
"""

import asyncio
import uuid
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from itertools import count
from typing import NamedTuple

import msgspec

from cordwood.errors import (
    Conflict,
    CordwoodError,
    Corrupt,
    InvalidInput,
    NotFound,
    Timeout,
    Trimmed,
    Unavailable,
)
from cordwood.log.calls.deadline import deadline
from cordwood.log.calls.outcome import copy_for_caller
from cordwood.records import StoredBatch
from cordwood.store import EventPage, EventRow, HeadRow

from .action import Append, Mark, Purge
from .appended import Appended, Position
from .event import Event
from .fence import Fences
from .fold import Told, Topic, seq_nr_of
from .head import PartitionHead
from .header import encode_header
from .look import Key, Looks, check_open, told_of
from .outbox import Acked, Outbox, Outgoing
from .reader import sound_rows
from .record_rows import append_id_of
from .tail import Tail
from .topic import JournalTopic
from .value import encode_value
from .verdict import AppendUnderWay, Counted, KeyAppends, Lost, Won

PENDING_BYTES_MAX = 32 * 1024 * 1024
"""Appends that are not decided yet; further ones wait in their callers, in order."""
_FOLLOW_AGAIN_SECONDS = 0.5
_FINAL = (Conflict, Corrupt, InvalidInput, NotFound, Trimmed)
"""Errors that do not pass by themselves."""
_KEYS_MAX = 10_000
"""The keys whose state stays known after their last append."""
_SWEEP_SECONDS = 0.25
"""How often appends that are out of time are looked for, at least,"""
_SWEEP_MIN_SECONDS = 0.01
"""and at most."""


class _StoredAppend(NamedTuple):
    """The append of an event row."""

    id: str | None
    begins: bool
    """Whether the row is its first event: then `expected` was the number before it."""
    last: int
    partition: int
    offset: int


class PendingAppend(AppendUnderWay, Outgoing):
    """An append with its caller, and its record once it has a number."""

    __slots__ = (
        "appender",
        "appends",
        "events",
        "expire_after",
        "future",
        "header",
        "headers",
        "keep_expiry",
        "key",
        "metadata",
        "place",
        "record_bytes",
        "size",
        "told",
        "until",
        "value",
    )

    def __init__(
        self,
        id: str,
        expected: int | None,
        life: str | None,
        place: Key,
        events: Sequence[Event],
        headers: Sequence[tuple[str, bytes | None]],
        metadata: bytes | None,
        expire_after: timedelta | None,
        keep_expiry: bool,
        future: "asyncio.Future[Appended]",
    ) -> None:
        AppendUnderWay.__init__(self, id, len(events), expected, life)
        self.key = place.bytes
        self.place = place
        self.events = events
        self.headers = headers
        self.metadata = metadata
        self.expire_after = expire_after
        self.keep_expiry = keep_expiry
        self.future = future
        self.size = 256
        for event in events:
            self.size += len(event.raw)
        self.appends: TopicKeyAppends
        self.appender: Appender
        self.until = 0.0

    @property
    def wanted(self) -> bool:
        return not self.future.done()

    def on_failed(self, error: CordwoodError) -> None:
        self.appends.forget(self)
        self.fail(error)

    def on_done(self, future: "asyncio.Future[Appended]") -> None:
        self.appender.on_done(self)

    def fail(self, error: CordwoodError) -> None:
        if not self.future.done():
            self.future.set_exception(copy_for_caller(error))


class TopicKeyAppends(KeyAppends):
    """The appends of one key, and its place."""

    def __init__(self, place: Key) -> None:
        super().__init__()
        self.place = place
        self.loading: asyncio.Task[None] | None = None


class Control(Outgoing):
    """A Mark, Delete or Purge, or an append without a verdict of ours, with the caller that waits for its offset."""

    __slots__ = ("future", "header", "headers", "key", "record_bytes", "told", "value")

    def __init__(
        self,
        key: bytes | None,
        told: Told,
        header: bytes,
        future: "asyncio.Future[tuple[int, int]]",
        value: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        self.key = key
        self.told = told
        self.header = header
        self.value = value
        self.headers = headers
        self.future = future

    @property
    def wanted(self) -> bool:
        return not self.future.done()

    def on_failed(self, error: CordwoodError) -> None:
        if not self.future.done():
            self.future.set_exception(copy_for_caller(error))


class Appender:
    """The appends of one topic and connection."""

    def __init__(self, topic: JournalTopic, tail: Tail, origin: str | None, version: str) -> None:
        self._topic = topic
        self._tail = tail
        self._origin = origin
        self._version = version
        self._outbox = Outbox(topic, self._on_acked)
        self._loop = asyncio.get_running_loop()
        self._keys: OrderedDict[str, TopicKeyAppends] = OrderedDict()
        self._busy: dict[int, dict[bytes, TopicKeyAppends]] = {}
        self._id_prefix = uuid.uuid4().hex[:16]
        self._id_number = count()
        self._pending_bytes = 0
        self.renumbered = 0
        """Appends that lost to another writer and got the next number."""
        self._line: deque[asyncio.Future[None]] = deque()
        self._deciding: set[asyncio.Task[None]] = set()
        self._undecided: set[PendingAppend] = set()
        self._sweeping: asyncio.TimerHandle | None = None
        self._facts = [topic.facts(partition) for partition in range(topic.partitions)]
        self.looks: Looks
        self.fences: Fences
        tail.on_read.append(self._on_read)
        tail.on_failed.append(self._on_tail_failed)

    def new_id(self) -> str:
        return f"{self._id_prefix}-{next(self._id_number):x}"

    def append(
        self,
        key: Key,
        events: Sequence[Event],
        *,
        expected: int | Position | None,
        id: str | None,
        expire_after: timedelta | None,
        keep_expiry: bool,
        metadata: bytes | None,
        headers: Mapping[str, str],
        timeout: float,
    ) -> Awaitable[Appended]:
        """Append events to a journal; the result comes when they are durable and count.

        Mostly the append can be sent at once, and the caller awaits a bare future: a coroutine less is a tenth of the
        time of an append.
        """
        seq_nr, life = (expected.seq_nr, expected.life) if isinstance(expected, Position) else (expected, None)
        append = PendingAppend(
            id or self.new_id(),
            seq_nr,
            life,
            key,
            events,
            [(name, value.encode()) for name, value in headers.items()] if headers else (),
            metadata,
            expire_after,
            keep_expiry,
            self._loop.create_future(),
        )
        append.until = self._loop.time() + timeout
        if self._must_wait(key, id):
            return self._append_later(append, timeout)
        self._begin(append, timeout)
        return append.future

    async def _append_later(self, append: PendingAppend, timeout: float) -> Appended:
        try:
            await self._ready(append.place, append.id, append.until)
        except CordwoodError as error:
            error.outcome = "not_written"
            raise
        self._begin(append, timeout)
        return await append.future

    def _begin(self, append: PendingAppend, timeout: float) -> None:
        try:
            self._put(append.place, append)
        except CordwoodError as error:
            error.outcome = "not_written"
            raise
        append.appender = self
        append.future.add_done_callback(append.on_done)
        self._undecided.add(append)
        self._sweep_in(timeout)

    def _must_wait(self, key: Key, id: str | None) -> bool:
        """Whether the append cannot be put at once."""
        if self._pending_bytes >= PENDING_BYTES_MAX or self._line or key.partition not in self._tail.heads:
            return True
        appends = self._keys.get(key.id)
        if appends is None:
            return False
        if appends.state is not None and appends.state.closed is not None:
            return True
        return id is not None and appends.under_way(id) is not None

    def _sweep_in(self, seconds: float) -> None:
        """Look for late appends in so many seconds, or before: there is one timer."""
        seconds = min(max(seconds, _SWEEP_MIN_SECONDS), _SWEEP_SECONDS)
        if self._sweeping is not None:
            if seconds == _SWEEP_SECONDS or self._sweeping.when() <= self._loop.time() + seconds:
                return
            self._sweeping.cancel()
        self._sweeping = self._loop.call_later(seconds, self._sweep)

    def _sweep(self) -> None:
        """Fail the appends that are out of time: one timer for all of them."""
        now = self._loop.time()
        for append in [append for append in self._undecided if append.until <= now]:
            self._on_late(append)
        self._sweeping = None
        if self._undecided:
            self._sweep_in(min(append.until for append in self._undecided) - now)

    async def _ready(self, key: Key, id: str, until: float) -> None:
        """Wait for room, for the partition's head, and for an append of this id that is under way."""
        late = f"the append to journal {key.id!r} of {self._topic.name!r} had to wait, and was not sent in its time"
        async with deadline(until - self._loop.time(), lambda: Timeout(late)):
            if self._pending_bytes >= PENDING_BYTES_MAX or self._line:
                await self._room()
            while True:
                appends = self._keys.get(key.id)
                if appends is not None and appends.state is not None and appends.state.closed is not None:
                    await self._check_still_closed(appends)
                elif appends is not None and (earlier := appends.under_way(id)) is not None:
                    # The same call again, while the first is under way: it finds the result of that one.
                    assert isinstance(earlier, PendingAppend)
                    await asyncio.wait([earlier.future])
                elif key.partition not in self._tail.heads:
                    await self._tail.head(key.partition)
                else:
                    return

    async def _check_still_closed(self, appends: TopicKeyAppends) -> None:
        """R43: raise `Corrupt`, unless an operator has skipped the record that closes the key."""
        look = await self.looks.at_fence(appends.place)
        look.check_open(self._topic.name, appends.place.id)
        if not appends.busy:
            self._keys.pop(appends.place.id, None)
        elif appends.state is not None:
            appends.state = msgspec.structs.replace(appends.state, closed=None)

    def _put(self, key: Key, append: PendingAppend) -> None:
        appends = self._appends_of(key)
        self._pending_bytes += append.size
        append.appends = appends
        if appends.add(append):
            try:
                check_open(appends.state, self._topic.name, key.id)
                self._send(append)
            except BaseException:
                self._end(append)
                raise
        if appends.through is None:
            self._load(appends)
        else:
            self._number(appends)

    def _on_late(self, append: PendingAppend) -> None:
        append.fail(
            Timeout(
                f"the append to journal {append.place.id!r} of {self._topic.name!r} was not decided in its time: append"
                " again with the same id and expected, which returns its result if it counts",
                outcome="unknown" if append.first else "not_written",
            )
        )

    def on_done(self, append: PendingAppend) -> None:
        """The call is over: decided, cancelled or out of time."""
        self._undecided.discard(append)
        self._end(append)

    def _end(self, append: PendingAppend) -> None:
        self._pending_bytes -= append.size
        appends = append.appends
        appends.forget(append)
        if append.conditional:
            self._send_rival(appends, append)
        self._rest(appends)
        self._call_next()

    def _send_rival(self, appends: TopicKeyAppends, ended: PendingAppend) -> None:
        """The ended append was not decided, or its rivals are decided already: then there is none to send."""
        while (rival := appends.next_rival(ended)) is not None:
            assert isinstance(rival, PendingAppend)
            try:
                check_open(appends.state, self._topic.name, appends.place.id)
                self._send(rival)
            except CordwoodError as error:
                appends.forget(rival)
                error.outcome = "not_written"
                rival.fail(error)
            else:
                return

    async def _room(self) -> None:
        """Backpressure: wait in the order of the calls."""
        turn: asyncio.Future[None] = self._loop.create_future()
        self._line.append(turn)
        self._call_next()
        try:
            await turn
        finally:
            self._line.remove(turn)
            self._call_next()

    def _call_next(self) -> None:
        if self._line and self._pending_bytes < PENDING_BYTES_MAX and not self._line[0].done():
            self._line[0].set_result(None)

    # --- records

    async def send_mark(self, partition: int) -> int:
        """Append a Mark; its offset.

        It has no key: under that of a journal, every later look at the journal would parse it.
        """
        offset, _ = await self.send_control(partition, None, Mark(self.new_id(), self._origin, self._version))
        return offset

    @property
    def keys_known(self) -> int:
        return len(self._keys)

    def forget_key(self, id: str) -> None:
        """Look the key up again before its next append."""
        appends = self._keys.get(id)
        if appends is not None and not appends.busy:
            del self._keys[id]

    async def send_control(
        self,
        partition: int,
        key: bytes | None,
        action: Told,
        value: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> tuple[int, int]:
        """Append one action; its offset and timestamp. It is repeated until an ack comes, or its caller gives up."""
        await self._tail.head(partition)
        future: asyncio.Future[tuple[int, int]] = self._loop.create_future()
        record = Control(key, action, encode_header(action), future, value, headers)  # type: ignore[arg-type]
        self._outbox.check_size(record)
        self._outbox.put(partition, record)
        return await future

    def _send(self, append: PendingAppend) -> None:
        """Encode the append with its number, and put it into the outbox."""
        payload_type, value = encode_value(append.events, append.first, append.expire_after, append.metadata)
        action = Append(
            append.first,
            append.first + append.count - 1,
            payload_type,
            self._origin,
            self._version,
            None,
            append.id,
            append.first - 1,
            append.life,
            None,
            append.keep_expiry,
            append.after,
        )
        append.told = action
        append.header = encode_header(action)
        append.value = value
        self._outbox.check_size(append)
        self._outbox.put(append.place.partition, append)

    def _number(self, appends: TopicKeyAppends) -> None:
        """Number and send all appends of a key that wait."""
        while appends.waiting:
            append = appends.waiting[0]
            assert isinstance(append, PendingAppend)
            if append.future.done():
                appends.waiting.popleft()
                continue
            try:
                check_open(appends.state, self._topic.name, appends.place.id)
                appends.number_next()
                self._send(append)
            except CordwoodError as error:
                appends.forget(append)
                error.outcome = "not_written"
                append.fail(error)

    # --- states

    def _appends_of(self, key: Key) -> TopicKeyAppends:
        """The key's appends, with its state if that is known up to the head's end."""
        appends = self._keys.get(key.id)
        if appends is None:
            appends = self._keys[key.id] = TopicKeyAppends(key)
        if appends.busy:
            return appends
        self._keys.move_to_end(key.id)
        head = self._tail.heads[key.partition]
        if appends.through is not None and not self._catch_up(appends, head):
            appends.through = None
        busy = self._busy.setdefault(key.partition, {})
        if not busy:
            head.held = True
        busy[key.bytes] = appends
        return appends

    def _catch_up(self, appends: TopicKeyAppends, head: PartitionHead) -> bool:
        """Apply the records that the head got since the key was last busy; False if it no longer has them all."""
        assert appends.through is not None
        if not head.lower <= appends.through <= head.upper:
            return False
        if head.last_of(appends.place.bytes) < appends.through:
            appends.through = head.upper
            return True
        return self._apply_head(appends, head)

    def _apply_head(self, appends: TopicKeyAppends, head: PartitionHead) -> bool:
        """Apply the key's records that the head has after its state; False if one of them is not kept, or dropped."""
        assert appends.through is not None
        if head.lower > appends.through:
            return False
        for offset in head.offsets_of(appends.place.bytes, appends.through):
            record = head.record(offset)
            if record is None:
                return False
            told = told_of(record)
            if told is not None:
                self._decide(appends, appends.apply(offset, record.timestamp, told, self._facts_of(appends)))
        appends.through = head.upper
        return True

    def _rest(self, appends: TopicKeyAppends) -> None:
        """The key has nothing under way: release the head with the last such key of the partition."""
        if appends.busy:
            return
        place = appends.place
        busy = self._busy.get(place.partition)
        if busy is None or busy.get(place.bytes) is not appends:
            return
        del busy[place.bytes]
        head = self._tail.heads.get(place.partition)
        if appends.through is not None and head is not None:
            appends.through = head.upper
        if not busy and head is not None:
            head.held = False
            self._tail.drop_replicated(place.partition)
        while len(self._keys) > _KEYS_MAX:
            oldest = next(iter(self._keys))
            if self._keys[oldest].busy:
                break
            del self._keys[oldest]

    def _load(self, appends: TopicKeyAppends) -> None:
        """Find the key's state: the head row, and the records of the head after it."""
        if appends.loading is None:
            appends.loading = self._loop.create_task(self._find_state(appends))
            self._deciding.add(appends.loading)
            appends.loading.add_done_callback(self._deciding.discard)

    async def _find_state(self, appends: TopicKeyAppends) -> None:
        try:
            look = await self.looks.now(appends.place)
        except CordwoodError as error:
            self._fail_all(appends, error)
            return
        finally:
            appends.loading = None
        appends.state = look.row
        # The look may have waited for records that are not kept: those that came meanwhile are applied below.
        for action in look.actions:
            self._decide(appends, appends.apply(action.offset, action.timestamp, action.told, self._facts_of(appends)))
        appends.through = look.fence
        head = self._tail.heads[appends.place.partition]
        if not self._apply_head(appends, head):
            appends.through = None
            self._load(appends)
            return
        self._decide_passed(appends)
        self._number(appends)
        self._rest(appends)

    def _facts_of(self, appends: TopicKeyAppends) -> Topic:
        return self._facts[appends.place.partition]

    def _fail_all(self, appends: TopicKeyAppends, error: CordwoodError) -> None:
        rivals = [rival for group in appends.rivals.values() for rival in group.values()]
        appends.rivals.clear()
        for append in [*appends.sent.values(), *appends.waiting, *rivals]:
            assert isinstance(append, PendingAppend)
            outcome = "unknown" if append.first else "not_written"
            appends.forget(append)
            append.fail(copy_for_caller(error, outcome))  # type: ignore[arg-type]
        self._rest(appends)

    # --- verdicts

    def _on_acked(self, acked: Acked, batch: StoredBatch) -> None:
        """The records of a batch have their offsets: the tail reader takes them, or finds them where others' are."""
        self.fences.on_acked(acked.partition, acked.offsets[-1] + 1)
        for (record, told, _, _), offset in zip(acked.sent, acked.offsets, strict=True):
            if isinstance(record, PendingAppend):
                if record.told is told:
                    record.offset = offset
            elif isinstance(record, Control) and not record.future.done():
                record.future.set_result((offset, acked.timestamp))
        head = self._tail.heads.get(acked.partition)
        if head is None:
            return
        if self._tail.feed(acked.partition, batch):
            self._apply_own(head, acked)
            return
        for record, _, _, _ in acked.sent:
            if isinstance(record, PendingAppend):
                self._decide_passed(record.appends)

    def _apply_own(self, head: PartitionHead, acked: Acked) -> None:
        """Decide the appends of a batch that follows all known records: nothing is parsed."""
        busy = self._busy.get(head.partition)
        if not busy:
            return
        facts = self._facts[head.partition]
        touched: set[TopicKeyAppends] = set()
        for (record, told, _, _), offset in zip(acked.sent, acked.offsets, strict=True):
            appends = None if record.key is None else busy.get(record.key)
            if appends is None or appends.through is None:
                continue
            decision = appends.apply(offset, acked.timestamp, told, facts)
            if decision is not None:
                self._decide(appends, decision)
            touched.add(appends)
        self._continue(touched)

    def _on_read(self, head: PartitionHead, batch: StoredBatch) -> None:
        """Apply the records of keys that have appends under way, and decide those."""
        busy = self._busy.get(head.partition)
        if not busy:
            return
        _, keys, _, _ = batch.rows()
        if keys is None:
            return
        touched: set[TopicKeyAppends] = set()
        for index, key in enumerate(keys):
            if key not in busy:
                continue
            appends = busy[key]
            if appends.through is None:
                continue  # its state is being looked up, and that look takes this record from the head
            record = batch[index]
            told = told_of(record)
            if told is None:
                continue
            touched.add(appends)
            decision = appends.apply(record.offset, record.timestamp, told, self._facts[head.partition])
            if decision is not None:
                self._decide(appends, decision)
        self._continue(touched)

    def _continue(self, touched: "set[TopicKeyAppends]") -> None:
        """After a whole batch: a key that rests is known up to the head's end."""
        for appends in touched:
            if appends.waiting:
                self.renumbered += len(appends.waiting)
                self._number(appends)
            if not appends.busy:
                self._rest(appends)

    def _on_tail_failed(self, error: CordwoodError) -> None:
        """R21: the verdicts come from the tail reader. Start it again, unless the error cannot pass."""
        if isinstance(error, _FINAL):
            for busy in list(self._busy.values()):
                for appends in list(busy.values()):
                    self._fail_all(appends, error)
        elif self._busy:
            self._loop.call_later(_FOLLOW_AGAIN_SECONDS, self._follow_again)

    def _follow_again(self) -> None:
        for partition, busy in self._busy.items():
            if busy and partition in self._tail.heads:
                self._tail.follow(partition)

    def _decide(self, appends: TopicKeyAppends, decision: Won | Lost | None) -> None:
        if decision is None:
            return
        append = decision.append
        assert isinstance(append, PendingAppend)
        rivals = appends.take_rivals(append) if append.conditional else ()
        if isinstance(decision, Won):
            self._ack(append, decision.offset, appends.state)
        else:
            self._resolve(appends, append, appends.state)
        for rival in rivals:
            assert isinstance(rival, PendingAppend)
            self._resolve(appends, rival, appends.state)

    def _ack(self, append: PendingAppend, offset: int, state: HeadRow | None) -> None:
        if append.future.done():
            return
        assert state is not None
        try:
            check_open(state, self._topic.name, append.place.id)
        except Corrupt as error:
            # R43: it was sent before its key was looked up. It is in the log, and no ack may say so.
            append.fail(copy_for_caller(error, "unknown"))
            return
        append.future.set_result(self._appended(append, offset, append.first, state.life))

    def _decide_passed(self, appends: TopicKeyAppends) -> None:
        """R21: decide the appends whose records the store had passed before the look: no record of the head does.

        Their places are below the state's, and so the event row at their number decides. An ack may come later than
        that look. In a topic that was created again a new record has such a place too: its id tells (R23).
        """
        if appends.through is None:
            return
        for append in list(appends.sent.values()):
            assert isinstance(append, PendingAppend)
            if append.conditional and append.offset is not None and append.offset < appends.through:
                appends.forget(append)
                self._look_for_winner(append, appends.state, self._topic.check_id)

    def _resolve(self, appends: TopicKeyAppends, append: PendingAppend, state: HeadRow | None) -> None:
        """A conditional append did not count at its place: was it its own earlier copy that took the number?"""
        if append.future.done():
            return
        winner = appends.winner_of(append.first)
        if winner is not None:
            self._settle(append, winner, state)
            return
        self._look_for_winner(append, state)

    def _look_for_winner(
        self, append: PendingAppend, state: HeadRow | None, check: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        if append.future.done():
            return
        task = self._loop.create_task(self._find_winner(append, state, check))
        self._deciding.add(task)
        task.add_done_callback(self._deciding.discard)

    async def _find_winner(
        self, append: PendingAppend, state: HeadRow | None, check: Callable[[], Awaitable[None]] | None
    ) -> None:
        place = append.place
        actual = seq_nr_of(state)
        winner: str | None = None
        try:
            if check is not None:
                await check()
            look = await self.looks.now(place)
            look.check_open(self._topic.name, place.id)
            row = look.row
            for action in look.actions:
                told = action.told
                if not action.verdict.counted:
                    continue
                if type(told) is Purge:
                    row = winner = None  # R21: a Purge ends the promise for an id
                elif type(told) is Append and told.first <= append.first <= told.last:
                    winner = told.id
                    if told.id == append.id and told.expected == append.expected:
                        assert action.verdict.state is not None
                        life = action.verdict.state.life
                        self._repeat_result(append, action.offset, told.last, life)
                        return
            if winner is None and row is not None and (row.delete_to or 0) < append.first <= row.seq_nr:
                stored = await self._stored_append(place, row, append.first)
                if stored is not None:
                    winner = stored.id
                    own = (place.partition, append.offset) == (stored.partition, stored.offset)
                    if own or (stored.id == append.id and stored.begins):
                        self._repeat_result(append, stored.offset, stored.last, row.life)
                        return
            actual = seq_nr_of(look.state)
        except CordwoodError as error:
            append.fail(copy_for_caller(error, "unknown"))
            return
        assert append.expected is not None
        append.fail(conflict(self._topic.name, place.id, append.expected, append.life, actual, winner))

    async def _stored_append(self, place: Key, row: HeadRow, number: int) -> "_StoredAppend | None":
        """The append that wrote the event of this number, by the rows of the store; None if the row is gone."""
        before: int | None = None
        found: EventRow | None = None
        last = number
        start: int | None = max(number - 1, (row.delete_to or 0) + 1)
        while start is not None:
            page = await self._topic.store.events(self._topic.name, place.id, row, start, row.seq_nr + 1)
            for event in sound_rows(page.rows, row.life, start):
                if event.seq_nr < number:
                    before = event.offset
                elif found is None and event.seq_nr == number:
                    found = event
                elif found is not None and event.offset == found.offset:
                    last = event.seq_nr
                else:
                    page = EventPage((), None)
                    break
            start = page.next
        if found is None:
            return None
        return _StoredAppend(append_id_of(found.metadata), found.offset != before, last, found.partition, found.offset)

    def _settle(self, append: PendingAppend, winner: Counted, state: HeadRow | None) -> None:
        """The append that took the number is known: it is an earlier copy, or a rival."""
        if winner.id == append.id and winner.expected == append.expected:
            self._repeat_result(append, winner.offset, winner.last, winner.life)
            return
        assert append.expected is not None
        place = append.place
        append.future.set_exception(
            conflict(self._topic.name, place.id, append.expected, append.life, seq_nr_of(state), winner.id)
        )

    def _repeat_result(self, append: PendingAppend, offset: int, last: int, life: str | None) -> None:
        if not append.future.done():
            seq_nrs = range(append.first, last + 1)
            append.future.set_result(Appended(seq_nrs, append.place.partition, offset, Position(life, last), append.id))

    def _appended(self, append: PendingAppend, offset: int, first: int, life: str | None) -> Appended:
        last = first + append.count - 1
        return Appended(range(first, last + 1), append.place.partition, offset, Position(life, last), append.id)

    async def close(self) -> None:
        """Wait for the records under way; appends that are not decided then raise `Unavailable`."""
        await self._outbox.close()
        for task in list(self._deciding):
            task.cancel()
        error = Unavailable(f"journal {self._topic.name!r} was closed", outcome="unknown", reason="closed")
        for appends in list(self._keys.values()):
            self._fail_all(appends, error)


def conflict(topic: str, id: str, expected: int, life: str | None, actual: int, winner: str | None) -> Conflict:
    """The error of a conditional append that lost."""
    where = f"journal {id!r} of {topic!r}"
    if life is not None and actual == expected:
        text = f"{where} was purged and begun again since: read it anew, and decide again"
    else:
        text = f"{where} is at {actual}, not at {expected}: read on from {expected + 1}, and decide again"
    return Conflict(text, actual=actual, winner=winner, outcome="not_written")
