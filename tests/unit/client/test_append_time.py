"""`cw.append` looks up, checks and appends within one time limit."""

from collections.abc import Mapping, Sequence

import pytest

from cordwood import Batch, Client, TopicInfo, client
from cordwood.log.partitioning import partition_of
from cordwood.simulation.memory import MemoryEngine, MemoryLog, MemoryStore
from cordwood.url import parse_url

LOOKING_UP, CHECKING = 20.0, 4.0


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


class SlowLog(MemoryLog):
    async def append(self, batch: Batch, *, expected: int | None = None, timeout: float | None = None) -> Sequence[int]:
        assert isinstance(self.engine, SlowEngine)
        self.engine.given.append(("append", timeout))
        return await super().append(batch, expected=expected, timeout=timeout)


class SlowEngine(MemoryEngine):
    log_class = SlowLog

    def __init__(self, store: MemoryStore, clock: Clock) -> None:
        super().__init__(store)
        self.clock = clock
        self.given: list[tuple[str, float | None]] = []

    async def topic(self, name: str, *, timeout: float) -> TopicInfo:
        self.given.append(("topic", timeout))
        self.clock.now += LOOKING_UP
        return await super().topic(name, timeout=timeout)

    async def check(self, topic: str, parts: Mapping[int, Batch], *, timeout: float) -> None:
        self.given.append(("check", timeout))
        self.clock.now += CHECKING
        await super().check(topic, parts, timeout=timeout)


@pytest.mark.parametrize("timeout", [None, 30, 25, 21])
async def test_its_steps_share_the_time_of_the_call(monkeypatch: pytest.MonkeyPatch, timeout: float | None) -> None:
    clock = Clock()
    monkeypatch.setattr(client, "time", clock)
    engine = SlowEngine(MemoryStore(), clock)
    cw = Client(engine, parse_url("file:/in-memory"), timeout=30, read_only=False)
    await cw.create_topic("events", partitions=4)
    assert partition_of(b"zoe", 4) != partition_of(b"ann", 4)
    await cw.append("events", Batch.of([b"a", b"b"], keys=[b"zoe", b"ann"]), timeout=timeout)
    whole = 30 if timeout is None else timeout
    left = max(0, whole - LOOKING_UP - CHECKING)
    assert engine.given == [("topic", whole), ("check", whole - LOOKING_UP), ("append", left), ("append", left)]
