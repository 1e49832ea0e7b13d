"""Stores that break one promise each. `test_the_suite` runs one theme on each, and wants it to be noticed there."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from cordwood.errors import Unavailable
from cordwood.store import (
    Binding,
    DeadLetter,
    EventPage,
    EventStore,
    HeadRow,
    PartitionChanges,
    ScanPart,
    SnapshotGuard,
    SnapshotRow,
    TopicPointers,
)
from cordwood.store.sqlite import SqliteStore
from cordwood.store.sqlite.session import open_session
from cordwood.store.url import parse_store_url
from cordwood.testing.store.bindings import Bindings
from cordwood.testing.store.closing import Closing
from cordwood.testing.store.concurrency import Concurrency
from cordwood.testing.store.dead_letters import DeadLetters
from cordwood.testing.store.guard import Guard
from cordwood.testing.store.journals import Journals
from cordwood.testing.store.leases import Leases
from cordwood.testing.store.netting import Netting
from cordwood.testing.store.pages import Pages
from cordwood.testing.store.purging import Purging
from cordwood.testing.store.read_only import ReadOnly
from cordwood.testing.store.scans import Scans
from cordwood.testing.store.snapshots import Snapshots
from cordwood.testing.store.topics import Topics
from cordwood.testing.store.under_test import StoreUnderTest, behind, snapshot

replace = msgspec.structs.replace
AHEAD = 2**60


class Broken(StoreUnderTest):
    """A suite for one store."""

    store_class: ClassVar[type[SqliteStore]] = SqliteStore
    noticed_by: ClassVar[str] = ""

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:{tmp_path}/store.db"

    async def open(self, url: str, read_only: bool = False) -> EventStore:
        target = parse_store_url(url)
        return self.store_class(target, await open_session(target.path, read_only=read_only, timeout=30))


class ForgetsTags(SqliteStore):
    async def events(self, *args: Any, **options: Any) -> EventPage:
        page = await super().events(*args, **options)
        return page._replace(rows=[replace(row, tags=None) for row in page.rows])


class HasNoGuard(SqliteStore):
    async def write(self, changes: PartitionChanges) -> bool:
        pointers = await self.pointers(changes.topic)
        pointer = max(changes.pointer, pointers.get(changes.partition, 0))
        return await super().write(replace(changes, after=pointers.get(changes.partition), pointer=pointer))


class KeepsExpiry(SqliteStore):
    async def write(self, changes: PartitionChanges) -> bool:
        heads = await self.heads(changes.topic, [key.id for key in changes.keys])
        keys = [
            replace(key, head=key.head and replace(key.head, expire_on=key.head.expire_on or heads[key.id].expire_on))
            if key.id in heads
            else key
            for key in changes.keys
        ]
        return await super().write(replace(changes, keys=keys))


class PurgeLeavesSnapshots(SqliteStore):
    async def write(self, changes: PartitionChanges) -> bool:
        written = await super().write(changes)
        for key in changes.keys:
            if key.purge is not None:
                await self.save_snapshot(changes.topic, key.id, snapshot(1), 1, behind(AHEAD))
        return written


class IgnoresPageBytes(SqliteStore):
    async def events(
        self, topic: str, id: str, head: HeadRow, start: int, stop: int, bytes_max: int = 1 << 20
    ) -> EventPage:
        return await super().events(topic, id, head, start, stop, 1 << 30)


class ListsReplicatedTopics(SqliteStore):
    async def topics(self) -> list[TopicPointers]:
        return [topic for topic in await super().topics() if topic.pointers]


class SavesAnySnapshot(SqliteStore):
    async def save_snapshot(
        self, topic: str, id: str, snapshot: SnapshotRow, newest: int, guard: SnapshotGuard
    ) -> bool:
        return await super().save_snapshot(topic, id, snapshot, newest, guard._replace(fence=AHEAD))


class SkipsNothing(SqliteStore):
    async def skip(self, topic: str, partition: int, offset: int, now: int) -> DeadLetter:
        (letter,) = [one for one in await self.dead_letters(topic) if one.place == (partition, offset)]
        return replace(letter, skipped=now)


class ScansEverything(SqliteStore):
    async def scan_heads(self, topic: str, part: ScanPart) -> AsyncIterator[list[tuple[str, HeadRow]]]:
        async for page in super().scan_heads(topic, ScanPart(None, None)):
            yield page


class BelongsToOneLoop(SqliteStore):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.loop = asyncio.get_running_loop()

    async def write(self, changes: PartitionChanges) -> bool:
        if asyncio.get_running_loop() is not self.loop:
            raise Unavailable("another loop", reason="other-loop")
        return await super().write(changes)


class BindsAgain(SqliteStore):
    async def bind(self, topic: str, binding: Binding) -> Binding:
        await super().bind(topic, binding)
        return binding


class GivesEveryLease(SqliteStore):
    async def take_leases(self, topic: str, partitions: Sequence[int], owner: str, seconds: float) -> set[int]:
        await super().take_leases(topic, partitions, owner, seconds)
        return set(partitions)


class NeverCloses(SqliteStore):
    async def close(self) -> None:
        pass


class TestForgetsTags(Broken, Journals):
    store_class = ForgetsTags
    noticed_by = "test_a_row_is_read_back_with_all_its_columns[tags0]"


class TestHasNoGuard(Broken, Guard):
    store_class = HasNoGuard
    noticed_by = "test_a_paused_replicator_brings_no_purged_journal_back"


class TestKeepsExpiry(Broken, Netting):
    store_class = KeepsExpiry
    noticed_by = "test_a_head_row_is_written_whole"


class TestPurgeLeavesSnapshots(Broken, Purging):
    store_class = PurgeLeavesSnapshots
    noticed_by = "test_a_purge_leaves_nothing_of_its_journal"


class TestIgnoresPageBytes(Broken, Pages):
    store_class = IgnoresPageBytes
    noticed_by = "test_a_page_ends_where_its_bytes_do[text]"


class TestListsReplicatedTopics(Broken, Topics):
    store_class = ListsReplicatedTopics
    noticed_by = "test_a_topic_that_is_only_bound_has_no_pointers"


class TestSavesAnySnapshot(Broken, Snapshots):
    store_class = SavesAnySnapshot
    noticed_by = "test_a_snapshot_that_comes_after_the_purge_is_refused"


class TestSkipsNothing(Broken, DeadLetters):
    store_class = SkipsNothing
    noticed_by = "test_a_skip_opens_the_key"


class TestScansEverything(Broken, Scans):
    store_class = ScansEverything
    noticed_by = "test_parts_cover_every_journal_once[2]"


class TestBelongsToOneLoop(Broken, Concurrency):
    store_class = BelongsToOneLoop
    noticed_by = "test_several_event_loops_use_one_store"


class TestReaderWrites(Broken, ReadOnly):
    noticed_by = "test_a_reader_writes_nothing[write]"

    async def open(self, url: str, read_only: bool = False) -> EventStore:
        return await super().open(url)


class TestBindsAgain(Broken, Bindings):
    store_class = BindsAgain
    noticed_by = "test_the_first_binding_holds"


class TestGivesEveryLease(Broken, Leases):
    store_class = GivesEveryLease
    noticed_by = "test_the_first_owner_has_the_lease_until_it_ends"


class TestNeverCloses(Broken, Closing):
    store_class = NeverCloses
    noticed_by = "test_a_closed_store_is_unavailable"
