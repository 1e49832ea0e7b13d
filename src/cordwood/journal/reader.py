"""Reading the events of one journal: first the store's rows, then the events of the head (R25, R41)."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from types import TracebackType
from typing import Self

from cordwood.errors import CordwoodError, Corrupt, Trimmed
from cordwood.store import DeadLetter, EventPage, EventRow, HeadRow

from .action import Append, Purge
from .appended import Position
from .bad_record import BadRecord
from .fold import exists, seq_nr_of
from .json_fields import SEQ_NR_MAX
from .look import HeadAction, Key, Look, Looks
from .missing import lost_at_end, lost_between
from .record_rows import event_rows
from .scan import Scans
from .stored_event import StoredEvent
from .tail import Tail
from .topic import EPOCH, JournalTopic

_HEAD_RECORDS = 100
"""The records of the head whose events are decoded at once, within the bytes of a scan: a slow reader holds no more."""
_MILLISECOND = timedelta(milliseconds=1)


class EventReader:
    """The events of one journal in order: an async iterator, and a context manager that closes it.

    It reads to the end at its first step. `position` is known at its end.

    ```python
    async with journal.read("order-1") as reader:
        async for event in reader:
            print(event.seq_nr, event.payload)
    print(reader.position)
    ```
    """

    def __init__(
        self,
        source: "JournalSource",
        key: Key,
        start: int,
        stop: int | None,
        until: datetime | None,
    ) -> None:
        self._source = source
        self._key = key
        self._start = start
        self._next = start
        self._stop = SEQ_NR_MAX + 1 if stop is None else stop
        self._until_ms = None if until is None else (until - EPOCH) // _MILLISECOND
        self._ready: deque[StoredEvent] = deque()
        self._begun = False
        self._ended = False
        self._position: Position | None = None
        self._returned = False
        self._look: Look | None = None
        self._page: EventPage | None = None
        self._head: deque[HeadAction] = deque()
        self._turns = asyncio.Lock()

    @property
    def position(self) -> Position | None:
        """The place of the journal that the read saw; None if the journal does not exist, or before the first step."""
        return self._position

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StoredEvent:
        if not self._ready:
            async with self._turns:
                while not self._ready:
                    if self._ended:
                        raise StopAsyncIteration
                    await self._advance()
        self._returned = True
        return self._ready.popleft()

    async def close(self) -> None:
        """Stop reading; a second call has no effect."""
        self._ended = True
        self._ready.clear()
        self._head.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<cordwood.EventReader of {self._key.id!r} at {self._next}{' closed' if self._ended else ''}>"

    async def _advance(self) -> None:
        """Make some events ready, or end."""
        if not self._begun:
            await self._begin()
        elif self._page is not None:
            await self._next_page()
        elif self._head:
            await self._next_of_head()
        else:
            self._ended = True

    async def _begin_at(self, look: Look, *, continues: bool = False) -> None:
        """Begin with a look that was taken already.

        A reader that `continues` another one never starts over: a change of the journal raises `Trimmed`.
        """
        self._begun = True
        self._returned = continues
        await self._take_first(look)

    async def _begin(self) -> None:
        look = await self._source.looks.in_time(self._key, events_from=self._next, events_stop=self._stop)
        await self._begin_at(look)

    async def _take_first(self, look: Look) -> None:
        self._take(look)
        if self._page is not None and look.page is not None:
            await self._take_page(look.page)

    def _take(self, look: Look) -> None:
        """Decide what to return: the rows of the store, unless the head has purged them, then the head's events."""
        look.check_open(self._source.topic.name, self._key.id)
        self._look = look
        state = look.state
        if state is None or not exists(state):
            self._position = None
            self._page, self._head = None, deque()
            return
        self._position = Position(state.life, seq_nr_of(state))
        self._next = max(self._next, (state.delete_to or 0) + 1)
        purged = max((at for at, action in enumerate(look.actions) if _purges(action)), default=-1)
        self._head = deque(
            action
            for action in look.actions[purged + 1 :]
            if type(action.told) is Append and action.verdict.counted and action.told.last >= self._next
        )
        # Not the look's own page: a step that is cancelled before it has taken that one reads it again.
        stored = purged < 0 and look.row is not None and self._next < min(look.row.seq_nr + 1, self._stop)
        self._page = EventPage((), self._next) if stored else None

    async def _next_page(self) -> None:
        page = self._page
        assert page is not None
        assert self._look is not None
        row = self._look.row
        assert row is not None
        if page.next is None:
            await self._end_of_store(row)
            return
        start = max(page.next, self._next)
        stop = min(self._stop, row.seq_nr + 1)
        if start >= stop:
            self._page = EventPage((), None)
            return
        await self._take_page(
            await self._source.topic.store.events(self._source.topic.name, self._key.id, row, start, stop)
        )

    async def _take_page(self, page: EventPage) -> None:
        assert self._look is not None
        row = self._look.row
        assert row is not None
        rows = sound_rows(page.rows, row.life, self._next)
        if has_gap(rows, self._next):
            if not await self._is_still(row):
                return
            await self._check_gap(lambda letters: lost_between(rows, self._next, letters))
        self._page = page
        self._put(rows)

    async def _end_of_store(self, row: HeadRow) -> None:
        """R25: an end before seq_nr is believed only after the head row was read again."""
        if self._next <= min(row.seq_nr, self._stop - 1):
            if not await self._is_still(row):
                return
            topic = self._source.topic
            page = await topic.store.events(topic.name, self._key.id, row, self._next, row.seq_nr + 1, 1)
            rows = sound_rows(page.rows, row.life, self._next)
            await self._check_gap(
                lambda letters: (
                    lost_between(rows, self._next, letters) if rows else lost_at_end(row, self._next, letters)
                )
            )
        self._page = None

    async def _check_gap(self, lost: Callable[[Sequence[DeadLetter]], range]) -> None:
        """Raise `Corrupt` for a gap that the head row confirms, and that no append can have left (R25)."""
        if not lost(()):
            return
        topic = self._source.topic
        letters = [letter for letter in await topic.store.dead_letters(topic.name) if letter.id == self._key.id]
        if numbers := lost(letters):
            raise Corrupt(
                f"{topic.store.url}: journal {self._key.id!r} of {topic.name!r} lacks its events {numbers.start} to"
                f" {numbers.stop - 1}: restore the store from a copy, or rebuild it from its log"
            )

    async def _is_still(self, row: HeadRow) -> bool:
        """Whether the journal is still the one that is read; else start over, or raise `Trimmed` (R25)."""
        again = await self._source.looks.row(self._key.id)
        if again is not None and again.life == row.life and (again.delete_to or 0) < self._next:
            return True
        first = 1 if again is None or again.life != row.life else (again.delete_to or 0) + 1
        if self._returned or self._ready:
            self._ended = True
            raise Trimmed(
                f"journal {self._key.id!r} of {self._source.topic.name!r} was deleted below {first} while it was read:"
                " read it anew",
                start=first,
            )
        self._start_over()
        return False

    def _start_over(self) -> None:
        """Nothing was returned yet: take another look, also at numbers that an earlier life had deleted."""
        self._begun = False
        self._next = self._start
        self._page, self._head = None, deque()

    async def _next_of_head(self) -> None:
        """Decode the events of the next records of the head."""
        actions = list(islice(self._head, _HEAD_RECORDS))
        try:
            rows, count = await self._source.head_rows(self._key, actions)
        except Trimmed:
            # The store has passed them, and the log was trimmed: the store has these events.
            await self._again_after_trim()
            return
        for _ in range(count):  # only now: a step that is cancelled or fails loses none of them
            self._head.popleft()
        self._put([row for row in rows if row.seq_nr >= self._next])

    async def _again_after_trim(self) -> None:
        position = self._position
        assert position is not None
        look = await self._source.looks.at_fence(self._key, events_from=self._next, events_stop=self._stop)
        found = look.state
        same = found is not None and found.life == position.life
        deleted = 0 if found is None or not same else found.delete_to or 0
        if (self._returned or self._ready) and (not same or deleted >= self._next):
            self._ended = True
            raise Trimmed(
                f"journal {self._key.id!r} of {self._source.topic.name!r} was deleted below {deleted + 1} while it was"
                " read: read it anew",
                start=deleted + 1,
            )
        if not same:
            self._start_over()
            return
        # The read ends where the journal ended at its first step.
        self._stop = min(self._stop, position.seq_nr + 1)
        await self._take_first(look)
        self._position = position

    def _put(self, rows: Sequence[EventRow]) -> None:
        """Make the events of these rows ready, up to the reader's end."""
        if not rows:
            return
        stop, until = self._stop, self._until_ms
        last = rows[-1].seq_nr
        if last >= stop:
            rows = [row for row in rows if row.seq_nr < stop]
        if until is not None:
            kept: list[EventRow] = []
            for row in rows:
                if row.timestamp > until:
                    self._page, self._head, self._stop = None, deque(), 0
                    break
                kept.append(row)
            rows = kept
        self._ready.extend(map(StoredEvent, rows))
        self._next = last + 1
        if last + 1 >= self._stop:
            self._page, self._head = None, deque()


