"""`EventStore` on a session: checks the arguments, and runs the calls of `reading` and `writing`."""

import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Final

from cordwood.errors import Corrupt, InvalidInput, Outcome
from cordwood.store.boot_clock import boot_seconds
from cordwood.store.interface import EventPage, EventStore, ScanPart, SnapshotGuard, TopicPointers, live_range
from cordwood.store.rows import Binding, DeadLetter, EventRow, HeadRow, Lease, PartitionChanges, Place, SnapshotRow
from cordwood.store.segments import head_segments
from cordwood.store.url import CassandraUrl

from . import leasing, reading, writing
from .schema import LockTimes
from .session import Session, open_session
from .settings import parse_settings
from .write_time import freshness

_OLDER_MAX: Final = 100_000
_DEFAULT_SEGMENT_SIZE: Final = 10_000


class CassandraStore(EventStore):
    """A store in a keyspace. Any number of processes may use it at once."""

    def __init__(self, url: CassandraUrl, session: Session) -> None:
        self.url = str(url)
        self.read_only = session.read_only
        self._session = session
        self._bindings: dict[str, Binding] = {}
        self._written: dict[str, set[int]] = {}
        # Keys whose head row was found in its old segment: the next write moves it. Replicators read it just before.
        self._older: OrderedDict[tuple[str, str], int] = OrderedDict()
        # Topics without such a row: nothing makes one any more.
        self._without_older: set[str] = set()

    # --- topics

    async def topics(self) -> list[TopicPointers]:
        async with self._session.call("topics") as call:
            return await reading.topics(call)

    async def binding(self, topic: str) -> Binding | None:
        async with self._session.call("binding") as call:
            found = await reading.binding(call, topic)
        if found is not None:
            self._bindings[topic] = found
        return found

    async def bind(self, topic: str, binding: Binding) -> Binding:
        async with self._session.writing("bind") as call:
            bound = await writing.bind(call, topic, binding)
        self._bindings[topic] = bound
        return bound

    async def rebind(self, topic: str, held: Binding, binding: Binding) -> Binding:
        async with self._session.writing("rebind") as call:
            bound = await writing.rebind(call, topic, held, binding)
        self._bindings[topic] = bound
        return bound

    async def pointers(self, topic: str) -> dict[int, int]:
        bound = self._bindings.get(topic) or await self.binding(topic)
        async with self._session.call("pointers") as call:
            if bound is None:
                return await reading.pointers(call, topic, None)
            partitions = self._written.get(topic, set()) | set(range(bound.partitions))
            return await reading.pointers(call, topic, sorted(partitions))

    # --- journals

    async def heads(self, topic: str, ids: Sequence[str]) -> dict[str, HeadRow]:
        async with self._session.call("heads") as call:
            found = await reading.heads(call, topic, ids)
        for id, row in found.items():
            if row.segment != head_segments(id).now:
                self._older[topic, id] = row.segment
                if len(self._older) > _OLDER_MAX:
                    self._older.popitem(last=False)
        return {id: row.head for id, row in found.items()}

    async def events(
        self, topic: str, id: str, head: HeadRow, start: int, stop: int, bytes_max: int = 1 << 20
    ) -> EventPage:
        _check_range(start, bytes_max)
        async with self._session.call("events") as call:
            return await reading.events(call, topic, id, head, start, stop, bytes_max)

    async def first_events(
        self, topic: str, id: str, start: int, stop: int, bytes_max: int = 1 << 20
    ) -> tuple[HeadRow | None, EventPage | None]:
        _check_range(start, bytes_max)
        head = (await self.heads(topic, [id])).get(id)
        first, last = live_range(head, start, stop)
        if head is None or first >= last:
            return head, None
        return head, await self.events(topic, id, head, first, last, bytes_max)

    async def ids(self, topic: str) -> AsyncIterator[list[str]]:
        async for page in self.scan_heads(topic, ScanPart(None, None)):
            ids = [id for id, head in page if head.seq_nr or head.delete_to]
            if ids:
                yield ids

    async def expired(self, topic: str, after: date | None, through: date) -> AsyncIterator[list[tuple[str, HeadRow]]]:
        if after is not None and through <= after:
            return
        if after is not None and (through - after).days <= reading.DAYS_MAX:
            for number in range(1, (through - after).days + 1):
                async with self._session.call("expired") as call:
                    page = await reading.expired_on(call, topic, after + timedelta(days=number))
                if page:
                    yield page
            return
        async for page in self.scan_heads(topic, ScanPart(None, None)):
            due = [
                (id, head)
                for id, head in page
                if head.expire_on is not None
                and head.expire_on <= through
                and (after is None or head.expire_on > after)
            ]
            if due:
                yield due

    async def expired_through(self, topic: str) -> date | None:
        async with self._session.call("expired_through") as call:
            text = await reading.setting(call, writing.expired_key(topic))
        try:
            return None if text is None else date.fromisoformat(text)
        except ValueError as error:
            raise Corrupt(f"{self.url}: the setting {writing.expired_key(topic)} is {text!r}, and no day") from error

    async def set_expired_through(self, topic: str, day: date) -> None:
        async with self._session.writing("set_expired_through") as call:
            await writing.set_expired_through(call, topic, day)

    # --- scans

    async def parts(self, topic: str, count: int) -> list[ScanPart]:
        _check_at_least("count", count, 1)
        async with self._session.call("parts") as call:
            return reading.split(await reading.head_parts(call, topic), count)

    async def scan_heads(self, topic: str, part: ScanPart) -> AsyncIterator[list[tuple[str, HeadRow]]]:
        async with self._session.call("scan_heads") as call:
            if topic not in self._without_older and not await reading.has_older(call, topic):
                self._without_older.add(topic)
            segments = await reading.scanned(call, topic, part, topic not in self._without_older)
        for at in range(0, len(segments), reading.SEGMENTS_AT_ONCE):
            async with self._session.call("scan_heads") as call:
                found = await reading.scan_heads(call, topic, segments[at : at + reading.SEGMENTS_AT_ONCE], part)
            for first in range(0, len(found), reading.KEYS_PER_PAGE):
                yield found[first : first + reading.KEYS_PER_PAGE]

    async def scan_events(
        self, topic: str, part: ScanPart, bytes_max: int = 1 << 20
    ) -> AsyncIterator[list[tuple[str, EventRow]]]:
        _check_at_least("bytes_max", bytes_max, 1)
        async with self._session.call("scan_events") as call:
            places = await reading.event_parts(call, topic, part)
        page: list[tuple[str, EventRow]] = []
        size = 0
        wanted = [(id, segment) for id, segments in places.items() for segment in sorted(segments)]
        for at in range(0, len(wanted), reading.PARTS_AT_ONCE):
            some = wanted[at : at + reading.PARTS_AT_ONCE]
            async with self._session.call("scan_events") as call:
                first = await reading.rows_of_parts(call, topic, some, bytes_max)
            for (id, segment), (rows, weight, start) in zip(some, first, strict=True):
                while True:
                    if page and size + weight > bytes_max:
                        yield page
                        page, size = [], 0
                    page.extend(rows)
                    size += weight
                    if start is None:
                        break
                    async with self._session.call("scan_events") as call:
                        rows, weight, start = await reading.rows_of_part(call, topic, id, segment, start, bytes_max)
        if page:
            yield page

    # --- writing

    async def write(self, changes: PartitionChanges) -> bool:
        self._session.check_writable()
        _check_changes(changes)
        topic = changes.topic
        # A replicator repeats a batch as it is: with one limit for all of it, a large one would never end. TooOld does.
        async with self._session.writing("write", each=True) as call:
            how = await self._how(topic, changes.began)
            done = await writing.write(call, changes, how)
        if done:
            self._written.setdefault(topic, set()).add(changes.partition)
            for key in changes.keys:
                self._older.pop((topic, key.id), None)
        return done

    async def _how(self, topic: str, began: float | None) -> writing.Writing:
        # A binding never changes, but by an operation that needs all replicators stopped. Journals bind their topics:
        # what is written without one follows the clock.
        bound = self._bindings.get(topic) or await self.binding(topic)
        return writing.Writing(
            time.time_ns() // 1000 if bound is None else bound.base_us,
            _DEFAULT_SEGMENT_SIZE if bound is None else bound.segment_size,
            freshness(boot_seconds() if began is None else began),
            lambda id: self._older.get((topic, id)),
        )

    # --- snapshots

    async def snapshots(self, topic: str, id: str) -> list[SnapshotRow]:
        async with self._session.call("snapshots") as call:
            return await reading.snapshots(call, topic, id)

    async def save_snapshot(
        self, topic: str, id: str, snapshot: SnapshotRow, newest: int, guard: SnapshotGuard
    ) -> bool:
        _check_at_least("newest", newest, 1, outcome="not_written")
        async with self._session.writing("save_snapshot") as call:
            how = await self._how(topic, guard.began)
            return await writing.save_snapshot(call, topic, id, snapshot, newest, guard, how)

    async def delete_snapshots(self, topic: str, id: str, life: str, through: int, guard: SnapshotGuard) -> None:
        async with self._session.writing("delete_snapshots") as call:
            how = await self._how(topic, guard.began)
            await writing.delete_snapshots(call, topic, id, life, through, guard, how)

    # --- dead letters

    async def dead_letters(self, topic: str) -> list[DeadLetter]:
        async with self._session.call("dead_letters") as call:
            return await reading.dead_letters(call, topic)

    async def skip(self, topic: str, partition: int, offset: int, now: int) -> DeadLetter:
        async with self._session.writing("skip") as call:
            how = await self._how(topic, None)
            return await writing.skip(call, topic, Place(partition, offset), now, how.base_us)

    # --- leases

    async def leases(self, topic: str) -> dict[int, Lease]:
        async with self._session.call("leases") as call:
            return await leasing.leases(call, topic)

    async def take_leases(self, topic: str, partitions: Sequence[int], owner: str, seconds: float) -> set[int]:
        async with self._session.writing("take_leases") as call:
            return await leasing.take_leases(call, topic, partitions, owner, seconds)

    async def release_leases(self, topic: str, owner: str) -> None:
        async with self._session.writing("release_leases") as call:
            await leasing.release_leases(call, topic, owner)

    async def close(self) -> None:
        await self._session.close()


async def open_cassandra(
    url: CassandraUrl,
    config: Mapping[str, str],
    *,
    read_only: bool = False,
    timeout: float = 30,
    lock: LockTimes | None = None,
) -> CassandraStore:
    """Open the keyspace of a url, and create it and its tables if they do not exist.

    ```python
    store = await open_cassandra(parse_store_url("cassandra://127.0.0.1/journal"), {})
    ```
    """
    settings = parse_settings(url, config)
    return CassandraStore(url, await open_session(settings, read_only=read_only, timeout=timeout, lock=lock))


def _is_done(day: date, after: date | None) -> bool:
    return after is not None and day <= after


def _check_range(start: int, bytes_max: int) -> None:
    _check_at_least("start", start, 1)
    if start > reading.SEQ_NR_MAX:
        raise InvalidInput(f"start is {start}, over the limit of {reading.SEQ_NR_MAX}")
    _check_at_least("bytes_max", bytes_max, 1)


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
