"""The time that a connection was given is that of each of its calls, unless the call has its own."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

import cordwood
from cordwood import Client, Log, Timeout, TopicInfo
from cordwood.log import TopicChange, TopicConfig
from cordwood.simulation.memory import MemoryEngine, MemoryLog, MemoryStore
from cordwood.url import parse_url


class Noting(MemoryEngine):
    """Notes the time that each call is given."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.given: list[tuple[str, float]] = []

    async def create_topic(self, name: str, config: TopicConfig, *, exist_ok: bool, timeout: float) -> TopicInfo:
        self.given.append(("create_topic", timeout))
        return await super().create_topic(name, config, exist_ok=exist_ok, timeout=timeout)

    async def alter_topic(self, name: str, change: TopicChange, *, timeout: float) -> TopicInfo:
        self.given.append(("alter_topic", timeout))
        return await super().alter_topic(name, change, timeout=timeout)

    async def topics(self, prefix: str, *, timeout: float) -> list[str]:
        self.given.append(("topics", timeout))
        return await super().topics(prefix, timeout=timeout)

    async def topic(self, name: str, *, timeout: float) -> TopicInfo:
        self.given.append(("topic", timeout))
        return await super().topic(name, timeout=timeout)

    async def delete_topic(self, name: str, *, timeout: float) -> None:
        self.given.append(("delete_topic", timeout))
        await super().delete_topic(name, timeout=timeout)

    def log(self, topic: str, partition: int, *, timeout: float) -> MemoryLog:
        self.given.append(("log", timeout))
        return super().log(topic, partition, timeout=timeout)

    async def close(self, *, timeout: float) -> None:
        self.given.append(("close", timeout))
        await super().close(timeout=timeout)


@pytest.mark.parametrize(("own", "time"), [(None, 7), (3, 3)])
async def test_each_call_has_the_time_of_the_connection_or_its_own(own: float | None, time: float) -> None:
    engine = Noting()
    cw = Client(engine, parse_url("file:/in-memory"), timeout=7, read_only=False)
    await cw.create_topic("events", timeout=own)
    await cw.alter_topic("events", retention_bytes=1000, timeout=own)
    await cw.topics(timeout=own)
    await cw.topic("events", timeout=own)
    cw.log("events")
    await cw.delete_topic("events", timeout=own)
    await cw.close()
    asked = ["create_topic", "alter_topic", "topics", "topic", "log", "delete_topic", "close"]
    assert engine.given == [(call, 7 if call in {"log", "close"} else time) for call in asked]


@pytest.mark.parametrize(
    "call",
    [
        lambda log, **own: log.bounds(**own),
        lambda log, **own: log.offset_at(datetime.now(UTC), **own),
        lambda log, **own: log.trim(before=0, **own),
    ],
    ids=["bounds", "offset_at", "trim"],
)
async def test_so_has_each_call_on_a_log_of_a_folder(tmp_path: Path, call: Callable[..., Awaitable[object]]) -> None:
    async with cordwood.connect(tmp_path / "data") as cw:
        await cw.create_topic("events")
        log: Log = cw._engine.log("events", 0, timeout=0)
        with pytest.raises(Timeout):
            await call(log)
        await call(log, timeout=30)
