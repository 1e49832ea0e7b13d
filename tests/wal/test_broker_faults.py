"""R11 with a real broker: it dies, hangs and comes back under load; no ack is lost, and nothing counts twice."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Self

import pytest

import cordwood
from cordwood import Client, CordwoodError, Region, Timeout, Unavailable
from cordwood.testing.kafka import Broker, Cluster
from tests.support.wal.region_history import History

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SHORT = 4.0
"""So long writers wait for a broker that is away; one that has just started answers within it."""


class Load:
    """Writers of a region that continue through every fault."""

    def __init__(self, region: Region, writers: int = 6) -> None:
        self.history = History()
        self.errors: list[CordwoodError] = []
        self._region = region
        self._writers = writers
        self._changed = asyncio.Condition()
        self._stopping = False

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._write(writer)) for writer in range(self._writers)]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopping = True
        await asyncio.gather(*self._tasks)

    async def acks(self, count: int) -> None:
        """Wait until so many more logs are acked than now."""
        wanted = len(self.history.acked) + count
        await self._until(lambda: len(self.history.acked) >= wanted, f"{count} more acks")

    async def failures(self, count: int) -> None:
        await self._until(lambda: len(self.errors) >= count, f"{count} failures")

    async def _until(self, reached: Callable[[], bool], what: str) -> None:
        try:
            async with self._changed, asyncio.timeout(90):
                await self._changed.wait_for(reached)
        except TimeoutError:
            last = "\n".join(map(repr, self.errors[-10:]))
            pytest.fail(
                f"no {what} in 90 s: {len(self.history.acked)} acks, {len(self.errors)} errors, at last\n{last}"
            )

    async def _write(self, table: int) -> None:
        number = 0
        while not self._stopping:
            payloads = [b"%d.%d.%d" % (table, number, place) for place in range(1 + number % 3)]
            number += 1
            error = await self.history.write(self._region, table, payloads)
            if error is not None:
                self.errors.append(error)
                await asyncio.sleep(0.01)  # one that is refused at once must not take the whole machine
            async with self._changed:
                self._changed.notify_all()


async def check(cw: Client, load: Load, region: Region) -> None:
    await load.history.check(region)
    async with cw.wal("metrics").region(7) as again:
        await load.history.check(again)


@pytest.fixture(scope="module")
def breakable() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def broker(breakable: Broker) -> Iterator[Broker]:
    """A server that a test may kill and pause; the next test has it running, and without a region."""
    yield breakable
    breakable.resume()
    if not breakable.running:
        breakable.restart()
    with cordwood.sync.connect(breakable.url) as cw:
        for topic in cw.topics():
            cw.delete_topic(topic)


async def test_r11_writers_continue_through_a_broker_that_is_killed(broker: Broker) -> None:
    async with cordwood.connect(broker.url, timeout=60) as cw, cw.wal("metrics").region(7) as region:
        async with Load(region) as load:
            for _ in range(2):
                await load.acks(200)
                await asyncio.to_thread(broker.kill)
                await asyncio.to_thread(broker.restart)
            await load.acks(200)
        await check(cw, load, region)
        assert load.errors == []


async def test_r11_writers_fail_while_the_broker_is_away_and_continue_later(broker: Broker) -> None:
    async with cordwood.connect(broker.url, timeout=SHORT) as cw, cw.wal("metrics").region(7, timeout=60) as region:
        async with Load(region) as load:
            await load.acks(200)
            await asyncio.to_thread(broker.kill)
            await load.failures(12)
            await asyncio.to_thread(broker.restart)
            await load.acks(200)
        await check(cw, load, region)
        assert {type(error) for error in load.errors} <= {Timeout, Unavailable}


async def test_r11_an_append_that_times_out_counts_once_or_never(broker: Broker) -> None:
    """It may be in the broker's socket, and be written when the broker continues: after its writer got the error."""
    async with cordwood.connect(broker.url, timeout=SHORT) as cw, cw.wal("metrics").region(7, timeout=60) as region:
        async with Load(region) as load:
            for _ in range(2):
                await load.acks(100)
                broker.pause()
                await load.failures(len(load.errors) + 6)
                broker.resume()
            await load.acks(100)
        await check(cw, load, region)
        assert {type(error) for error in load.errors} <= {Timeout, Unavailable}
        assert {error.outcome for error in load.errors} <= {"unknown", "not_written"}


async def test_horaedb_1005_an_opening_ends_in_time_while_the_broker_is_away(broker: Broker) -> None:
    async with cordwood.connect(broker.url, timeout=SHORT) as cw:
        async with cw.wal("metrics").region(7, timeout=60) as region:
            await region.write(42, [b"a"])
        await asyncio.to_thread(broker.kill)
        async with asyncio.timeout(30):
            with pytest.raises((Timeout, Unavailable)):
                await cw.wal("metrics").region(7)
        await asyncio.to_thread(broker.restart)
        async with cw.wal("metrics").region(7, timeout=60) as region:
            assert await region.write(42, [b"b"]) == range(2, 3)


async def test_a_moment_in_which_the_broker_hangs_is_not_noticed(broker: Broker) -> None:
    async with cordwood.connect(broker.url, timeout=60) as cw, cw.wal("metrics").region(7) as region:
        async with Load(region) as load:
            for _ in range(3):
                await load.acks(50)
                broker.pause()
                await asyncio.sleep(0.3)  # how long it hangs: there is nothing to wait for
                broker.resume()
            await load.acks(50)
        await check(cw, load, region)
        assert load.errors == []


async def test_r19_of_a_leader_that_is_killed_under_load_no_ack_is_lost(kafka_cluster: Cluster) -> None:
    async with cordwood.connect(kafka_cluster.url, timeout=60) as cw, cw.wal("metrics").region(7) as region:
        for topic in ("metrics_data_7", "metrics_meta_7"):
            assert (await cw.topic(topic)).durability == (
                "replicated: an ack means the page cache of at least 2 of 3 replicas"
            )
        try:
            async with Load(region) as load:
                await load.acks(200)
                await asyncio.to_thread(kafka_cluster.leader("metrics_data_7").kill)
                await load.acks(200)
            await check(cw, load, region)
            assert load.errors == []
        finally:
            await asyncio.to_thread(kafka_cluster.heal)
            for topic in await cw.topics("metrics"):
                await cw.delete_topic(topic)
