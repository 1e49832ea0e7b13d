"""A real log whose appends go wrong, in every way in which an engine's can."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from cordwood import Batch, Client, Log, Reader, Timeout, TopicInfo, Unavailable, Wal
from cordwood.log import Engine, Follow, TopicChange, TopicConfig

FAULTS = ("refused", "lost", "lost, but written", "late", "prefix", "twice", "wrong order")


class FaultyLog(Log):
    """As often as `odds` says, an append is: refused; lost, with an unknown outcome, though it may be written, at once
    or later; written in part, as Kafka may; written twice; or overtaken by the next one."""

    def __init__(self, log: Log, chance: random.Random, odds: float, faults: Sequence[str]) -> None:
        self.topic, self.partition = log.topic, log.partition
        self.odds = odds
        self.made: list[str] = []
        self.went_wrong = asyncio.Event()
        self._log = log
        self._chance = chance
        self._faults = faults
        self._late: set[asyncio.Task[Any]] = set()

    async def append(self, batch: Batch, *, expected: int | None = None, timeout: float | None = None) -> Sequence[int]:
        if self._chance.random() >= self.odds:
            return await self._log.append(batch)
        fault = self._chance.choice(self._faults)
        self.made.append(fault)
        self.went_wrong.set()
        if fault == "refused":
            raise Unavailable("the disk is full", outcome="not_written", reason="full")
        if fault == "lost, but written":
            await self._log.append(batch)
        elif fault == "late":
            task = asyncio.create_task(self._after(self._chance.uniform(0, 0.01), batch))
            self._late.add(task)
        elif fault == "prefix" and len(batch) > 1:
            await self._log.append(batch[: len(batch) // 2])
        elif fault == "twice":
            await self._log.append(batch)
            return await self._log.append(batch)
        elif fault == "wrong order":
            await asyncio.sleep(self._chance.uniform(0, 0.005))
            return await self._log.append(batch)
        raise Timeout("no answer", outcome="unknown")

    async def _after(self, seconds: float, batch: Batch) -> None:
        await asyncio.sleep(seconds)
        await self._log.append(batch)

    async def settled(self) -> None:
        """Everything late has landed."""
        await asyncio.gather(*self._late)

    def read(
        self, start: int | None = None, stop: int | None = None, follow: Follow = False, topic_id: str | None = None
    ) -> Reader:
        return self._log.read(start, stop, follow, topic_id)

    async def bounds(self, *, timeout: float | None = None) -> tuple[int, int]:
        return await self._log.bounds(timeout=timeout)

    async def offset_at(self, when: datetime, *, timeout: float | None = None) -> int:
        return await self._log.offset_at(when, timeout=timeout)

    async def trim(self, before: int, *, timeout: float | None = None) -> None:
        await self._log.trim(before, timeout=timeout)


class FaultyEngine(Engine):
    """The engine of a connection, with faulty logs: those whose topics have `part` in their names."""

    def __init__(
        self, cw: Client, seed: object, odds: float, faults: Sequence[str] = FAULTS, part: str = "_data_"
    ) -> None:
        self._part = part
        self._engine = cw._engine
        self._chance = random.Random(str(seed))
        self._faults = faults
        self.odds = odds
        self.logs: list[FaultyLog] = []

    def wal(self, name: str) -> Wal:
        return Wal(self, name, timeout=30, read_only=False, on_open=lambda region: None)

    def log(self, topic: str, partition: int, *, timeout: float) -> Log:
        plain = self._engine.log(topic, partition, timeout=timeout)
        if self._part not in topic:
            return plain
        log = FaultyLog(plain, self._chance, self.odds, self._faults)
        self.logs.append(log)
        return log

    def be_well(self) -> None:
        for log in self.logs:
            log.odds = 0

    async def settled(self) -> None:
        for log in self.logs:
            await log.settled()

    async def create_topic(self, name: str, config: TopicConfig, *, exist_ok: bool, timeout: float) -> TopicInfo:
        return await self._engine.create_topic(name, config, exist_ok=exist_ok, timeout=timeout)

    async def alter_topic(self, name: str, change: TopicChange, *, timeout: float) -> TopicInfo:
        return await self._engine.alter_topic(name, change, timeout=timeout)

    async def topics(self, prefix: str, *, timeout: float) -> list[str]:
        return await self._engine.topics(prefix, timeout=timeout)

    async def topic(self, name: str, *, timeout: float) -> TopicInfo:
        return await self._engine.topic(name, timeout=timeout)

    async def delete_topic(self, name: str, *, timeout: float) -> None:
        await self._engine.delete_topic(name, timeout=timeout)

    async def check(self, topic: str, parts: Mapping[int, Batch], *, timeout: float) -> None:
        await self._engine.check(topic, parts, timeout=timeout)

    async def close(self, *, timeout: float) -> None:
        raise NotImplementedError("its connection is closed by whoever made it")


async def lose_end(cw: Client, topic: str, records: int) -> None:
    """The last records are gone, as after an unclean election, and nobody is told."""
    async with cw.log(topic).read() as reader:
        values = [value async for batch in reader for value in batch.values]
    await cw.delete_topic(topic)
    await cw.create_topic(topic)
    await cw.log(topic).append(Batch.of(values[:-records]))
