"""`EventStore` on a session: checks the arguments, and runs the statements of `reading` and `writing`."""

import time
from collections.abc import AsyncIterator, Sequence
from datetime import date, timedelta

from cordwood.errors import Corrupt, InvalidInput, Outcome
from cordwood.store.interface import EventPage, EventStore, ScanPart, SnapshotGuard, TopicPointers
from cordwood.store.rows import Binding, DeadLetter, EventRow, HeadRow, Lease, PartitionChanges, Place, SnapshotRow
from cordwood.store.url import SqliteUrl

from . import reading, writing
from .session import Session, open_session


class SqliteStore(EventStore):
    """A store in one SQLite file. Several processes of one machine may use it at once."""

    def __init__(self, url: SqliteUrl, session: Session) -> None:
        self.url = str(url)
        self.read_only = session.read_only
        self._session = session

    # --- topics

    async def topics(self) -> list[TopicPointers]:
        return await self._session.read(reading.topics)

    async def binding(self, topic: str) -> Binding | None:
        return await self._session.read(reading.binding, topic)

    async def bind(self, topic: str, binding: Binding) -> Binding:
        return await self._session.write(writing.bind, topic, binding, _now())

    async def rebind(self, topic: str, held: Binding, binding: Binding) -> Binding:
        return await self._session.write(writing.rebind, topic, held, binding, _now())

    async def pointers(self, topic: str) -> dict[int, int]:
        return await self._session.read(reading.pointers, topic)

    # --- journals

    async def heads(self, topic: str, ids: Sequence[str]) -> dict[str, HeadRow]:
        return await self._session.read(reading.heads, topic, ids)

    async def events(
        self, topic: str, id: str, head: HeadRow, start: int, stop: int, bytes_max: int = 1 << 20
    ) -> EventPage:
        _check_at_least("start", start, 1)
        _check_at_least("bytes_max", bytes_max, 1)
        return await self._session.read(reading.events, topic, id, start, stop, bytes_max)

    async def first_events(
        self, topic: str, id: str, start: int, stop: int, bytes_max: int = 1 << 20
    ) -> tuple[HeadRow | None, EventPage | None]:
        _check_at_least("start", start, 1)
        _check_at_least("bytes_max", bytes_max, 1)
        return await self._session.read(reading.first_events, topic, id, start, stop, bytes_max)

    async def ids(self, topic: str) -> AsyncIterator[list[str]]:
        after: str | None = ""
        while after is not None:
            page, after = await self._session.read(reading.ids_after, topic, after)
            if page:
                yield page

    async def expired(self, topic: str, after: date | None, through: date) -> AsyncIterator[list[tuple[str, HeadRow]]]:
        if after == date.max:
            return
        place = reading.Expired("" if after is None else (after + timedelta(days=1)).isoformat(), "")
        while page := await self._session.read(reading.expired_after, topic, place, through):
            yield page
            id, head = page[-1]
            assert head.expire_on is not None
            place = reading.Expired(head.expire_on.isoformat(), id)

    async def expired_through(self, topic: str) -> date | None:
        text = await self._session.read(reading.setting, writing.expired_key(topic))
        try:
            return None if text is None else date.fromisoformat(text)
        except ValueError as error:
            raise Corrupt(f"{self.url}: the setting {writing.expired_key(topic)} is {text!r}, and no day") from error

    async def set_expired_through(self, topic: str, day: date) -> None:
        await self._session.write(writing.set_expired_through, topic, day, _now())

    # --- scans

    async def parts(self, topic: str, count: int) -> list[ScanPart]:
        _check_at_least("count", count, 1)
        return await self._session.read(reading.parts, topic, count)

    async def scan_heads(self, topic: str, part: ScanPart) -> AsyncIterator[list[tuple[str, HeadRow]]]:
        after = ""
        while page := await self._session.read(reading.heads_after, topic, after, part):
            yield page
            after = page[-1][0]

    async def scan_events(
        self, topic: str, part: ScanPart, bytes_max: int = 1 << 20
    ) -> AsyncIterator[list[tuple[str, EventRow]]]:
        _check_at_least("bytes_max", bytes_max, 1)
        after: reading.Row | None = reading.Row("" if part.first is None else str(part.first), 0, 0)
        while after is not None:
            page, after = await self._session.read(reading.rows_after, topic, after, part, bytes_max)
            if page:
                yield page

    # --- writing

    async def write(self, changes: PartitionChanges) -> bool:
        _check_changes(changes)
        return await self._session.write(writing.write, changes, _now())

    # --- snapshots

    async def snapshots(self, topic: str, id: str) -> list[SnapshotRow]:
        return await self._session.read(reading.snapshots, topic, id)

    async def save_snapshot(
        self, topic: str, id: str, snapshot: SnapshotRow, newest: int, guard: SnapshotGuard
    ) -> bool:
        _check_at_least("newest", newest, 1, outcome="not_written")
        return await self._session.write(writing.save_snapshot, topic, id, snapshot, newest, guard)

    async def delete_snapshots(self, topic: str, id: str, life: str, through: int, guard: SnapshotGuard) -> None:
        await self._session.write(writing.delete_snapshots, topic, id, life, through, guard)

    # --- dead letters

    async def dead_letters(self, topic: str) -> list[DeadLetter]:
        return await self._session.read(reading.dead_letters, topic)

    async def skip(self, topic: str, partition: int, offset: int, now: int) -> DeadLetter:
        return await self._session.write(writing.skip, topic, Place(partition, offset), now)

    # --- leases

    async def leases(self, topic: str) -> dict[int, Lease]:
        return await self._session.read(reading.leases, topic, _now())

    async def take_leases(self, topic: str, partitions: Sequence[int], owner: str, seconds: float) -> set[int]:
        now = _now()
        until = now + int(seconds * 1000)
        return await self._session.write(writing.take_leases, topic, partitions, owner, now, until)

    async def release_leases(self, topic: str, owner: str) -> None:
        await self._session.write(writing.release_leases, topic, owner)

    async def close(self) -> None:
        await self._session.close()


async def open_sqlite(url: SqliteUrl, *, read_only: bool = False, timeout: float = 30) -> SqliteStore:
    """Open the store of a url, and create it if it does not exist.

    ```python
    store = await open_sqlite(parse_store_url("sqlite:./store.db"))
    ```
    """
    return SqliteStore(url, await open_session(url.path, read_only=read_only, timeout=timeout))


def _now() -> int:
    """Only pointers and settings hold the time of the clock (R27)."""
    return time.time_ns() // 1_000_000


def _check_at_least(what: str, value: int, least: int, outcome: Outcome | None = None) -> None:
    if value < least:
        raise InvalidInput(f"{what} is {value}: it is at least {least}", outcome=outcome)


def _check_changes(changes: PartitionChanges) -> None:
    """Refuse changes that no fold makes: a store that took them would differ from its log."""
    where = f"changes of {changes.topic}/{changes.partition}"
    if changes.after is not None and changes.pointer < changes.after:
        raise InvalidInput(
            f"{where}: the pointer {changes.pointer} is below {changes.after}, where it is: it never moves back",
            outcome="not_written",
        )
    if len({key.id for key in changes.keys}) < len(changes.keys):
        raise InvalidInput(f"{where}: a key is there twice: net its changes", outcome="not_written")
    for key in changes.keys:
        if key.rows and key.head is None:
            raise InvalidInput(f"{where}: {key.id!r} has rows, but no head: rows need a journal", outcome="not_written")
