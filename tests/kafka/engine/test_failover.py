"""Three brokers, three replicas: the leader dies under load, and nobody loses an ack."""

import asyncio

import pytest

import cordwood
from cordwood.testing.kafka import Cluster
from tests.kafka.engine.load import Load, until

pytestmark = pytest.mark.processes


async def test_a_topic_of_a_cluster_has_three_replicas_of_which_two_must_have_a_record(
    kafka_cluster: Cluster, topic: str
) -> None:
    async with cordwood.connect(kafka_cluster.url) as cw:
        info = await cw.create_topic(topic, partitions=2)
    assert info.replication == 3
    assert info.durability == "replicated: an ack means the page cache of at least 2 of 3 replicas"


async def test_of_a_leader_that_is_killed_under_load_no_ack_is_lost_and_no_record_is_there_twice(
    kafka_cluster: Cluster, topic: str
) -> None:
    async with cordwood.connect(kafka_cluster.url) as cw:
        await cw.create_topic(topic)
        log = cw.log(topic)
        load = Load(log)
        following: list[bytes | None] = []

        async def follow() -> None:
            async for batch in log.read(follow=True):
                following.extend(batch.values)

        follower = asyncio.ensure_future(follow())
        try:
            for _ in range(2):
                await load.some()
                await asyncio.to_thread(kafka_cluster.leader(topic).kill)
                await load.some()
                await asyncio.to_thread(kafka_cluster.heal)
        finally:
            await load.stop()
        await load.check()
        everything = [value async for batch in log.read() for value in batch.values]
        await until(lambda: len(following) >= len(everything) or follower.done())
        if follower.done():
            follower.result()
        follower.cancel()
        assert following == everything
