"""A journal: blocking."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from types import TracebackType
from typing import Generic, Self, TypeVar, cast

from cordwood import journal
from cordwood.errors import InvalidInput
from cordwood.journal import (
    Appended,
    Event,
    ExpiredReport,
    ExplainedAction,
    JournalStats,
    Position,
    PurgeReport,
    Snapshot,
    StoredEvent,
)
from cordwood.store import DeadLetter
from cordwood.sync.portal import Portal
from cordwood.sync.reader import Crossing, GeneratorReader

T = TypeVar("T")

CHUNK_EVENTS_MAX = 1024
"""The events, ids or actions that cross threads at a time."""
_ITEM_BYTES = 256  # of an event besides its payload, or of an id or action, about


class Journal:
    """The events of many entities on one topic, replicated to an event store. It may be used from several threads.

    ```python
    journal = cw.journal("orders")
    done = journal.append("order-1", [Event.json({"item": "tea"})])
    with journal.read("order-1") as reader:
        for event in reader:
            print(event.seq_nr, event.payload)
    ```
    """

    topic: str

    def __init__(self, journal: journal.Journal, through: Portal) -> None:
        self.topic = journal.topic
        self._journal = journal
        self._portal = through

    # --- writing

    def append(
        self,
        key: str,
        events: Sequence[Event],
        *,
        expected: int | Position | None = None,
        id: str | None = None,
        seq_nr: int | None = None,
        expire_after: timedelta | None = None,
        keep_expiry: bool = False,
        metadata: object = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Appended:
        """Append events to a journal, all or none of them; returns when they are durable and have their numbers.

        With `expected`, the journal must be at that number, or at that `Position`, else the call raises `Conflict` with
        `actual` and `winner`. With `expected` and `id`, a retry is safe from any process: it returns the first result.
        An `id` alone covers the retries within this call only. `expire_after` sets when the journal may be purged; an
        append without it clears that, unless `keep_expiry`. On a topic with a single writer, `seq_nr` is the number of
        the first event.

        ```python
        done = journal.append("order-1", [Event.json({"n": 1})], expected=0, id="command-42")
        done.seq_nrs  # range(1, 2)
        ```
        """
        return self._portal.call(
            self._journal.append,
            key,
            events,
            expected=expected,
            id=id,
            seq_nr=seq_nr,
            expire_after=expire_after,
            keep_expiry=keep_expiry,
            metadata=metadata,
            headers=headers,
            timeout=timeout,
        )

    def delete(self, key: str, *, through: int, timeout: float | None = None) -> None:
        """Delete the events up to this number, inclusive; beyond the end it deletes all.

        The numbers continue: the next append follows the last deleted event. A journal that does not exist stays so.

        ```python
        journal.delete("order-1", through=2)
        ```
        """
        self._portal.call(self._journal.delete, key, through=through, timeout=timeout)

    def purge(self, key: str, *, wait: bool = False, timeout: float | None = None) -> PurgeReport:
        """Delete the whole journal, its snapshots included; the next append begins a new life, at 1.

        With `wait` the call returns when the store holds nothing of it. The log holds its records until `log_until`.

        ```python
        report = journal.purge("order-1", wait=True)
        ```
        """
        return self._portal.call(self._journal.purge, key, wait=wait, timeout=timeout)

    # --- reading

    def read(self, key: str, start: int = 1, stop: int | None = None, until: datetime | None = None) -> "EventReader":
        """Read the events [start, stop) of a journal, to its end at the first step; `until` ends it at a time.

        ```python
        with journal.read("order-1", start=3) as reader:
            for event in reader:
                print(event.seq_nr, event.payload)
        ```
        """
        return EventReader(self._portal.call(self._read, key, start, stop, until), self._portal)

    def follow(self, key: str, start: int = 1) -> "FollowReader":
        """Read the events of a journal from `start` on, and then every new one, each once it is acked.

        A Delete beyond the reader's place raises `Trimmed`, a Purge ends the reader. A `start` beyond the end + 1 is
        `InvalidInput`.

        ```python
        with journal.follow("order-1") as reader:
            for event in reader:
                print(event.seq_nr, event.payload)
        ```
        """
        return FollowReader(self._portal.call(self._follow, key, start), self._portal)

    def pointer(self, key: str, *, timeout: float | None = None) -> int | None:
        """The number of the last event, also if it is deleted; None if there is no journal."""
        return self._portal.call(self._journal.pointer, key, timeout=timeout)

    def position(self, key: str, *, timeout: float | None = None) -> Position | None:
        """The life and the number of the last event; None if there is no journal.

        ```python
        position = journal.position("order-1")
        journal.append("order-1", [Event.empty()], expected=position)
        ```
        """
        return self._portal.call(self._journal.position, key, timeout=timeout)

    def ids(self) -> Iterator[str]:
        """The ids of all journals, replicated or not, each once, in no order.

        ```python
        for id in journal.ids():
            print(id)
        ```
        """
        return _Items(self._portal.call(self._ids), self._portal)

    def explain(self, key: str) -> Iterator[ExplainedAction]:
        """Every action of a journal that the log still has, with its verdict.

        ```python
        for action in journal.explain("order-1"):
            print(action.offset, action.kind, action.counted)
        ```
        """
        return _Items(self._portal.call(self._explain, key), self._portal)

    # --- snapshots

    def save_snapshot(
        self, key: str, seq_nr: int, payload: bytes, *, newest: int = 1, timeout: float | None = None
    ) -> None:
        """Save a snapshot of a journal at one of its numbers, and keep the `newest` ones.

        ```python
        journal.save_snapshot("order-1", seq_nr=4, payload=b"state", newest=1)
        ```
        """
        self._portal.call(self._journal.save_snapshot, key, seq_nr, payload, newest=newest, timeout=timeout)

    def load_snapshot(self, key: str, *, timeout: float | None = None) -> Snapshot | None:
        """The newest snapshot of a journal, or None."""
        return self._portal.call(self._journal.load_snapshot, key, timeout=timeout)

    def delete_snapshots(self, key: str, *, through: int, timeout: float | None = None) -> None:
        """Delete the snapshots of a journal up to this number, inclusive."""
        self._portal.call(self._journal.delete_snapshots, key, through=through, timeout=timeout)

    def recover(self, key: str) -> "Recovered":
        """The newest snapshot of a journal and the events after it, as of one read fence.

        ```python
        with journal.recover("order-1") as recovered:
            print(recovered.snapshot)
            for event in recovered:
                print(event.seq_nr)
        ```
        """
        return Recovered(self._portal.call(self._recover, key), self._portal)

    # --- replication

    def catch_up(self, *, accept_loss: bool = False, adopt: bool = False, timeout: float | None = None) -> None:
        """Replicate to the end of the log, now, in this process.

        `accept_loss` accepts records that were trimmed before they were replicated: the dead letters name them. Without
        `timeout` it takes as long as there are records; after a `Timeout` the next call continues.
        """
        self._portal.call(self._journal.catch_up, accept_loss=accept_loss, adopt=adopt, timeout=timeout)

    def wait_replicated(self, done: Appended, *, timeout: float | None = None) -> None:
        """Wait until the store has an append."""
        self._portal.call(self._journal.wait_replicated, done, timeout=timeout)

    def purge_expired(self, on: date | None = None, *, timeout: float | None = None) -> ExpiredReport:
        """Purge the journals whose expiry has come, through `on`: by default through yesterday, UTC.

        It also finds the days that no earlier run completed. A journal that got events meanwhile is refused. Without
        `timeout` it takes as long as there are journals; after a `Timeout` the next call continues.
        """
        return self._portal.call(self._journal.purge_expired, on, timeout=timeout)

    def dead_letters(self, *, timeout: float | None = None) -> list[DeadLetter]:
        """The poison records and lost ranges of the topic, those that were skipped among them."""
        return self._portal.call(self._journal.dead_letters, timeout=timeout)

    def skip(self, *, partition: int, offset: int, timeout: float | None = None) -> DeadLetter:
        """Skip a dead letter: its journal is open again, without that record's events."""
        return self._portal.call(self._journal.skip, partition=partition, offset=offset, timeout=timeout)

    def stats(self) -> JournalStats:
        """Numbers about this journal in this process. No I/O."""
        return self._portal.call(self._stats)

    def close(self) -> None:
        """Finish the appends under way, and close; a second call has no effect."""
        self._portal.call_to_close(self._journal.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<cordwood.sync.Journal of {self._journal!r}>"

    # On the loop, which owns the state of a journal.

    async def _read(self, key: str, start: int, stop: int | None, until: datetime | None) -> journal.EventReader:
        return self._journal.read(key, start, stop, until)

    async def _follow(self, key: str, start: int) -> journal.FollowReader:
        return self._journal.follow(key, start)

    async def _recover(self, key: str) -> journal.Recovered:
        return self._journal.recover(key)

    async def _ids(self) -> AsyncGenerator[str, None]:
        return cast(AsyncGenerator[str, None], self._journal.ids())

    async def _explain(self, key: str) -> AsyncGenerator[ExplainedAction, None]:
        return cast(AsyncGenerator[ExplainedAction, None], self._journal.explain(key))

    async def _stats(self) -> JournalStats:
        return self._journal.stats()


class EventReader:
    """The events of one journal in order: an iterator, and a context manager that closes it.

    ```python
    with journal.read("order-1") as reader:
        for event in reader:
            print(event.seq_nr, event.payload)
    print(reader.position)
    ```
    It may be iterated without `with`; then it closes at its end, with the connection, or when it is garbage-collected.
    """

    def __init__(self, reader: journal.EventReader, through: Portal) -> None:
        self._reader = reader
        self._crossing = _cross_events(self, reader, through)

    @property
    def position(self) -> Position | None:
        """The place of the journal that the read saw; None if the journal does not exist, or before the first step."""
        return self._reader.position

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> StoredEvent:
        return self._crossing.next()

    def close(self) -> None:
        """Stop reading; a second call has no effect."""
        self._crossing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<blocking {self._crossing!r}>"


class FollowReader:
    """The events of one journal, then every new one: an iterator, and a context manager that closes it.

    ```python
    with journal.follow("order-1") as reader:
        for event in reader:
            print(event.seq_nr, event.payload)
    ```
    Another thread may call `close`, which ends an iteration that waits. The end of the program also ends it.
    """

    def __init__(self, reader: journal.FollowReader, through: Portal) -> None:
        self._crossing = _cross_events(self, reader, through, follows=True)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> StoredEvent:
        return self._crossing.next()

    def close(self) -> None:
        """Stop following; a second call has no effect. A `next` that waits in another thread raises StopIteration."""
        self._crossing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<blocking {self._crossing!r}>"


class Recovered:
    """A snapshot, if there is one, and the events after it: one read fence for both.

    ```python
    with journal.recover("order-1") as recovered:
        state = load(recovered.snapshot)
        for event in recovered:
            state.apply(event.payload)
    ```
    """

    def __init__(self, recovered: journal.Recovered, through: Portal) -> None:
        self._recovered = recovered
        self._portal = through
        self._reader: EventReader | None = None

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest snapshot, or None; known once the block is entered."""
        return self._recovered.snapshot

    @property
    def position(self) -> Position | None:
        """The place of the journal; None if it does not exist."""
        return self._recovered.position

    def __enter__(self) -> Self:
        self._reader = EventReader(self._portal.call(self._enter), self._portal)
        return self

    def __iter__(self) -> Iterator[StoredEvent]:
        if self._reader is None:
            raise InvalidInput("enter the recovery first: `with journal.recover(id) as recovered:`")
        return self._reader

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._reader is not None:
            self._reader.close()

    async def _enter(self) -> journal.EventReader:
        entered = await self._recovered.__aenter__()
        return cast(journal.EventReader, aiter(entered))


class _Items(Generic[T]):
    """The items of an async generator. They cross threads in chunks."""

    def __init__(self, generator: AsyncGenerator[T, None], through: Portal) -> None:
        reader = GeneratorReader(generator)
        self._crossing: Crossing[T] = Crossing(
            self, reader, through, weigh=lambda _: _ITEM_BYTES, items_max=CHUNK_EVENTS_MAX
        )

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        return self._crossing.next()


def _cross_events(
    owner: object,
    reader: journal.EventReader | journal.FollowReader,
    through: Portal,
    *,
    follows: bool = False,
) -> Crossing[StoredEvent]:
    return Crossing(owner, reader, through, follows=follows, weigh=_weigh_event, items_max=CHUNK_EVENTS_MAX)


def _weigh_event(event: StoredEvent) -> int:
    return _ITEM_BYTES + len(event.raw)
