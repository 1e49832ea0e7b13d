"""A log whose appends go wrong in every way in which those of an engine can, chosen by a seed.

| fault | the append is | its caller gets |
|---|---|---|
| refused | not written | `Unavailable`, outcome `not_written` |
| lost | not written | `Timeout`, outcome `unknown` |
| lost, but written | written | `Timeout`, outcome `unknown` |
| late | written a moment later, after other appends | `Timeout`, outcome `unknown` |
| prefix | written in part, as Kafka may | `Timeout`, outcome `unknown` |
| twice | written twice | the offsets of the second copy |
| wrong order | overtaken by the next append | its offsets |

engine = FaultyEngine(client, seed=7, odds=0.2)
region = await engine.wal("metrics").region(7)
...
engine.heal()
await engine.settle()
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from cordwood.client import Client
from cordwood.errors import Conflict, InvalidInput, Timeout, Unavailable
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
from cordwood.records import Batch, StoredRecord
from cordwood.wal import Wal

FAULTS = ("refused", "lost", "lost, but written", "late", "prefix", "twice", "wrong order")


class FaultyLog(Log):
    """A log of which each append goes wrong with the probability `odds`, by one of `faults`.

    `made` has the faults so far, and `went_wrong` is set by the first one. All other calls go to the log as they are.
    """

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
            return await self._log.append(batch, expected=expected, timeout=timeout)
        fault = self._chance.choice(self._faults)
        self.made.append(fault)
        self.went_wrong.set()
        if fault == "refused":
            raise Unavailable("the disk is full", outcome="not_written", reason="full")
        if fault == "lost, but written":
            await self._log.append(batch, expected=expected)
        elif fault == "late":
            task = asyncio.create_task(self._append_late(self._chance.uniform(0, 0.01), batch, expected))
            self._late.add(task)
        elif fault == "prefix" and len(batch) > 1:
            await self._log.append(batch[: len(batch) // 2], expected=expected)
        elif fault == "twice":
            await self._log.append(batch, expected=expected)
            return await self._log.append(batch)
        elif fault == "wrong order":
            await asyncio.sleep(self._chance.uniform(0, 0.005))
            return await self._log.append(batch, expected=expected)
        raise Timeout("no answer", outcome="unknown")

    async def _append_late(self, seconds: float, batch: Batch, expected: int | None) -> None:
        await asyncio.sleep(seconds)
        try:
            await self._log.append(batch, expected=expected)
        except Conflict:
            return  # others were faster; its caller has its answer already

    async def settle(self) -> None:
        """Wait until all late appends are written."""
        await asyncio.gather(*self._late)

    def read(
        self, start: int | None = None, stop: int | None = None, follow: Follow = False, topic_id: str | None = None
    ) -> Reader:
        return self._log.read(start, stop, follow, topic_id)

    async def fetch(
        self,
        offsets: Sequence[int],
        *,
        bytes_max: int | None = None,
        uncommitted: bool = False,
        timeout: float | None = None,
    ) -> list[StoredRecord]:
        return await self._log.fetch(offsets, bytes_max=bytes_max, uncommitted=uncommitted, timeout=timeout)

    async def bounds(self, *, timeout: float | None = None) -> tuple[int, int]:
        return await self._log.bounds(timeout=timeout)

    async def offset_at(self, when: datetime, *, timeout: float | None = None) -> int:
        return await self._log.offset_at(when, timeout=timeout)

    async def trim(self, before: int, *, timeout: float | None = None) -> None:
        await self._log.trim(before, timeout=timeout)


class FaultyEngine(Engine):
    """An engine, or that of a connection, with faulty logs: those whose topics have `part` in their names.

    The default is the data logs of write-ahead logs. `logs` has the faulty ones, in the order in which they were made.
    """

    def __init__(
        self, of: Client | Engine, seed: object, odds: float, faults: Sequence[str] = FAULTS, part: str = "_data_"
    ) -> None:
        if unknown := set(faults) - set(FAULTS):
            raise InvalidInput(f"no such faults: {sorted(unknown)}; there are {FAULTS}")
        self._part = part
        self._engine = of._engine if isinstance(of, Client) else of
        self._chance = random.Random(str(seed))
        self._faults = faults
        self.odds = odds
        self.logs: list[FaultyLog] = []

    def wal(self, name: str) -> Wal:
        """A write-ahead log on this engine."""
        return Wal(self, name, timeout=30, read_only=False, on_open=lambda region: None)

    def log(self, topic: str, partition: int, *, timeout: float) -> Log:
        plain = self._engine.log(topic, partition, timeout=timeout)
        if self._part not in topic:
            return plain
        log = FaultyLog(plain, self._chance, self.odds, self._faults)
        self.logs.append(log)
        return log

    def heal(self) -> None:
        """From now on nothing goes wrong in the logs that exist."""
        for log in self.logs:
            log.odds = 0

    async def settle(self) -> None:
        """Wait until all late appends are written."""
        for log in self.logs:
            await log.settle()

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

    def read(self, topic: str, start: Starts, **how: Any) -> PartitionsReader:
        return self._engine.read(topic, start, **how)

    async def close(self, *, timeout: float) -> None:
        raise NotImplementedError("close the connection that this engine wraps")


async def lose_end(cw: Client, topic: str, records: int) -> None:
    """Lose the last records of a topic, as Kafka does in an unclean election, without a trace."""
    async with cw.log(topic).read() as reader:
        values = [value async for batch in reader for value in batch.values]
    await cw.delete_topic(topic)
    await cw.create_topic(topic)
    await cw.log(topic).append(Batch.of(values[:-records]))
