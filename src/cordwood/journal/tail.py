"""The tail reader: follows the partitions of a topic that this process uses, and keeps their heads.

A partition joins at its first use, at pointer + 1 of the store. The writer feeds its own records as they are acked, if
no other record is between them. The tail reader reads the log only where records of others are: one reader for all
partitions. It belongs to one event loop.
"""

import asyncio
import heapq
import logging
from collections.abc import Callable
from itertools import count

from cordwood.errors import Conflict, CordwoodError, Trimmed, Unavailable, reason_of
from cordwood.log.calls.outcome import copy_for_caller
from cordwood.log.interface import PartitionsReader
from cordwood.records import StoredBatch

from .head import KeptBytes, PartitionHead
from .topic import JournalTopic

_LOGGER = logging.getLogger("cordwood.journal")

_POINTER_SECONDS = 1.0
_PASS_SECONDS = 0.05
"""How often a waiting reader looks whether there is no record at all before its offset."""
_OWN_ONLY_SECONDS = 5.0
"""A partition to which nobody else has appended for so long is no longer read: the writer knows its own records."""
_IDLE_SECONDS = 600.0
_AGREE_SECONDS = 3.0

OnFed = Callable[[PartitionHead, StoredBatch], None]


class Tail:
    """The heads of the partitions in use."""

    def __init__(self, topic: JournalTopic, head_bytes_max: int) -> None:
        self._topic = topic
        self._kept = KeptBytes(head_bytes_max)
        self._heads: dict[int, PartitionHead] = {}
        self._joining: dict[int, asyncio.Task[PartitionHead]] = {}
        self._waiting: dict[int, list[tuple[int, int, asyncio.Future[None]]]] = {}
        self._order = count()
        self._reader: PartitionsReader | None = None
        self._followed: set[int] = set()
        self._held: dict[int, int] = {}  # partitions that stay followed, by how many of their followers
        self._joined: dict[int, int] = {}  # the ends of the logs when their partitions joined
        self._foreign_at: dict[int, float] = {}
        self._owed: dict[int, int] = {}  # one past the last record that was fed and not taken, by partition
        self._used_at: dict[int, float] = {}
        self._unfollowed_at = 0.0
        self._pointers: dict[int, int] = {}
        self._reading: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self.on_read: list[OnFed] = []
        """Called with each batch of records that was read from the log, before callers that wait for it wake up."""
        self.on_fed: list[OnFed] = []
        """Called with each batch of records that a head has taken, also with this process's own."""
        self.on_pointer: list[Callable[[int, int], None]] = []
        self.on_passed: list[Callable[[int], None]] = []
        """Called with a partition whose head continues after records that it has not taken: the store has them."""
        self.on_failed: list[Callable[[CordwoodError], None]] = []
        """Called when the tail reader has failed or is closed: no further batch comes."""
        self._closed: Unavailable | None = None

    @property
    def heads(self) -> dict[int, PartitionHead]:
        return self._heads

    @property
    def kept_bytes(self) -> int:
        return self._kept.bytes

    async def head(self, partition: int) -> PartitionHead:
        """The head of a partition, which joins if it is not followed yet."""
        self._check_open()
        self._used_at[partition] = self._loop.time()
        head = self._heads.get(partition)
        if head is not None:
            return head
        joining = self._joining.get(partition)
        if joining is None:
            joining = self._joining[partition] = self._loop.create_task(self._join(partition))
            joining.add_done_callback(lambda _: self._joining.pop(partition, None))
        try:
            return await asyncio.shield(joining)
        except asyncio.CancelledError:
            self._check_open_after(joining)
            raise

    async def reach(self, partition: int, offset: int) -> None:
        """Wait until the head has all records below this offset."""
        self._check_open()
        head = self._heads[partition]
        if head.upper >= offset:
            return
        self.follow(partition)
        future: asyncio.Future[None] = self._loop.create_future()
        heapq.heappush(self._waiting.setdefault(partition, []), (offset, next(self._order), future))
        try:
            while True:
                done, _ = await asyncio.wait([future], timeout=_PASS_SECONDS)
                if done:
                    return future.result()
                if self._reader is not None and partition in self._followed:
                    # On Kafka there may be places without a record, such as the marks of transactions.
                    head.pass_to(self._reader.position(partition))
                    self._wake(head)
        finally:
            future.cancel()

    async def know(self, partition: int) -> PartitionHead:
        """The head of a partition, with all records that the log had when the partition joined."""
        head = await self.head(partition)
        if head.upper < self._joined[partition]:
            await self.reach(partition, self._joined[partition])
        return head

    def feed(self, partition: int, batch: StoredBatch) -> bool:
        """Take records that this process has appended; False if there are unknown ones before or between them."""
        head = self._heads[partition]
        if batch.offsets[0] != head.upper or batch.offsets[-1] - head.upper >= len(batch):
            # Records of others are before or between them, or the tail reader has them already. If neither holds, the
            # topic was created again, and the tail reader notices that.
            self._owed[partition] = batch.offsets[-1] + 1
            self._foreign_at[partition] = self._loop.time()
            self.follow(partition)
            return False
        head.feed(batch)
        for listener in self.on_fed:
            listener(head, batch)
        self._wake(head)
        return True

    def follow(self, partition: int) -> None:
        """Read the partition from now on; without an effect if it is read already."""
        if partition in self._followed:
            return
        self._followed.add(partition)
        self._foreign_at[partition] = self._loop.time()
        upper = self._heads[partition].upper
        if self._reader is None:
            self._reader = self._topic.read({partition: upper})
            self._reading = self._loop.create_task(self._read(self._reader))
        else:
            self._reader.add(partition, upper)

    def hold(self, partition: int) -> None:
        """Follow a partition until `release`, whoever appends to it."""
        self._held[partition] = self._held.get(partition, 0) + 1
        self.follow(partition)

    def release(self, partition: int) -> None:
        self._held[partition] -= 1
        if not self._held[partition]:
            del self._held[partition]

    @property
    def pointers(self) -> dict[int, int]:
        return dict(self._pointers)

    def pointer(self, partition: int) -> int:
        """The pointer as it was last seen; -1 if there was none."""
        return self._pointers.get(partition, -1)

    def set_pointer(self, partition: int, pointer: int) -> None:
        """The store has all records up to this offset: the head drops them."""
        if pointer <= self._pointers.get(partition, -1):
            return
        self._pointers[partition] = pointer
        self.drop_replicated(partition)
        for listener in self.on_pointer:
            listener(partition, pointer)

    def drop_replicated(self, partition: int) -> None:
        """Drop the records that the store has, as far as nobody pins them."""
        head = self._heads.get(partition)
        if head is None:
            return
        upper = head.upper
        head.drop_before(self.pointer(partition) + 1)
        self._wake(head)
        if head.upper > upper:
            for listener in self.on_passed:
                listener(partition)

    async def refresh_pointers(self) -> None:
        """Look at the store's pointers, which another process may move."""
        for partition, pointer in (await self._topic.store.pointers(self._topic.name)).items():
            self.set_pointer(partition, pointer)

    async def close(self) -> None:
        """Stop reading. Every caller that waits gets `Unavailable`."""
        self._closed = Unavailable(f"journal {self._topic.name!r} was closed", reason="closed")
        for task in (self._watching, self._reading, *self._joining.values()):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        if self._reader is not None:
            await self._reader.close()
        self._fail(self._closed)
        self._heads.clear()

    def _check_open(self) -> None:
        if self._closed is not None:
            raise copy_for_caller(self._closed)

    def _check_open_after(self, joining: "asyncio.Task[PartitionHead]") -> None:
        """`close` has cancelled the task, and not the caller that waits for it."""
        if joining.cancelled():
            self._check_open()

    async def _join(self, partition: int) -> PartitionHead:
        """R42: a log that starts above pointer + 1 has lost records; R23: one that ends at the pointer is another."""
        log = self._topic.log(partition)
        agreed: tuple[int, int, int] | None = None
        while True:
            await self.refresh_pointers()
            pointer = self._pointers.get(partition, -1)
            start, end = await log.bounds()
            if start <= pointer + 1 <= end:
                head = self._heads[partition] = PartitionHead(partition, pointer + 1, self._kept)
                self._joined[partition] = end
                self._watch()
                return head
            found = (pointer, start, end)
            if found == agreed:
                raise self._lost(partition, pointer, start, end)
            # A trim or a new leader may explain it: the answer must be the same a second time.
            agreed = found
            await asyncio.sleep(self._topic.agree_seconds if pointer >= end else 0)

    def _lost(self, partition: int, pointer: int, start: int, end: int) -> CordwoodError:
        log = f"{self._topic.name}/{partition}"
        if pointer >= end:
            return Conflict(
                f"{log} ends at {end}, and the store {self._topic.store.url} has it up to {pointer}: the topic was"
                " deleted and created again, or the store belongs to another one; use a new store, or copy into a new"
                " topic"
            )
        return Trimmed(
            f"{log} starts at {start}, and the store has it only up to {pointer}: records {pointer + 1} to {start - 1}"
            " were never replicated; catch_up(accept_loss=True) accepts the loss",
            start=start,
        )

    async def _read(self, reader: PartitionsReader) -> None:
        try:
            async for batch in reader:
                partition = batch.partition
                assert partition is not None
                head = self._heads.get(partition)
                if head is None or partition not in self._followed:
                    continue
                if batch.offsets[-1] < head.upper:
                    continue
                new = head.feed(batch)
                self._foreign_at[partition] = self._loop.time()
                for listener in (*self.on_read, *self.on_fed):
                    listener(head, new)
                self._wake(head)
            raise Unavailable(f"the tail reader of {self._topic.name!r} ended", reason="failed")
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._reader = None
            self._followed.clear()
            await reader.close()
            await self._on_reader_failed(error)

    async def _on_reader_failed(self, error: Exception) -> None:
        """Callers that wait raise the error; the next one starts a new reader."""
        if isinstance(error, Trimmed):
            try:
                if await self._continue_after_trim():
                    return
            except CordwoodError as again:
                error = again
        if not isinstance(error, CordwoodError):
            cause, error = (
                error,
                Unavailable(f"reading {self._topic.name!r} failed: {error!r}", reason=reason_of(error)),
            )
            error.__cause__ = cause
        _LOGGER.warning("the tail reader of %r failed: %s", self._topic.name, error)
        self._fail(error)

    async def _continue_after_trim(self) -> bool:
        """The replicator has passed, and the log was trimmed: heads that nobody pins continue after the pointer.

        False if a partition that is needed has lost records.
        """
        await self.refresh_pointers()
        needed = {partition for partition, waiters in self._waiting.items() if waiters} | self._held.keys()
        # An append under way pins its head: only records that are read decide it.
        needed |= {partition for partition, head in self._heads.items() if head.pinned}
        for partition in needed & self._heads.keys():
            start, _ = await self._topic.log(partition).bounds()
            if start > self._heads[partition].upper:
                return False
        for partition in needed & self._heads.keys():
            self.follow(partition)
        return True

    def _wake(self, head: PartitionHead) -> None:
        waiting = self._waiting.get(head.partition)
        while waiting and waiting[0][0] <= head.upper:
            future = heapq.heappop(waiting)[2]
            if not future.done():
                future.set_result(None)

    def _fail(self, error: CordwoodError) -> None:
        waiting, self._waiting = self._waiting, {}
        for waiters in waiting.values():
            for _, _, future in waiters:
                if not future.done():
                    future.set_exception(copy_for_caller(error))
        for listener in list(self.on_failed):
            listener(error)

    def _watch(self) -> None:
        if self._watching is None or self._watching.done():
            self._watching = self._loop.create_task(self._watch_pointers())

    async def _watch_pointers(self) -> None:
        """Drop replicated records; leave partitions that nobody uses, and stop reading those that only we append to.

        It ends, with the reader, when no partition is left.
        """
        while True:
            await asyncio.sleep(_POINTER_SECONDS)
            try:
                if any(head.lower < head.upper for head in self._heads.values()):
                    await self.refresh_pointers()
            except CordwoodError as error:
                # Reads need the store themselves, and raise; the head only grows meanwhile, within its limits.
                _LOGGER.debug("the pointers of %r could not be read: %s", self._topic.name, error)
            now = self._loop.time()
            for partition, head in list(self._heads.items()):
                if self._waiting.get(partition) or partition in self._held:
                    continue
                if partition in self._followed and self._is_own_only(head, now):
                    self._unfollow(partition)
                if not head.pinned and now - self._used_at[partition] > _IDLE_SECONDS:
                    self._unfollow(partition)
                    self._kept.discard(head)
                    del self._heads[partition]
            if not self._followed and (not self._heads or now - self._unfollowed_at > _IDLE_SECONDS):
                await self._end_reader()
            if not self._heads:
                return

    async def _end_reader(self) -> None:
        """Give back what an idle reader holds, a client on Kafka; the next partition to follow starts a new one."""
        reader, reading = self._reader, self._reading
        if reader is None or reading is None:
            return
        self._reader = self._reading = None
        reading.cancel()
        try:
            await asyncio.wait([reading])
        finally:
            await reader.close()

    def _is_own_only(self, head: PartitionHead, now: float) -> bool:
        """Whether nobody else has appended lately, and no own record is behind one of others that is still to be read.

        R21: reading decides that one, however long the log takes to answer.
        """
        if head.upper < self._owed.get(head.partition, 0):
            return False
        return now - self._foreign_at[head.partition] > _OWN_ONLY_SECONDS

    def _unfollow(self, partition: int) -> None:
        if partition in self._followed:
            self._followed.discard(partition)
            self._unfollowed_at = self._loop.time()
            if self._reader is not None:
                self._reader.drop(partition)
