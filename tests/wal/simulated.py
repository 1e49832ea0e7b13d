"""The engine of a connection on a simulated disk, for one event loop: what a region's logs do when the power fails."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NoReturn, TypeVar

from cordwood import Batch, Log, NotFound, Reader, StoredBatch, TopicInfo, Wal
from cordwood.log import Engine, Follow, TopicChange, TopicConfig
from cordwood.log.native.folder.written_log import WrittenLog
from cordwood.log.native.stream.append import Append
from cordwood.log.native.stream.reading.cursor import LogCursor
from cordwood.simulation.folder import SimulatedFolder
from cordwood.simulation.power import PowerCut

T = TypeVar("T")


class SimulatedEngine(Engine):
    """When the power fails, `off` is set, and no call returns any more: as to a program on that machine."""

    def __init__(self, folder: SimulatedFolder) -> None:
        self.folder = folder
        self.off = asyncio.Event()

    def wal(self, name: str) -> Wal:
        return Wal(self, name, timeout=30, read_only=False, on_open=lambda region: None, clean_every=None)

    async def do(self, work: Callable[[], T]) -> T:
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

    async def close(self, *, timeout: float) -> None:
        raise NotImplementedError


class _Caller:
    def cancelled(self) -> bool:
        return False


class SimulatedLog(Log):
    def __init__(self, engine: SimulatedEngine, topic: str, partition: int) -> None:
        self.topic, self.partition = topic, partition
        self.engine = engine

    async def append(self, batch: Batch, *, expected: int | None = None, timeout: float | None = None) -> Sequence[int]:
        def work() -> range:
            append = Append(batch, len(batch), _Caller(), lambda appends: None, float("inf"))
            assert self._log().submit(append)
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

    async def bounds(self, *, timeout: float | None = None) -> tuple[int, int]:
        view = await self.engine.do(lambda: self._log().extent())
        return view.start, view.durable.next_offset

    async def offset_at(self, when: datetime, *, timeout: float | None = None) -> int:
        raise NotImplementedError

    async def trim(self, before: int, *, timeout: float | None = None) -> None:
        def work() -> None:
            self._log().trim(before, lambda: None)
            self.engine.folder.run()

        await self.engine.do(work)

    def _log(self) -> WrittenLog:
        return self.engine.folder.engine.log(self.topic, self.partition)


class SimulatedReader(Reader):
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
        source = self._log._log()
        if self._cursor is None:
            view = source.extent()
            self._stop = view.durable.next_offset if self._stop is None else self._stop
            self._cursor = LogCursor(source, view.start if self._start is None else self._start)
        return self._cursor.read(self._stop)

    async def close(self) -> None:
        if self._cursor is not None:
            self._cursor.close()
