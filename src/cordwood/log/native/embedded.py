"""The embedded engine, as a connection sees it."""

import asyncio
import math
import time
import weakref
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from cordwood.errors import Conflict, CordwoodError, InvalidInput, NotFound, TooLarge, Unavailable
from cordwood.log.interface import Engine, Log, TopicInfo
from cordwood.records import FRAME_BYTES_MAX, GROUP_WEIGHT_MAX, Batch, frame_bytes

from .bridge import LoopNotifier, call, call_until_done, wake
from .coordinator import TopicRow
from .folder import Folder, WritingFolder, open_for_reading, open_for_writing
from .folder_log import FolderLog
from .reader import NativeReader
from .stream.append import Append
from .stream.cursor import Source, offset_at

T = TypeVar("T")

_DURABILITY = "synced: an ack means fdatasync on 1 of 1 replicas"


async def open_folder(path: Path, *, timeout: float, read_only: bool) -> "EmbeddedEngine":
    """Open a folder, or share the engine that this process has open on it."""
    open_it = open_for_reading if read_only else open_for_writing
    folder = await asyncio.to_thread(open_it, path)
    return EmbeddedEngine(folder, read_only)


class EmbeddedEngine(Engine):
    """One connection to a folder."""

    def __init__(self, folder: Folder, read_only: bool) -> None:
        self._folder = folder
        self._read_only = read_only
        self._readers: weakref.WeakSet[NativeReader] = weakref.WeakSet()

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int,
        replication: int | None,
        retention: timedelta | None,
        retention_bytes: int | None,
        exist_ok: bool,
        timeout: float,
    ) -> TopicInfo:
        if replication not in (None, 1):
            raise InvalidInput(f"replication is {replication}: a folder keeps 1 copy")
        self._check_writable()
        retention_ms = None if retention is None else max(1, retention // timedelta(milliseconds=1))
        create = partial(self._folder.writing().create_topic, name, partitions, 1, retention_ms, retention_bytes)
        try:
            return _info(await self._call(timeout, f"creating topic {name!r}", create))
        except Conflict:
            if not exist_ok:
                raise
            return await self.topic(name, timeout=timeout)

    async def topics(self, prefix: str, *, timeout: float) -> list[str]:
        rows = await self._call(timeout, "listing topics", self._folder.topics)
        return sorted(row.name for row in rows if row.name.startswith(prefix))

    async def topic(self, name: str, *, timeout: float) -> TopicInfo:
        return _info(await self._call(timeout, f"looking up topic {name!r}", partial(self._folder.topic, name)))

    async def delete_topic(self, name: str, *, timeout: float) -> None:
        self._check_writable()
        delete = partial(self._folder.writing().delete_topic, name)
        await call_until_done(self._folder.executor, timeout, f"deleting topic {name!r}", delete)

    def log(self, topic: str, partition: int, *, timeout: float) -> "EmbeddedLog":
        self._folder.check()
        return EmbeddedLog(self._folder, self._readers, topic, partition, timeout, self._read_only)

    async def close(self, *, timeout: float) -> None:
        for reader in list(self._readers):
            await reader.close()
        self._folder.check()
        await asyncio.to_thread(self._folder.close, timeout)

    async def _call(self, timeout: float, what: str, function: Callable[[], T]) -> T:
        self._folder.check()
        return await call(self._folder.executor, timeout, what, function)

    def _check_writable(self) -> None:
        self._folder.check()
        _check_writable(self._read_only, self._folder)


class EmbeddedLog(Log):
    """One log of a connection to a folder."""

    def __init__(
        self,
        folder: Folder,
        readers: "weakref.WeakSet[NativeReader]",
        topic: str,
        partition: int,
        timeout: float,
        read_only: bool,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self._folder = folder
        self._readers = readers
        self._timeout = timeout
        self._read_only = read_only
        self._log: FolderLog | None = None
        self._notifier: LoopNotifier | None = None

    async def append(self, batch: Batch, *, expected: int | None = None, timeout: float | None = None) -> range:
        if self._folder.gone is not None:
            self._folder.check()
        if not isinstance(batch, Batch):
            raise TypeError(f"append takes a cordwood.Batch, not {type(batch).__name__}")
        count = len(batch)
        if not count:
            raise InvalidInput(f"{self.name}: the batch is empty: a batch has at least 1 record", outcome="not_written")
        # The exact size is only worked out where the cheap upper bound does not already say that it fits.
        if batch.weight > GROUP_WEIGHT_MAX and (size := frame_bytes(batch)) > FRAME_BYTES_MAX:
            raise TooLarge(
                f"{self.name}: the batch is {size} bytes framed, the limit is {FRAME_BYTES_MAX}: split it",
                outcome="not_written",
            )
        log = self._log or self._writable_log()
        loop = asyncio.get_running_loop()
        notifier = self._notifier
        if notifier is None or notifier.loop is not loop:
            notifier = self._notifier = LoopNotifier(loop)
        future: asyncio.Future[range] = loop.create_future()
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        append = Append(batch, count, future, notifier, deadline, expected)
        try:
            while not log.submit(append):
                await self._room(log)
        except NotFound:
            # Deleted; perhaps there is a new topic of that name.
            log = self._writable_log()
            if not log.submit(append):
                raise Unavailable(f"{self.name}: the topic was made anew just now; append again") from None
        return await future

    def read(self, start: int | None = None, stop: int | None = None, follow: bool = False) -> NativeReader:
        self._folder.check()
        end_at_call = self._end_now()
        reader = NativeReader(
            self._folder.executor,
            self._source,
            start=start,
            stop=stop,
            follow=follow,
            end_at_call=end_at_call,
            check=self._folder.check,
        )
        self._readers.add(reader)
        return reader

    async def bounds(self, *, timeout: float | None = None) -> tuple[int, int]:
        view = await self._call(timeout, "bounds", lambda: self._source().view())
        return view.start, view.durable.next_offset

    async def offset_at(self, when: datetime, *, timeout: float | None = None) -> int:
        if when.tzinfo is None:
            raise InvalidInput(f"{when!r} has no time zone: pass an aware datetime, such as datetime.now(timezone.utc)")
        timestamp = math.ceil(when.timestamp() * 1000)
        return await self._call(timeout, "offset_at", lambda: offset_at(self._source(), timestamp))

    async def trim(self, before: int, *, timeout: float | None = None) -> None:
        self._folder.check()
        _check_writable(self._read_only, self._folder)
        if before < 0:
            raise InvalidInput(f"{self.name}: cannot trim before {before}: offsets begin at 0")
        time_left = self._timeout if timeout is None else timeout
        await call_until_done(
            self._folder.executor,
            time_left,
            f"{self.name}: trim",
            lambda done: self._writable_log().trim(before, done),
        )

    def __repr__(self) -> str:
        return f"<cordwood.Log {self.name} in {self._folder.path}>"

    def _end_now(self) -> int | None:
        """Where the log ends at this moment, without I/O; None where that takes a look at the disk."""
        if not isinstance(self._folder, WritingFolder):
            return None
        try:
            return self._folder.source(self.topic, self.partition).end_now()
        except CordwoodError:
            # The reader's first step says so.
            return None

    def _source(self) -> Source:
        return self._folder.source(self.topic, self.partition)

    def _writable_log(self) -> FolderLog:
        _check_writable(self._read_only, self._folder)
        self._log = self._folder.writing().log(self.topic, self.partition)
        return self._log

    async def _room(self, log: FolderLog) -> None:
        """Back-pressure: wait until the log's queue has been taken from."""
        loop = asyncio.get_running_loop()
        room = asyncio.Event()
        log.when_room(lambda: wake(loop, room))
        await room.wait()

    async def _call(self, timeout: float | None, what: str, function: Callable[[], T]) -> T:
        self._folder.check()
        seconds = self._timeout if timeout is None else timeout
        return await call(self._folder.executor, seconds, f"{self.name}: {what}", function)


def _check_writable(read_only: bool, folder: Folder) -> None:
    if read_only:
        raise Unavailable(
            f"{folder.path} is connected with read_only=True: it cannot be written", outcome="not_written"
        )


def _info(row: TopicRow) -> TopicInfo:
    retention = None if row.retention_ms is None else timedelta(milliseconds=row.retention_ms)
    return TopicInfo(
        row.name,
        row.partitions,
        row.replication,
        retention,
        row.retention_bytes,
        _DURABILITY,
        FRAME_BYTES_MAX,
    )
