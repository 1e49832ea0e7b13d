"""A topic that the server's retention cuts: `Trimmed`, with the first kept offset, and never a silent jump."""

import asyncio
from datetime import timedelta

import pytest

import cordwood
from cordwood import Batch, Client, Log, Trimmed
from cordwood.testing.kafka import Broker
from tests.support.kafka import bare_client

pytestmark = pytest.mark.slow


async def test_what_retention_cut_is_trimmed(broker: Broker, topic: str) -> None:
    async with cordwood.connect(broker.url) as cw:
        log = await cut_soon(cw, broker, topic)
        await log.append(Batch.of([b"old"]))
        first = await until_cut(log)
        with pytest.raises(Trimmed) as caught:
            await anext(log.read(start=0))
        assert caught.value.start >= first
        assert (await log.bounds())[1] >= caught.value.start
        # From the first kept offset on it can be read, and appended to.
        (offset,) = await log.append(Batch.of([b"new"]))
        assert offset >= first


async def test_a_follower_that_fell_behind_is_told(broker: Broker, topic: str) -> None:
    async with cordwood.connect(broker.url) as cw:
        log = await cut_soon(cw, broker, topic)
        (offset,) = await log.append(Batch.of([b"old"]))
        await until_cut(log)
        async with log.read(start=offset, follow=True) as reader:
            with pytest.raises(Trimmed):
                await anext(reader)


async def test_what_retention_cuts_while_it_is_read_is_told_and_never_skipped(broker: Broker, topic: str) -> None:
    never = {"segment.bytes": "1048576", "retention.ms": "-1", "file.delete.delay.ms": "0"}
    bare_client.create(broker.bootstrap, topic, settings=never)
    async with cordwood.connect(broker.url) as cw:
        log = cw.log(topic)
        for _ in range(64):
            await log.append(Batch.of([bytes(900_000)]))
        async with log.read() as reader:
            read = list((await anext(reader)).offsets)
            bare_client.configure(broker.bootstrap, topic, {"retention.bytes": "3000000"})
            first = await until_cut(log, 56)
            with pytest.raises(Trimmed) as caught:
                async for batch in reader:
                    read += batch.offsets
        assert read == list(range(len(read)))
        assert caught.value.start >= first


async def cut_soon(cw: Client, broker: Broker, topic: str) -> Log:
    """A topic whose records are past their time once their segment is closed, which is soon."""
    await cw.create_topic(topic, retention=timedelta(milliseconds=1))
    bare_client.configure(broker.bootstrap, topic, {"segment.ms": "300", "file.delete.delay.ms": "0"})
    return cw.log(topic)


async def until_cut(log: Log, at_least: int = 1) -> int:
    """Wait until retention has taken so many records; the first kept offset."""
    async with asyncio.timeout(60):
        while True:
            start, _ = await log.bounds()
            if start >= at_least:
                return start
            await asyncio.sleep(0.05)
