"""The server is well, and the network is not."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

import cordwood
from cordwood import Batch, Client, Log
from cordwood.log.kafka import deadline
from cordwood.testing.kafka import Broker, broker
from cordwood.testing.servers.ports import LOOPBACK, free_ports
from tests.support.kafka.proxy import Proxy

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture(scope="module")
def far() -> Iterator[Proxy]:
    """A server that all clients reach through a proxy, also those that ask whether it has started."""
    controller, port = free_ports(2)
    with Proxy(f"{LOOPBACK}:{port}") as proxy, pytest.MonkeyPatch.context() as patch:
        patch.setattr(broker, "free_ports", lambda count: [controller, port])
        with Broker({"advertised.listeners": f"PLAINTEXT://{proxy.address}"}):
            yield proxy


@pytest.fixture
async def cw(far: Proxy) -> AsyncIterator[Client]:
    async with cordwood.connect(f"kafka://{far.address}", timeout=15) as cw:
        yield cw


async def used(cw: Client, topic: str) -> Log:
    """A log of one record, that was written and read: every client has its connections."""
    await cw.create_topic(topic)
    log = cw.log(topic)
    await log.append(Batch.of([b"first"]))
    assert await read(log) == [b"first"]
    return log


async def read(log: Log) -> list[bytes | None]:
    async with log.read() as reader:
        return [value async for batch in reader for value in batch.values]


async def test_connections_that_no_answer_comes_back_on_are_left(far: Proxy, cw: Client, topic: str) -> None:
    """As when a firewall forgets them: nobody notices, and sent records may have arrived."""
    log = await used(cw, topic)
    follower = log.read(follow=True)
    assert (await anext(follower)).offsets == range(1)
    far.lose_answers()
    appended, found, bounds, names, info, _ = await asyncio.gather(
        log.append(Batch.of([b"second"])),
        read(log),
        log.bounds(),
        cw.topics(),
        cw.topic(topic),
        cw.create_topic(f"{topic}-2"),
    )
    assert appended == range(1, 2)
    assert found in ([b"first"], [b"first", b"second"])
    assert bounds in ((0, 1), (0, 2))
    assert topic in names
    assert info.name == topic
    assert (await anext(follower)).values == [b"second"]
    await follower.close()
    assert await read(log) == [b"first", b"second"], "sent again, and there once"


async def test_an_answer_that_takes_longer_than_an_attempt_comes_in_a_longer_one(
    monkeypatch: pytest.MonkeyPatch, far: Proxy, cw: Client, topic: str
) -> None:
    log = await used(cw, topic)
    monkeypatch.setattr(deadline, "ATTEMPT_SECONDS", 0.2)
    far.delay = 0.3
    try:
        assert await log.bounds() == (0, 1)
        assert await read(log) == [b"first"]
        assert (await cw.topic(topic)).name == topic
        assert topic in await cw.topics()
        await log.trim(before=1)
    finally:
        far.delay = 0.0
    assert await log.bounds() == (1, 1)
