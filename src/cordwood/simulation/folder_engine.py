"""The engine of a connection on a simulated folder, for one event loop: for programs whose power fails.

It has the calls that a write-ahead log makes; others raise `NotImplementedError`. After a power cut no call returns, as
for a program on that machine. Run the program as a task, wait for the task or for `off`, and cancel the task:

folder = SimulatedFolder(seed=7)
folder.open()
engine = SimulatedEngine(folder)
region = await engine.wal("metrics").region(7)
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn, TypeVar

from cordwood.errors import NotFound
from cordwood.log import (
    Engine,
    Follow,
    Log,
    PartitionsReader,
    Reader,
    Starts,
    TopicChange,
    TopicConfig,
    TopicInfo,
)
from cordwood.log.native.folder.written_log import WrittenLog
from cordwood.log.native.stream.append import Append
from cordwood.log.native.stream.reading.cursor import LogCursor
from cordwood.records import Batch, StoredBatch, StoredRecord
from cordwood.simulation.folder import SimulatedFolder
from cordwood.simulation.power import PowerCut
from cordwood.wal import Wal

T = TypeVar("T")


class SimulatedEngine(Engine):
    """The calls of a connection, each run to its end on the folder. A power cut sets `off`; then no call returns."""

    def __init__(self, folder: SimulatedFolder) -> None:
        self.folder = folder
        self.off = asyncio.Event()

    def wal(self, name: str) -> Wal:
        """A write-ahead log on this engine, without background cleaning: the order of its calls stays the same."""
        return Wal(self, name, timeout=30, read_only=False, on_open=lambda region: None, clean_every=None)

    async def do(self, work: Callable[[], T]) -> T:
        """Run a call on the folder, unless the power is off."""
        await asyncio.sleep(0)
        if not self.off.is_set():
            try:
                return work()
            except PowerCut:
                self.off.set()
        return await self._never()

    async def _never(self) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError

    async def create_topic(self, name: str, config: TopicConfig, *, exist_ok: bool, timeout: float) -> TopicInfo:
        if name not in await self.topics("", timeout=timeout):
            await self.do(lambda: self.folder.engine.create_topic(name, config))
        return await self.topic(name, timeout=timeout)

    async def topics(self, prefix: str, *, timeout: float) -> list[str]:
        rows = await self.do(lambda: self.folder.engine.topics())
        return [row.name for row in rows if row.name.startswith(prefix)]

    async def topic(self, name: str, *, timeout: float) -> TopicInfo:
        if name not in await self.topics(name, timeout=timeout):
            raise NotFound(name)
        return TopicInfo(name, "1", 1, 1, None, None, "simulated", 4096)

    async def check(self, topic: str, parts: Mapping[int, Batch], *, timeout: float) -> None:
        raise NotImplementedError("a region appends to one partition at a time")

    async def alter_topic(self, name: str, change: TopicChange, *, timeout: float) -> TopicInfo:
        raise NotImplementedError

    async def delete_topic(self, name: str, *, timeout: float) -> None:
        raise NotImplementedError

    def log(self, topic: str, partition: int, *, timeout: float) -> Log:
        return SimulatedLog(self, topic, partition)

    def read(self, topic: str, start: Starts, **how: Any) -> PartitionsReader:
        raise NotImplementedError

    async def close(self, *, timeout: float) -> None:
        raise NotImplementedError


class _Caller:
    """The caller of an append; it never gives up."""

    def cancelled(self) -> bool:
        return False


class SimulatedLog(Log):
    """A log of the folder."""

    def __init__(self, engine: SimulatedEngine, topic: str, partition: int) -> None:
        self.topic, self.partition = topic, partition
        self.engine = engine

    async def append(self, batch: Batch, *, expected: int | None = None, timeout: float | None = None) -> Sequence[int]:
        def work() -> range:
            append = Append(batch, len(batch), _Caller(), lambda appends: None, float("inf"))
            assert self.written_log().submit(append)
            self.engine.folder.run()
            if append.error is not None:
                raise append.error
            assert append.result is not None
            return append.result

        return await self.engine.do(work)

    def read(
        self, start: int | None = None, stop: int | None = None, follow: Follow = False, topic_id: str | None = None
    ) -> Reader:
        return SimulatedReader(self, start, stop)

    async def fetch(
        self,
        offsets: Sequence[int],
        *,
        bytes_max: int | None = None,
        uncommitted: bool = False,
        timeout: float | None = None,
    ) -> list[StoredRecord]:
        raise NotImplementedError

    async def bounds(self, *, timeout: float | None = None) -> tuple[int, int]:
        view = await self.engine.do(lambda: self.written_log().extent())
        return view.start, view.durable.next_offset

    async def offset_at(self, when: datetime, *, timeout: float | None = None) -> int:
        raise NotImplementedError

    async def trim(self, before: int, *, timeout: float | None = None) -> None:
        def work() -> None:
            self.written_log().trim(before, lambda: None)
            self.engine.folder.run()

        await self.engine.do(work)

    def written_log(self) -> WrittenLog:
        """The log in the folder; it differs after each open."""
        return self.engine.folder.engine.log(self.topic, self.partition)


class SimulatedReader(Reader):
    """Reads a log to the end that it had at the first step; it follows nothing."""

    def __init__(self, log: SimulatedLog, start: int | None, stop: int | None) -> None:
        self._log = log
        self._start, self._stop = start, stop
        self._cursor: LogCursor | None = None
        self._batches: list[StoredBatch] = []

    async def __anext__(self) -> StoredBatch:
        if not self._batches:
            self._batches = await self._log.engine.do(self._read)
        if not self._batches:
            raise StopAsyncIteration
        return self._batches.pop(0)

    def _read(self) -> list[StoredBatch]:
        source = self._log.written_log()
        if self._cursor is None:
            view = source.extent()
            self._stop = view.durable.next_offset if self._stop is None else self._stop
            self._cursor = LogCursor(source, view.start if self._start is None else self._start)
        return self._cursor.read(self._stop)

    async def close(self) -> None:
        if self._cursor is not None:
            self._cursor.close()