class JournalSource:
    """The parts that readers of one topic share."""

    def __init__(self, topic: JournalTopic, tail: Tail, looks: Looks, scans: Scans) -> None:
        self.topic = topic
        self.tail = tail
        self.looks = looks
        self.scans = scans

    async def head_rows(self, key: Key, actions: Sequence[HeadAction]) -> tuple[list[EventRow], int]:
        """The rows of the first of these Appends, which counted, and how many they are.

        `Corrupt` at a record that cannot be decoded (R43).
        """
        head = await self.tail.head(key.partition)
        records, count = await self.scans.records(head, [action.offset for action in actions])
        rows: list[EventRow] = []
        for action in actions[:count]:
            record = records.get(action.offset)
            state = action.verdict.state
            assert type(action.told) is Append
            assert state is not None
            if record is None:
                raise Trimmed(f"{self.topic.name}/{key.partition} has no record at {action.offset} now", start=0)
            try:
                decoded, _ = event_rows(
                    action.told,
                    record.value or b"",
                    user_headers(record.headers),
                    key.partition,
                    action.offset,
                    action.timestamp,
                    state.life,
                    action.verdict.first - 1,
                )
            except BadRecord as error:
                raise poisoned(self.topic.name, key, action.offset, str(error)) from error
            rows.extend(decoded)
        return rows, count


