"""The in-process replicator: folds the records of a topic into its store (R24, R27).

One reader follows all partitions. A batch of one partition is folded key by key, with the head rows of all its keys in
one sweep, and written as a whole; the pointer moves last. Two replicators at once waste work, and harm nothing. So a
replicator may take leases: it follows the partitions whose lease it has, and nothing depends on them (R24).
"""

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cordwood.errors import Conflict, CordwoodError, Corrupt, InvalidInput, Trimmed, Unavailable, reason_of
from cordwood.log.calls.outcome import copy_for_caller
from cordwood.log.interface import PartitionsReader
from cordwood.records import StoredBatch, StoredRecord
from cordwood.store import DeadLetter, EventRow, HeadRow, KeyChanges, PartitionChanges, boot_seconds

from .action import Append
from .fold import KeyFold, KeyRecord, Poison, Topic
from .gather import Gatherer
from .key import decode_id
from .look import told_of
from .reader import user_headers
from .record_rows import event_rows
from .topic import JournalTopic

_LOGGER = logging.getLogger("cordwood.journal")

EVENTS_MAX = 10_000
BYTES_MAX = 4 * 1024 * 1024
_RETRY_SECONDS = (0.1, 60.0)
_LOOK_AGAIN_SECONDS = 600.0
"""R24: a store may refuse a batch that is an hour old. Long before, the replicator looks at the pointers again."""
_FINAL = (Conflict, Trimmed, Corrupt, InvalidInput)
"""Errors that do not pass by themselves: the replicator ends, and the next call on the journal raises them."""


class LeaseTerm(NamedTuple):
    """How a background replicator takes the leases of its partitions."""

    owner: str
    seconds: float
    """How long a lease lasts without its owner. It is renewed three times as often."""


@dataclass
class ReplicatorStats:
    """What the replicator has done since it began."""

    records: int = 0
    events: int = 0
    dead: int = 0
    pointers: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    """How far it knows the logs."""
    partitions: tuple[int, ...] = ()
    """The partitions that it replicates in the background now."""


class Folded(NamedTuple):
    """The first records of a batch, folded."""

    records: int
    keys: list[KeyChanges]
    dead_letters: list[DeadLetter]
    events: int


def fold_batch(batch: StoredBatch, heads: dict[str, HeadRow], topic: Topic, name: str) -> Folded:
    """Fold the records of one partition, until EVENTS_MAX events, Deletes and Purges count."""
    folds: dict[str, KeyFold] = {}
    dead: list[DeadLetter] = []
    events = removals = records = 0
    for record in batch:
        if events + removals >= EVENTS_MAX:
            break
        records += 1
        told = told_of(record)
        if told is None:
            continue
        id = decode_id(record.key) if record.key else None
        if id is None:
            if isinstance(told, Poison):
                dead.append(_dead_letter(name, topic.partition, record, None, told.reason))
            continue
        fold = folds.get(id)
        if fold is None:
            fold = folds[id] = KeyFold(id, heads.get(id), topic, _rows_of(topic.partition))
        entry = KeyRecord(record.offset, record.timestamp, told, record.value, user_headers(record.headers))
        events -= fold.events
        removals -= fold.removals
        reason = fold.add(entry)
        events += fold.events
        removals += fold.removals
        if reason is not None:
            dead.append(_dead_letter(name, topic.partition, record, id, reason))
    changes = [change for fold in folds.values() if (change := fold.changes()) is not None]
    return Folded(records, changes, dead, events)


def ids_of(batch: StoredBatch) -> list[str]:
    """The ids of all keys of a batch, each once."""
    _, keys, _, _ = batch.rows()
    return [] if keys is None else [id for key in set(keys) if key and (id := decode_id(key)) is not None]


def _rows_of(partition: int) -> Callable[[KeyRecord, Append, str | None, int], tuple[list[EventRow], int | None]]:
    def rows(record: KeyRecord, append: Append, life: str | None, first: int) -> tuple[list[EventRow], int | None]:
        return event_rows(
            append, record.value or b"", record.headers, partition, record.offset, record.timestamp, life, first - 1
        )

    return rows


def _dead_letter(topic: str, partition: int, record: StoredRecord, id: str | None, reason: str) -> DeadLetter:
    header = next((value for name, value in record.headers if name == "journal.action"), None)
    return DeadLetter(
        topic,
        partition,
        record.offset,
        id=id,
        reason=reason,
        timestamp=record.timestamp,
        key=record.key,
        header=header,
        value=record.value,
    )


class Replicator:
    """Replicates one topic, in a task of its own or up to an end."""

    def __init__(
        self,
        topic: JournalTopic,
        on_pointer: Callable[[int, int], None],
        on_round: Callable[[], None] = lambda: None,
        check_dead: Callable[[int, Sequence[DeadLetter]], Awaitable[None]] | None = None,
        clock: Callable[[], float] = boot_seconds,
        lease: LeaseTerm | None = None,
    ) -> None:
        self._topic = topic
        self._on_pointer = on_pointer
        self._on_round = on_round
        self._check_dead = check_dead
        self._clock = clock
        self._looked_at = clock()
        """When the pointers were read from the store: the age of a batch counts from there (R24)."""
        self._lease = lease
        self._pointers: dict[int, int | None] = {}
        self._task: asyncio.Task[None] | None = None
        self._failure: CordwoodError | None = None
        self._pause = _RETRY_SECONDS[0]
        self.stats = ReplicatorStats()

    def add(self, done: ReplicatorStats) -> None:
        """Count what another replicator of this process has done."""
        self.stats.records += done.records
        self.stats.events += done.events
        self.stats.dead += done.dead

    def start(self) -> None:
        """Replicate in the background."""
        try:
            self._topic.check_ours()
        except Conflict as error:
            self._failure = error  # the next call raises it; `catch_up(adopt=True)` ends it
            return
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def failed(self) -> bool:
        """Whether the background task has ended."""
        return self._failure is not None

    def start_again(self) -> None:
        """Replicate in the background again, after the cause of a failure was removed."""
        if self._failure is not None:
            self._failure = None
            self.start()

    def raise_failure(self) -> None:
        """Raise the error that ended the background task."""
        if self._failure is not None:
            raise copy_for_caller(self._failure)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            await self._release()

    async def catch_up(self, *, accept_loss: bool = False) -> None:
        """Replicate to the end of each partition as it is now."""
        ends: dict[int, int] = {}
        await self._load_pointers()
        starts: dict[int, int] = {}
        for partition in range(self._topic.partitions):
            start, end = await self._bounds(partition)
            if start > self._next(partition):
                if not accept_loss:
                    raise self._lost(partition, start)
                await self._accept_loss(partition, start)
            if self._next(partition) < end:
                starts[partition], ends[partition] = self._next(partition), end
        if not starts:
            return
        await self._replicate_all(self._topic.read(starts, ends))
        for partition, end in ends.items():
            # Places without a record at the end, on Kafka.
            while self._next(partition) < end:
                await self._write(partition, end - 1, [], [])

    async def replicate_to(self, partition: int, stop: int) -> None:
        """Replicate one partition up to below `stop`, from the store's pointer on."""
        await self._load_pointers()
        start, _ = await self._bounds(partition)
        if start > self._next(partition):
            await self._load_pointers()  # another replicator may have passed, and the log was trimmed
            if start > self._next(partition):
                raise self._lost(partition, start)
        if self._next(partition) >= stop:
            return
        await self._replicate_all(self._topic.read({partition: self._next(partition)}, {partition: stop}))
        while self._next(partition) < stop:
            await self._write(partition, stop - 1, [], [])

    async def accept_loss(self, partition: int) -> None:
        """Give up the records of a partition that its log no longer has, if there are any."""
        await self._load_pointers()
        start, _ = await self._bounds(partition)
        if start > self._next(partition):
            await self._accept_loss(partition, start)

    async def _run(self) -> None:
        while True:
            try:
                if self._lease is None:
                    await self._follow(range(self._topic.partitions))
                else:
                    await self._follow_leased(self._lease)
            except asyncio.CancelledError:
                raise
            except _FINAL as error:
                _LOGGER.error("the replicator of %r ended: %s", self._topic.name, error)
                self._failure = error
                return
            except Exception as error:
                if isinstance(error, Unavailable) and error.reason in ("closed", "forked"):
                    self._failure = error  # the connection is gone for good: every call says so
                    return
                failure = (
                    error
                    if isinstance(error, CordwoodError)
                    else Unavailable(f"replicating {self._topic.name!r} failed: {error!r}", reason=reason_of(error))
                )
                _LOGGER.warning(
                    "the replicator of %r failed, and tries again in %g s: %s", self._topic.name, self._pause, failure
                )
                await asyncio.sleep(self._pause)
                self._pause = min(2 * self._pause, _RETRY_SECONDS[1])

    async def _follow_leased(self, lease: LeaseTerm) -> None:
        """Follow the partitions whose leases this replicator has, and look for others' that have ended."""
        while True:
            mine = await self._take(lease)
            following = asyncio.create_task(self._follow(sorted(mine))) if mine else None
            try:
                while await self._still(following, lease) == mine:
                    pass
            finally:
                if following is not None:
                    following.cancel()
                    await asyncio.wait([following])

    async def _still(self, following: "asyncio.Task[None] | None", lease: LeaseTerm) -> set[int]:
        """The leases after the next renewal; raises the error that ended the task."""
        if following is None:
            await asyncio.sleep(lease.seconds / 3)
        else:
            await asyncio.wait([following], timeout=lease.seconds / 3)
            if following.done():
                following.result()
        return await self._take(lease)

    async def _take(self, lease: LeaseTerm) -> set[int]:
        partitions = range(self._topic.partitions)
        return await self._topic.store.take_leases(self._topic.name, partitions, lease.owner, lease.seconds)

    async def _release(self) -> None:
        """Let another process continue at once, and not only when the leases have ended."""
        if self._lease is None:
            return
        try:
            await self._topic.store.release_leases(self._topic.name, self._lease.owner)
        except CordwoodError as error:
            _LOGGER.debug("the leases of %r were not released, and end by themselves: %s", self._topic.name, error)

    async def _follow(self, partitions: Sequence[int]) -> None:
        await self._load_pointers()
        for partition in partitions:
            start, _ = await self._bounds(partition)
            if start > self._next(partition):
                await self._load_pointers()  # another replicator may have passed, and the log was trimmed
                if start > self._next(partition):
                    raise self._lost(partition, start)
        starts = {partition: self._next(partition) for partition in partitions}
        self.stats.partitions = tuple(partitions)
        try:
            await self._replicate_all(self._topic.read(starts))
        finally:
            self.stats.partitions = ()

    async def _bounds(self, partition: int) -> tuple[int, int]:
        """The bounds of a log. R23: it ends below the pointer only if a second look agrees, since a leader may lag."""
        log = self._topic.log(partition)
        start, end = await log.bounds()
        if self._next(partition) > end:
            await asyncio.sleep(self._topic.agree_seconds)
            start, end = await log.bounds()
            if self._next(partition) > end:
                raise self._recreated(partition, end)
        self.stats.ends[partition] = end
        return start, end

    async def _load_pointers(self) -> None:
        self._looked_at = self._clock()
        found = await self._topic.store.pointers(self._topic.name)
        self._pointers = {partition: found.get(partition) for partition in range(self._topic.partitions)}
        for partition, pointer in found.items():
            self._on_pointer(partition, pointer)

    def _next(self, partition: int) -> int:
        pointer = self._pointers[partition]
        return 0 if pointer is None else pointer + 1

    async def _replicate_all(self, reader: PartitionsReader) -> None:
        """Replicate what a reader gives, to its end."""
        async with Gatherer(reader, BYTES_MAX) as gatherer:
            while batches := await gatherer.take():
                for batch in batches:
                    await self._replicate(batch)
                    self._pause = _RETRY_SECONDS[0]
                    self._on_round()

    async def _replicate(self, batch: StoredBatch) -> None:
        """Fold and write a batch, in parts within the limits."""
        partition = batch.partition
        assert partition is not None
        self.stats.ends[partition] = batch.offsets[-1] + 1
        for part in split(batch, BYTES_MAX):
            while len(part):
                if self._clock() - self._looked_at > _LOOK_AGAIN_SECONDS:
                    await self._load_pointers()
                part = part[bisect_left(part.offsets, self._next(partition)) :]
                if not len(part):
                    break
                heads = await self._topic.store.heads(self._topic.name, ids_of(part))
                folded = fold_batch(part, heads, self._topic.facts(partition), self._topic.name)
                if folded.dead_letters and self._check_dead is not None:
                    await self._check_dead(partition, folded.dead_letters)
                if await self._write(partition, part.offsets[folded.records - 1], folded.keys, folded.dead_letters):
                    self.stats.records += folded.records
                    self.stats.events += folded.events
                    self.stats.dead += len(folded.dead_letters)

    async def _write(self, partition: int, pointer: int, keys: list[KeyChanges], dead: list[DeadLetter]) -> bool:
        """Write these changes, and move the pointer; False if another replicator has moved it forward meanwhile.

        The caller then continues after that pointer: every other replicator brings it nearer to its end.
        """
        next = self._next(partition)
        after = self._pointers[partition]
        changes = PartitionChanges(self._topic.name, partition, after, pointer, keys, dead, self._looked_at)
        if not await self._topic.store.write(changes):
            await self._load_pointers()
            if self._next(partition) <= next:
                raise Unavailable(
                    f"a batch of {self._topic.name}/{partition} was not written: its pointer moved back, or it is"
                    " too old",
                    reason="busy",
                )
            return False
        self._pointers[partition] = pointer
        self.stats.pointers[partition] = pointer
        self._on_pointer(partition, pointer)
        return True

    async def _accept_loss(self, partition: int, start: int) -> None:
        """R42: write the lost range to the dead letters, and continue at the first kept offset."""
        while (first := self._next(partition)) < start:
            reason = f"records {first} to {start - 1} were trimmed before they were replicated; the loss was accepted"
            lost = DeadLetter(self._topic.name, partition, first, through=start - 1, reason=reason)
            _LOGGER.warning("%s/%d: %s", self._topic.name, partition, reason)
            if await self._write(partition, start - 1, [], [lost]):
                self.stats.dead += 1

    def _lost(self, partition: int, start: int) -> Trimmed:
        first = self._next(partition)
        return Trimmed(
            f"{self._topic.name}/{partition} starts at {start}, and the store has it only up to {first - 1}: records"
            f" {first} to {start - 1} were never replicated; catch_up(accept_loss=True) accepts the loss",
            start=start,
        )

    def _recreated(self, partition: int, end: int) -> Conflict:
        return Conflict(
            f"{self._topic.name}/{partition} ends at {end}, and the store has it up to {self._next(partition) - 1}:"
            " the topic was deleted and created again, or the store belongs to another one"
        )


def split(batch: StoredBatch, bytes_max: int) -> list[StoredBatch]:
    """Parts of a batch of at most so many bytes, or of one record."""
    if batch.weight <= bytes_max or len(batch) == 1:
        return [batch]
    middle = len(batch) // 2
    return [*split(batch[:middle], bytes_max), *split(batch[middle:], bytes_max)]