def poisoned(topic: str, key: Key, offset: int, reason: str) -> CordwoodError:
    return Corrupt(
        f"journal {key.id!r} of {topic!r}: the record at {topic}/{key.partition}, offset {offset}, cannot be decoded:"
        f" {reason}; skip(partition={key.partition}, offset={offset}) leaves its events out"
    )


def user_headers(headers: Sequence[tuple[str, bytes | None]]) -> dict[str, str] | None:
    """All headers but the first `journal.action`, the last of a name wins; None if there are none."""
    if len(headers) < 2:
        return None
    found: dict[str, str] = {}
    action = False
    for name, value in headers:
        if name == "journal.action" and not action:
            action = True
        else:
            found[name] = (value or b"").decode(errors="replace")
    return found or None


def sound_rows(rows: Sequence[EventRow], life: str | None, start: int) -> list[EventRow]:
    """R25: drop rows of another life; of two rows with one number the lower offset counts."""
    sound: list[EventRow] = []
    expected = start
    for row in rows:
        if row.life is not None and life is not None and row.life != life:
            continue
        if row.seq_nr < expected:
            if sound and sound[-1].seq_nr == row.seq_nr and row.offset < sound[-1].offset:
                sound[-1] = row
            continue
        sound.append(row)
        expected = row.seq_nr + 1
    return sound


def has_gap(rows: Sequence[EventRow], start: int) -> bool:
    """Whether a number from `start` to the last row is missing."""
    return bool(rows) and rows[-1].seq_nr - start + 1 != len(rows)


def _purges(action: HeadAction) -> bool:
    return type(action.told) is Purge and action.verdict.counted
